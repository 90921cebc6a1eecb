"""The page in a real browser: every view of three models opens, and clicks and keys lead where they should."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from selenium.webdriver.common.keys import Keys

import regraft as rx
from bench import models
from regraft.dpl import is_const, is_op, wildcard
from regraft.view import HtmlReport, Profile, view
from regraft.view.serve import Served, server
from tests.view.browser import Browser, start
from tests.view.programs import ATTACK, hostile, layers, product

TABS = {
    "summary": "figure",
    "graph": ".node",
    "compare": ".pair .node",
    "steps": ".node",
    "why": ".pattern",
    "time": "figure",
}
"""Each view, and what is there once it has been drawn."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    driver = start(tmp_path_factory.mktemp("chromium"))
    yield Browser(driver)
    driver.quit()


class Pages(dict[str, Path]):
    """The page of each program, made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __missing__(self, name: str) -> Path:
        program = PROGRAMS[name]()
        bindings = [binding.var.name_hint for block in program["main"].body.blocks for binding in block]
        times = tuple((binding, "Kernel", 1e-6 * (1 + place % 7)) for place, binding in enumerate(bindings))
        profile = Profile(name, "onnxruntime", 3, times)
        page = view(program, level="default", limit=2, profile=profile, title=ATTACK if name == "hostile" else name)
        self[name] = page.write(self._folder / f"{name}.html")
        return self[name]


def _program_of(make: Callable[[], models.Model]) -> rx.IRModule:
    model = make()
    model.module.eval()
    return model.program()


PROGRAMS = {
    "hostile": hostile,
    "layers": partial(layers, 4),
    "unet": partial(_program_of, models.stable_diffusion_15),
    "bert": partial(_program_of, models.bert),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", ["unet", "bert", "hostile"])
def test_every_view_opens_without_a_complaint(browser: Browser, pages: Pages, name: str) -> None:
    for tab, content in TABS.items():
        browser.open(pages[name], tab)
        browser.first(content)
        assert browser.first("[role=tab][aria-selected=true]").get_attribute("id") == f"tab-{tab}"
        assert browser.problems() == []


def test_the_page_of_the_unet_is_under_three_megabytes(pages: Pages) -> None:
    assert pages["unet"].stat().st_size < 3_000_000


def test_nothing_in_a_models_names_becomes_markup(browser: Browser, pages: Pages) -> None:
    for tab, content in TABS.items():
        browser.open(pages["hostile"], tab)
        browser.first(content)
        if tab in ("graph", "compare"):
            browser.click(".node.family-compute" if browser.all(".node.family-compute") else ".node")
            browser.first(".inspector")
        assert browser.run("return document.querySelectorAll('img').length") == 0
        assert browser.run("return document.scripts.length") == 3
        assert "<script>alert(1)" in browser.run("return document.body.textContent")
    assert browser.driver.title.startswith(ATTACK)


def test_a_click_on_a_node_shows_its_type_origin_and_line(browser: Browser, pages: Pages) -> None:
    browser.open(pages["bert"], "graph")
    browser.search("layer.3 attention.output.dense matmul")
    browser.click(".found button")
    inspector = browser.wait(lambda: browser.texts("aside.right .inspector"))[0]
    assert "float32[2, 11, 48]" in inspector
    assert "torch:encoder.layer.3.attention.output.dense" in inspector
    line = browser.first(".text .here").text
    assert "R.matmul(" in line
    # The graph has opened the modules around the node and shows it chosen.
    browser.first(".node.chosen")


def test_modules_open_and_close_by_mouse_and_by_keyboard(browser: Browser, pages: Pages) -> None:
    browser.open(pages["unet"], "graph")
    closed = "[aria-label^='module down_blocks.0'][aria-label$='closed']"
    opened = "[aria-label^='module down_blocks.0'][aria-label$='open']"
    browser.click(f"{closed} .opener")
    browser.first(opened)
    browser.click(opened)
    browser.press("svg.graph", Keys.ENTER)
    browser.first(closed)
    browser.press("svg.graph", Keys.ENTER)
    browser.first(opened)


def test_arrow_keys_go_along_the_edges(browser: Browser, pages: Pages) -> None:
    browser.open(pages["layers"], "graph")
    browser.first(".node")
    browser.press("svg.graph", Keys.HOME)
    assert "input x" in browser.first(".node.chosen").get_attribute("aria-label")
    browser.press("svg.graph", Keys.ARROW_DOWN)
    browser.wait(lambda: "input x" not in browser.first(".node.chosen").get_attribute("aria-label"))
    browser.press("svg.graph", Keys.ARROW_UP)
    browser.wait(lambda: "input x" in browser.first(".node.chosen").get_attribute("aria-label"))


def test_a_node_leads_to_its_counterpart_after_the_passes(browser: Browser, pages: Pages) -> None:
    """Three products of one layer became one: choosing the third shows the combined one on the other side."""
    browser.open(pages["layers"], "compare")
    before, after = "section[aria-label=Before]", "section[aria-label=After]"
    browser.first(f"{before} .node")
    browser.click(f"{before} [aria-label^='matmul h0_2']")
    counterpart = browser.first(f"{after} .node.chosen:not([aria-label^=module])").get_attribute("aria-label")
    assert counterpart.startswith(("matmul", "split", "item"))
    assert "CombineParallelMatmul" in browser.wait(lambda: browser.texts("aside.right .inspector"))[0]
    browser.click("aside.right .links button")


def test_the_slider_goes_through_every_rewrite(browser: Browser, pages: Pages) -> None:
    browser.open(pages["layers"], "steps")
    slider = browser.first("input[type=range]")
    last = int(slider.get_attribute("max"))
    assert last >= 4
    seen: set[str] = set()
    for _ in range(last):
        seen.add(browser.first("input[type=range]").get_attribute("aria-valuetext"))
        browser.first("section[aria-label='Before this step'] .node[class*='mark-']")
        browser.first("section[aria-label='After this step'] .node")
        browser.press("body", "]")
    assert any(text.startswith("CombineParallelMatmul: ") for text in seen)
    assert browser.problems() == []


def test_why_not_marks_the_failing_part_in_pattern_and_graph(browser: Browser, tmp_path: Path) -> None:
    left = wildcard()
    pattern = is_op("relax.multiply")(is_op("relax.add")(left, left), is_const())
    page = view(rx.explain(pattern, layers(1))).write(tmp_path / "why.html")
    browser.open(page)
    assert browser.first("[role=tab][aria-selected=true]").text == "Why not"
    assert "failed here" in browser.first(".pattern .failing").text
    assert "did not match" in browser.first(".node.mark-fail").get_attribute("aria-label")


def test_what_was_tried_in_few_bits_is_a_table_with_the_layers_below(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    rx.optimize(rx.to_onnx(product()), precision="int8", max_error=0.5, budget=1, report=HtmlReport(page))
    browser.open(page, "summary")
    assert any(text.startswith("Precisions within an error of 0.500 on ") for text in browser.texts("h3"))
    assert any(text.startswith("Errors are the largest to expect of such inputs") for text in browser.texts("p.quiet"))
    assert any(text.startswith("int8 dynamic") for text in browser.texts("tbody tr"))
    assert "1 layer of int8 dynamic on onnxruntime" in browser.texts("details > summary")
    assert browser.problems() == []


def test_measured_times_are_shown_as_bars_with_a_table(browser: Browser, pages: Pages) -> None:
    browser.open(pages["layers"], "time")
    browser.first("figure svg rect")
    times = browser.texts(".columns > figure tbody .number")
    assert times == sorted(times, key=lambda text: -float(text.split()[0]))


def test_light_and_dark_change_by_a_button(browser: Browser, pages: Pages) -> None:
    browser.open(pages["layers"])
    back = "return getComputedStyle(document.body).backgroundColor"
    for theme in ("dark", "light"):
        browser.click("[aria-label^=Theme]")
        browser.wait(lambda theme=theme: browser.run("return document.documentElement.dataset.theme") == theme)
        red = int(browser.run(back).removeprefix("rgb(").split(",")[0])
        assert (red < 64) == (theme == "dark")


def test_text_stands_out_from_its_background_in_both_themes(browser: Browser, pages: Pages) -> None:
    """The contrast of text that WCAG 2 asks for, 4.5 to 1, for every color that text has."""
    browser.open(pages["layers"])
    for theme in ("light", "dark"):
        browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
        ratios = browser.run(CONTRASTS)
        assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}


CONTRASTS = """
const style = getComputedStyle(document.documentElement);
const channel = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const light = name => {
  const hex = style.getPropertyValue(name).trim();
  const [r, g, b] = [1, 3, 5].map(at => channel(parseInt(hex.slice(at, at + 2), 16)));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const pairs = [
  ['--text', '--back'], ['--text', '--node'], ['--text', '--accent-soft'],
  ['--quiet', '--back'], ['--quiet', '--raised'], ['--quiet', '--sunken'], ['--accent', '--back'],
  ['--gone', '--gone-soft'], ['--new', '--new-soft'], ['--changed', '--changed-soft'],
  ['--gone', '--back'], ['--new', '--back'],
];
return Object.fromEntries(pairs.map(([front, back]) => {
  const [one, other] = [light(front), light(back)].sort((a, b) => b - a);
  return [`${front} on ${back}`, (one + 0.05) / (other + 0.05)];
}));
"""


def test_a_program_of_20000_bindings_opens_as_few_boxes(browser: Browser, tmp_path: Path) -> None:
    page = view(layers(3000, heads=2)).write(tmp_path / "large.html")
    browser.open(page, "graph")
    browser.first(".node")
    assert len(browser.all(".node, .open-group")) <= 100
    assert browser.problems() == []


def test_a_served_page_loads_itself_again_when_its_file_changes(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "model.relax"
    rx.save_script(layers(1), path)
    told: list[str] = []
    served = Served(lambda: view(path), lambda: [path], told.append)
    running = server(served)
    thread = Thread(target=running.serve_forever)
    thread.start()
    try:
        browser.driver.get(f"http://127.0.0.1:{running.server_port}/#summary")
        browser.wait(lambda: "4" in "".join(browser.texts(".card .big")[:1]) or browser.texts(".card .big"))
        first = browser.texts(".card .big")[0]
        rx.save_script(layers(2), path)
        browser.wait(lambda: browser.texts(".card .big")[:1] not in ([], [first]))
    finally:
        running.shutdown()
        thread.join()
        running.server_close()
    assert told == ["made the page again"]
