"""A real browser for the tests of the page: Debian's Chromium without a window, driven by Selenium."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 60
"""Seconds after which something that does not appear is taken to be missing, on however busy a machine."""

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1500,950",
)


def start(profile: Path) -> webdriver.Chrome:
    """A browser with a fresh profile; raises where Chromium is not installed."""
    paths = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in paths:
        raise RuntimeError(
            "these tests drive Chromium: `make browser` installs it, or apt-get install chromium chromium-driver"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = str(paths[0])
    for option in (*_OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(str(paths[1])))


class Browser:
    """The actions of a person with a page."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, tab: str = "") -> None:
        """Open a page from disk and wait until it can be used."""
        self.driver.get("about:blank")
        self.driver.get(f"{page.as_uri()}#{tab}")
        self.wait(lambda: self.run("return document.documentElement.dataset.ready"))

    def run(self, script: str, *arguments: Any) -> Any:
        """The result of a script."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, holds: Callable[[], Any]) -> Any:
        """The result of ``holds`` as soon as that is true."""
        return WebDriverWait(self.driver, PATIENCE, poll_frequency=0.05).until(lambda _: holds())

    def all(self, selector: str) -> list[WebElement]:
        """The elements that a selector finds now."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def first(self, selector: str) -> WebElement:
        """The first element that a selector finds, as soon as there is one."""
        return self.wait(lambda: self.all(selector))[0]

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that a selector finds, those out of sight as well."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)", selector)

    def click(self, selector: str, kind: str = "click") -> None:
        """Click on the first element that a selector finds, as soon as there is one."""
        self.first(selector)
        self.run(
            "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent(arguments[1], {bubbles: true}))",
            selector,
            kind,
        )

    def search(self, words: str) -> None:
        """Type words into the search box."""
        box = self.first("input[type=search]")
        box.clear()
        box.send_keys(words)

    def press(self, selector: str, *keys: str) -> None:
        """Press keys while an element has the focus."""
        self.run("document.querySelector(arguments[0]).focus()", selector)
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def problems(self) -> list[str]:
        """The complaints of the browser since this was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]
