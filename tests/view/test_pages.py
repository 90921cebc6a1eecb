"""A page's data: which bindings are one node, what each step changed, where lines and modules are, and what is safe."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import get_var2val
from regraft.convert import from_onnx, to_onnx
from regraft.dpl import *
from regraft.ir import Origin
from regraft.script import relax as R
from regraft.testing import random_module
from regraft.view import HtmlReport, Page, read_profile
from regraft.view.records import Records, entries, lines_of, module_path
from regraft.view.serve import Served
from tests.cli.harness import invoke
from tests.view.pages import data_in
from tests.view.programs import branches, doubled, hostile, layers, product, x
from tools.gallery import FOLDER, MODELS


def rows_of(data: dict[str, Any], version: int) -> dict[str, list[Any]]:
    """The records of a version by name."""
    return {data["strings"][row[1]]: row for row in all_rows(data, version)}


def all_rows(data: dict[str, Any], version: int) -> list[list[Any]]:
    """The records of a version."""
    first = data["versions"][data["versions"][version]["same"]]
    return [data["records"][index] for index in first["records"]]


def test_an_edited_binding_is_the_same_node_before_and_after() -> None:
    data = rx.view(doubled, rules=rx.Rule(is_op("relax.add")(x, x), twice, "twice")).data
    before, after = rows_of(data, 0), rows_of(data, -1)
    assert before["x2"][0] == after["x2"][0]
    assert data["strings"][before["x2"][2]] == "add"
    assert data["strings"][after["x2"][2]] == "multiply"


def twice(_expr: rx.Expr, matchings: dict[DFPattern, Any]) -> rx.Expr:
    return R.multiply(matchings[x], R.const(2, "float32"))


def test_each_rewrite_says_what_matched_and_what_it_changed() -> None:
    data = rx.view(doubled, rules=rx.Rule(is_op("relax.add")(x, x), twice, "twice")).data
    nodes = {row[0]: name for name, row in rows_of(data, 0).items()}
    assert [(step["rule"], nodes[step["at"]]) for step in data["steps"]] == [("twice", "x2"), ("twice", "x4")]
    edited = [data["records"][edit] for step in data["steps"] for edit in step["edit"]]
    assert [data["strings"][row[2]] for row in edited] == ["multiply", "multiply"]


def test_the_steps_of_a_pass_lead_from_its_first_version_to_its_last() -> None:
    assert "CombineParallelMatmul" in replayed_passes(rx.view(layers(3), level="default", limit=0).data)


@pytest.mark.parametrize("seed", [4, 81, 90, 99, 107, 184])
def test_the_steps_of_a_pass_lead_to_its_last_version_in_programs_of_all_kinds(seed: int) -> None:
    """Values that die, names that stay because they are results, variables that later blocks know by another name."""
    assert replayed_passes(rx.view(random_module(seed), level=3, limit=0).data)


def replayed_passes(data: dict[str, Any]) -> list[str]:
    """The passes whose steps lead where they led, replayed as the page does it.

    Edits in order, values that are only other names looked through.
    """
    checked: list[str] = []
    for place, one in enumerate(data["passes"]):
        if one["kept"] != one["rewrites"] or one["kept"] == 0:
            continue
        state = {row[0]: row for row in all_rows(data, one["version"])}
        for step in data["steps"]:
            if step["pass"] != place:
                continue
            for edit in step["edit"]:
                if edit < 0:
                    del state[-1 - edit]
                else:
                    state[data["records"][edit][0]] = data["records"][edit]

        def target(node: int, state: dict[int, list[Any]] = state) -> int:
            while node in state and state[node][13] >= 0:
                node = state[node][13]
            return node

        replayed = {node: (row[2], [target(read) for read in row[9]]) for node, row in state.items() if row[13] < 0}
        made = {row[0]: (row[2], row[9]) for row in all_rows(data, one["end"])}
        assert replayed == made, one["name"]
        checked.append(one["name"])
    return checked


def test_lines_of_a_page_are_those_of_the_script() -> None:
    records = Records()
    module = branches
    records.version(module)
    text = module.script(show_meta=False)
    lines = dict(lines_of(module, text, records))
    rows = text.split("\n")
    checked = 0
    for function in module.functions.values():
        for entry in entries(function):
            if entry.is_node and entry.has_line:
                assert rows[lines[records.node(entry.var)]].lstrip().startswith(f"{entry.var.name_hint}: ")
                checked += 1
    assert checked >= 5


def test_modules_of_the_source_are_the_groups_of_the_graph() -> None:
    def path(*names: str, kind: Any = "torch") -> tuple[str, ...]:
        return module_path(tuple(Origin(kind, name) for name in names))

    assert path("encoder.layer.3.attention.self") == ("encoder", "layer.3", "attention", "self")
    assert path("encoder.layer.3.query", "encoder.layer.3.key") == ("encoder", "layer.3")
    assert path("encoder.layer.3.query", "decoder.key") == ("several modules",)
    assert path("/encoder/layer.3/MatMul", kind="onnx") == ("encoder", "layer.3")
    assert path("MatMul_12", kind="onnx") == ()
    assert path("combine", kind="rule") == ()


def test_a_page_runs_only_its_own_script_and_asks_the_network_for_nothing() -> None:
    page = rx.view(doubled).to_html()
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.S)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert f"script-src 'sha256-{digest}' blob:" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert not re.search(r'(src|href)="', page)


def test_names_of_a_model_never_stand_in_the_markup() -> None:
    page = rx.view(hostile(), title="<script>alert('title')</script>").to_html()
    assert "alert(" not in page.replace(html.escape("<script>alert('title')</script>"), "")
    names = data_in(page)["strings"]
    assert any("<script>" in name for name in names)


def test_the_same_program_gives_the_same_page() -> None:
    assert rx.view(doubled).to_html() == rx.view(doubled).to_html()


def test_near_misses_name_the_part_of_the_pattern_that_failed() -> None:
    left, right = wildcard(), is_const()
    pattern = is_op("relax.multiply")(is_op("relax.add")(left, left), right)
    page = rx.view(rx.explain(pattern, layers(1)))
    assert page.data["start"] == "why"
    [finding] = page.data["findings"]
    parts: dict[int, str] = {}

    def gather(node: dict[str, Any]) -> None:
        parts[node["id"]] = node["text"]
        for child in node["children"]:
            gather(child)

    gather(finding["roots"][0])
    miss = finding["misses"][0]
    assert parts[miss["failing"]] in {"add(*, *)", "add", "const"}
    assert miss["node"] in {row[0] for row in rows_of(page.data, 0).values()}


def test_a_match_is_marked_in_the_program_it_was_found_in() -> None:
    with PatternContext() as context:
        is_op("relax.multiply")(wildcard(), wildcard())
    block = layers(1)["main"].body.blocks[0]
    found = context.match_dfb(block)
    assert found is not None
    for page in (rx.view(block, match=found), rx.view(found)):
        [finding] = page.data["findings"]
        assert len(finding["matches"][0]["matched"]) == 3


def test_a_match_of_an_expression_is_shown_in_what_the_expression_is_computed_from() -> None:
    left = wildcard()
    pattern = is_op("relax.multiply")(is_op("relax.matmul")(left, is_const()), wildcard())
    bound = get_var2val(layers(1)["main"])
    product = next(var for var in bound if var.name_hint.startswith("p0"))
    found = pattern.extract_matched_expr(product, bound)
    assert found is not None
    data = rx.view(found).data
    names = {row[0]: name for name, row in rows_of(data, 0).items()}
    [finding] = data["findings"]
    assert {names[node] for node in finding["matches"][0]["matched"]} == {"x", "h0", "h0_1", "p0"}
    assert set(names.values()) == {"x", "h0", "h0_1", "p0", "output0"}


def test_a_match_of_nested_calls_is_shown_with_names_for_them() -> None:
    value = rx.Var("value", rx.TensorType((4,), "float32"))
    pattern = is_op("relax.add")(is_op("relax.abs")(wildcard()), wildcard())
    found = pattern.extract_matched_expr(R.add(R.abs(value), value))
    assert found is not None
    data = rx.view(found).data
    [finding] = data["findings"]
    assert len(finding["matches"][0]["matched"]) == 3
    assert data["start"] == "why"


def test_a_notebook_shows_the_first_lines_of_reports_matches_and_explanations_and_the_page_of_each() -> None:
    model = layers(200)
    made: list[Any] = []
    rx.optimize(model, report=made.append)
    pattern = PatternContext()
    with pattern:
        roots = [is_op("relax.matmul")(wildcard(), wildcard()) for _ in range(150)]
    found = pattern.match_dfb(model["main"].body.blocks[0])
    assert found is not None
    assert len(found) > len(roots)
    shown = [
        rx.explain(is_op("relax.matmul")(wildcard(), wildcard()), model, limit=500),
        made[0],
        rx.transform.report(rx.transform.CombineParallelMatmul(), model),
        found,
    ]
    for thing in shown:
        text = thing._repr_html_()
        assert 100 < len(text) < 40_000, type(thing)
        assert html.unescape(text[text.index("<pre>") + 5 :]).startswith(str(thing).splitlines()[0]), type(thing)
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" [^>]*></iframe>', rx.view(shown[-1])._repr_html_())
    assert frame is not None
    assert data_in(html.unescape(frame[1]))["versions"]


def test_a_report_shows_each_rewrite_as_the_page_of_its_passes_does() -> None:
    model = layers(2)
    made: list[Any] = []
    rx.optimize(model, report=made.append)
    live, taped = rx.view(model, level="default").data, rx.view(made[0]).data
    assert [(step["rule"], step["pass"]) for step in taped["steps"]] == [
        (step["rule"], step["pass"]) for step in live["steps"]
    ]
    assert [one["rules"] for one in taped["passes"]] == [one["rules"] for one in live["passes"]]
    assert [finding["title"] for finding in taped["findings"]] == [finding["title"] for finding in live["findings"]]
    assert ["combine_parallel_matmul", 2] in [rule for one in taped["passes"] for rule in one["rules"]]
    assert replayed_passes(taped) == replayed_passes(live)


def test_a_verification_that_fails_is_reported_with_what_differs(tmp_path: Path) -> None:
    wrong = rx.Rule(is_op("relax.nn.relu")(x), lambda _, found: R.negative(found[x]), "wrong")
    target = tmp_path / "report.html"
    with pytest.raises(rx.RegraftError, match="computes something else"):
        rx.optimize(layers(1), rules=wrong, verify=True, report=HtmlReport(target, limit=0))
    data = data_in(target.read_text(encoding="utf-8"))
    [output] = data["summary"]["verification"]["outputs"]
    assert output["relative"] > output["tolerance"]
    assert "elements differ" in output["problem"]
    assert data["steps"][0]["rule"] == "wrong"


def test_a_pass_that_changed_nothing_makes_no_step_and_no_program() -> None:
    """Also in a module of several functions, of which each is searched by itself."""
    module = rx.IRModule({"main": doubled, "other": branches["main"]})
    data = rx.view(module, level="default").data
    assert data["findings"]
    assert data["steps"] == []
    assert data["versions"][-1]["same"] == 0
    assert {data["versions"][one["version"]]["same"] for one in data["passes"]} == {0}
    assert {data["versions"][one["end"]]["same"] for one in data["passes"]} == {0}


def test_optimize_writes_its_page_with_the_report(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    rx.optimize(layers(2), verify=True, report=HtmlReport(target))
    data = data_in(target.read_text(encoding="utf-8"))
    assert (
        data["summary"]["verification"]["outputs"][0]["relative"]
        <= data["summary"]["verification"]["outputs"][0]["tolerance"]
    )
    assert data["passes"][0]["name"] == "CanonicalizeBindings"
    assert data["steps"]


@pytest.mark.parametrize("max_error", [0.5, 1e-9])
def test_the_page_lists_the_precisions_that_were_tried_and_the_layers(tmp_path: Path, max_error: float) -> None:
    target = tmp_path / "report.html"
    reports: list[Any] = []
    reporting = [HtmlReport(target), reports.append]
    rx.optimize(to_onnx(product()), precision="int8", max_error=max_error, report=reporting)
    done, shown = reports[0].precision, data_in(target.read_text(encoding="utf-8"))["summary"]["precision"]
    rows = [
        (row["name"], row["engine"], row["error"], row["agreement"], row["says"] == "kept") for row in shown["attempts"]
    ]
    tried = done.attempts
    assert rows == [(one.name, one.engine, one.error, one.agreement, one is done.kept) for one in tried]
    assert shown["originalKept"] == (max_error < 0.1)
    assert shown["errorMeasure"] is None
    assert shown["layers"] == [layer.to_dict() for layer in (done.kept or done.nearest_miss).layers]
    assert shown["layers"]


def test_the_page_of_a_model_that_was_kept_says_why(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    model = to_onnx(from_onnx(to_onnx(layers(1))))
    rx.optimize(model, level=0, report=HtmlReport(target))
    assert data_in(target.read_text(encoding="utf-8"))["subtitle"] == "kept as it was: nothing in it was rewritten"


def test_two_models_are_laid_beside_each_other_by_name() -> None:
    data = rx.view(layers(2), layers(3)).data
    before, after = rows_of(data, 0), rows_of(data, -1)
    assert set(before) < set(after)
    assert all(before[name][0] == after[name][0] for name in before)


def test_costs_are_counted_where_sizes_are_known() -> None:
    rows = rows_of(rx.view(layers(1)).data, 0)
    product = next(row for name, row in rows.items() if name == "h0")
    assert product[11] == 2 * 4 * 8 * 8
    assert product[12] == 4 * (4 * 8 + 8 * 8 + 4 * 8)


def test_a_file_that_is_no_profile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text('{"profile": 3}', encoding="utf-8")
    with pytest.raises(rx.RegraftError, match=r"times\.json is no profile"):
        read_profile(path)


def test_a_page_replaces_a_file_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("before", encoding="utf-8")
    with pytest.raises(ValueError, match="JSON"):
        Page({**rx.view(doubled).data, "title": np.nan}).write(target)
    assert target.read_text(encoding="utf-8") == "before"


def test_the_bundle_is_as_new_as_its_sources(root: Path) -> None:
    """`make ui` builds the bundle; this says when that has been forgotten."""
    folder = root / "ui"
    names = [f"src/{path.name}" for path in (folder / "src").iterdir()]
    names += ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\n".encode())
        digest.update((folder / name).read_bytes())
    built = (root / "src" / "regraft" / "view" / "bundle" / "sources.sha256").read_text(encoding="utf-8").strip()
    assert digest.hexdigest() == built, "the page's sources have changed: run `make ui` and commit what it builds"


def test_the_bundle_comes_with_the_licences_of_all_that_is_in_it(root: Path) -> None:
    texts = (root / "src" / "regraft" / "view" / "bundle" / "LICENSES.txt").read_text(encoding="utf-8")
    wanted = json.loads((root / "ui" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert [name for name, version in wanted.items() if f"{name} {version} (" not in texts] == []


RULES = """
from regraft.dpl import *
from regraft.script import relax as R
import regraft as rx

