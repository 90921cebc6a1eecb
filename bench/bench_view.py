"""The page of a program: the time to make it, its size, and the time until it can be used in a browser.

Programs have 500 to 20,000 bindings. Times in the browser start at the beginning of the navigation, and are the least
of several openings from disk; the graph opens closed. Needs Chromium and its driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench import models
from bench.table import Table
from regraft.ir import IRModule
from regraft.view import view
from tests.view.browser import Browser, start
from tests.view.programs import layers

OPENINGS: Final = 5
PATIENCE: Final = 2.0
"""The number of seconds within which a graph of 20,000 bindings has to be usable."""

PROGRAMS: Final[dict[str, tuple[Callable[[], IRModule], str | None]]] = {
    "BERT base, default level": (lambda: _from(models.bert), "default"),
    "Stable Diffusion 1.5 UNet": (lambda: _from(models.stable_diffusion_15), None),
    "Stable Diffusion 1.5 UNet, default level": (lambda: _from(models.stable_diffusion_15), "default"),
    "4,000 layers of five": (lambda: layers(4000, heads=2), None),
}


def _from(make: Callable[[], models.Model]) -> IRModule:
    model = make()
    model.module.eval()
    return model.program()


_LAST_FRAME: Final = """
const [selector, done] = arguments;
const look = () => {
  if (document.querySelector(selector)) requestAnimationFrame(() => done(performance.now()));
  else setTimeout(look, 5);
};
look();
"""


def run() -> list[Table]:
    """The table; raises if a graph of 20,000 bindings opens too slowly."""
    rows: list[tuple[Any, ...]] = []
    with TemporaryDirectory() as folder:
        driver = start(Path(folder) / "profile")
        driver.set_script_timeout(120)
        browser = Browser(driver)
        try:
            for name, (make, level) in PROGRAMS.items():
                program = make()
                bindings = sum(len(block) for block in program["main"].body.blocks)
                started = time.process_time()
                page = view(program, level=level).write(Path(folder) / "page.html")
                made = time.process_time() - started
                ready, drawn = (
                    min(times) for times in zip(*[_open(browser, page) for _ in range(OPENINGS)], strict=True)
                )
                rows.append((name, bindings, made, page.stat().st_size / 1e6, ready / 1e3, drawn / 1e3))
        finally:
            driver.quit()
    slow = [row for row in rows if row[1] >= 20_000 and row[5] > PATIENCE]
    if slow:
        raise AssertionError(f"a large graph takes longer than {PATIENCE} s to open: {slow}")
    columns = ("program", "bindings", "made in s", "MB", "usable after s", "graph drawn after s")
    return [Table("Pages", columns, tuple(rows), "Made: processor time. In the browser: the least of five openings.")]


def _open(browser: Browser, page: Path) -> tuple[float, float]:
    """The milliseconds until the page can be used, and until its graph is drawn."""
    browser.driver.get("about:blank")
    browser.driver.get(f"{page.as_uri()}#graph")
    drawn = browser.driver.execute_async_script(_LAST_FRAME, ".node")
    return float(browser.run("return document.documentElement.dataset.ready")), float(drawn)
