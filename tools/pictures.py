"""Screenshots of pages of the gallery, for docs/. `python -m tools.pictures` takes them with Chromium."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Final

from regraft.view import Page
from tests.view.browser import Browser, start

from .gallery import FOLDER as GALLERY
from .gallery import ROOT

PICTURES: Final = ROOT / "docs" / "pictures"
SIZE: Final = (1440, 860)


def main() -> None:
    """Take all screenshots."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        driver = start(Path(folder) / "profile")
        try:
            browser = Browser(driver)
            driver.set_window_size(*SIZE)
            for name, (model, take) in TAKES.items():
                data = json.loads(gzip.decompress((GALLERY / f"{model}.json.gz").read_bytes()))
                take(browser, Page(data).write(Path(folder) / f"{name}.html"))
                driver.save_screenshot(str(PICTURES / f"{name}.png"))
        finally:
            driver.quit()


def _compare(browser: Browser, page: Path) -> None:
    """Show the three matmuls of one attention beside the one that they were combined into."""
    browser.open(page, "graph")
    browser.search("layer.3 attention self matmul")
    browser.click(".found button")
    browser.click("#tab-compare")
    browser.first("section[aria-label=After] .node.chosen")
    browser.first("section[aria-label=Before] .node.chosen")
    _settled(browser)


def _steps(browser: Browser, page: Path) -> None:
    """Show the rewrite that combines the first three matmuls."""
    browser.open(page, "steps")
    browser.first(".node")
    while not browser.first("input[type=range]").get_attribute("aria-valuetext").startswith("CombineParallelMatmul"):
        browser.click("[aria-label='Next step']")
    _settled(browser)


def _why(browser: Browser, page: Path) -> None:
    """Show the nearest miss of all rules."""
    browser.open(page, "why")
    browser.first(".node")
    _settled(browser)


def _settled(browser: Browser) -> None:
    """Wait until the page has not changed for about a second."""

    def shown() -> str:
        return browser.run("return document.querySelector('main').innerHTML")

    last, same = "", 0
    while same < 8:
        now = shown()
        same = same + 1 if now == last else 0
        last = now
        browser.run("return new Promise(done => setTimeout(done, 150))")


TAKES: Final = {
    "compare": ("bert", _compare),
    "steps": ("bert", _steps),
    "why": ("stable_diffusion_unet", _why),
}
"""For each screenshot, the model of the gallery and the function that brings the page into its state."""


if __name__ == "__main__":
    main()