x = wildcard()
double = rx.Rule(is_op("relax.add")(x, x), lambda e, m: R.multiply(m[x], R.const(2, "float32")), "double")
"""


def test_the_command_shows_what_the_rules_of_a_file_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.py").write_text(RULES, encoding="utf-8")
    rx.save_script(layers(2), tmp_path / "model.relax")
    done = invoke("view", "model.relax", "--rules", "rules.py")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("Wrote model.html (")
    data = data_in((tmp_path / "model.html").read_text(encoding="utf-8"))
    assert [step["rule"] for step in data["steps"]] == ["double", "double"]
    assert [finding["matchCount"] for finding in data["findings"]] == [2]


def test_a_page_never_replaces_the_model_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "model.relax"
    rx.save_script(layers(1), path)
    before = path.read_bytes()
    done = invoke("view", path, "-o", path)
    assert done.exit_code == 2
    assert "would overwrite the input" in done.stderr
    assert path.read_bytes() == before


def test_two_things_beside_a_model_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.relax"
    rx.save_script(layers(1), path)
    done = invoke("view", path, path, "--level", "1")
    assert done.exit_code == 2
    assert "one thing beside the model" in done.stderr


def test_a_measurement_goes_from_bench_to_the_page(tmp_path: Path) -> None:
    path, times, target = tmp_path / "model.relax", tmp_path / "times.json", tmp_path / "page.html"
    rx.save_script(layers(1), path)
    done = invoke("bench", path, "--engines", "numpy", "--repeat", "2", "--profile", times)
    assert done.exit_code == 0, done.stderr
    done = invoke("view", path, "--profile", times, "-o", target)
    assert done.exit_code == 0, done.stderr
    [profile] = data_in(target.read_text(encoding="utf-8"))["profiles"]
    assert (profile["engine"], profile["runs"], profile["version"]) == ("numpy", 2, 0)
    assert {row["op"] for row in profile["rows"]} >= {"matmul", "multiply", "add", "nn.relu"}
    assert all(row["node"] >= 0 for row in profile["rows"])


def test_the_gallery_has_each_model_that_its_page_lists(root: Path) -> None:
    table = (root / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert len(MODELS) == 10
    for name, title in MODELS.items():
        data = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
        assert data["title"] == title
        assert data.keys() == rx.view(doubled).data.keys(), "make gallery"
        assert f"[{title}](gallery/{name}.html)" in table


def test_a_module_without_a_main_function_is_shown_whole() -> None:
    module = rx.IRModule({"first": doubled, "second": doubled})
    data = rx.view(module).data
    assert {data["strings"][row[7]] for row in data["records"]} == {"first", "second"}


def test_modules_inside_each_other_without_end_are_cut() -> None:
    path = module_path((Origin("torch", ".".join(["a"] * 100_000)),))
    assert 0 < len(path) < 100


@pytest.mark.parametrize("seed", range(8))
def test_every_version_of_a_random_program_reads_only_what_it_has(seed: int) -> None:
    """Branches, casts, tuples, calls between functions and symbolic sizes included."""
    data = rx.view(random_module(seed), level=3, limit=1).data
    json.dumps(data, allow_nan=False)
    for version in data["versions"]:
        rows = [data["records"][index] for index in version["records"] or ()]
        known = {row[0] for row in rows}
        assert len(known) == len(rows)
        assert [row for row in rows if not known.issuperset(row[9])] == []


def test_a_served_page_stays_while_its_files_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "model.relax"
    rx.save_script(layers(1), path)
    told: list[str] = []
    served = Served(lambda: rx.view(path), lambda: [path], told.append)
    before = served.html
    path.write_text("def main(", encoding="utf-8")
    served.refresh()
    assert (served.html, served.number) == (before, 1)
    assert told[0].startswith("the page stays as it is: ")
    rx.save_script(layers(2), path)
    served.refresh()
    assert served.number == 2
    assert served.html != before
