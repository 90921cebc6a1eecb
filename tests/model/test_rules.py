"""Rules by name: of files and packages, in front of the passes, and each rewrite checked on request."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import regraft as rx
from regraft import transform
from regraft.dpl import is_op, wildcard
from regraft.model import OptimizationReport, UsageError, rules
from regraft.script import relax as R
from tests.cli.harness import invoke

FILE = """
from regraft import Rule
from regraft.dpl import is_op, wildcard
from regraft.script import relax as R

from helper import tanh_of

x = wildcard()
exp_of_log = Rule(is_op("relax.exp")(is_op("relax.log")(x)), lambda _, found: found[x], "exp of log")
as_tanh = Rule(is_op("relax.nn.gelu")(x), tanh_of(x), "gelu as tanh")
both = exp_of_log | as_tanh


@R.rewriter
class TwiceRelu:
    @R.function
    def pattern(x: R.Tensor):
        return R.nn.relu(R.nn.relu(x))

    @R.function
    def replacement(x: R.Tensor):
        return R.nn.relu(x)
"""

HELPER = """
from regraft.script import relax as R


def tanh_of(x):
    return lambda _, found: R.nn.gelu_tanh(found[x])
"""


ERF = """
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    with R.dataflow():
        h = R.divide(x, R.const(1.4142135381698608, "float32"))
        y = x * (R.erf(h) + 1.0) * 0.5
        R.output(y)
    return y
"""

IDLE = """
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    with R.dataflow():
        y = R.tanh(x)
        R.output(y)
    return y
"""


@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    with R.dataflow():
        a = R.exp(R.log(R.exp(x)))
        b = R.nn.gelu(a)
        c = R.nn.relu(R.nn.relu(b))
        R.output(c)
    return c


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text(HELPER)
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_file_gives_its_rules_and_names_choose_among_them(file: Path) -> None:
    assert [rule.name for rule in rules.rules_of(str(file))] == ["exp of log", "gelu as tanh", "TwiceRelu"]
    assert [rule.name for rule in rules.rules_of(f"{file}:TwiceRelu,as_tanh")] == ["TwiceRelu", "gelu as tanh"]
    with file.open("a") as more:
        more.write("\nRULES = [as_tanh, TwiceRelu]\n")
    assert [rule.name for rule in rules.rules_of([str(file), f"{file}:both"])][:2] == ["gelu as tanh", "TwiceRelu"]


def test_a_file_that_is_named_twice_runs_once_and_its_rules_count_once(file: Path) -> None:
    with file.open("a") as more:
        more.write("\nwith open(__file__ + '.runs', 'a') as runs:\n    runs.write('x')\n")
    beside = file.parent / "." / file.name
    found = rules.rules_of([str(file), f"{beside}:as_tanh", f"{file}:exp_of_log"])
    assert [rule.name for rule in found] == ["exp of log", "gelu as tanh", "TwiceRelu"]
    assert Path(f"{file}.runs").read_text() == "x"


def test_rules_run_before_the_passes_and_are_reported_by_name(file: Path, tmp_path: Path) -> None:
    model, output = tmp_path / "model.relax", tmp_path / "out.relax"
    rx.save_script(rx.IRModule({"main": main}), model)
    done = invoke("optimize", model, "-o", output, "--rules", f"{file}:exp_of_log,TwiceRelu", "--verify-rewrites")
    assert done.exit_code == 0, done.output
    assert "exp of log" in done.stdout
    assert "TwiceRelu" in done.stdout
    text = output.read_text()
    assert (text.count("R.exp"), text.count("R.nn.relu"), text.count("R.log")) == (1, 1, 0)
    told = invoke("explain", model, "--rules", file)
    assert "rule 'gelu as tanh'" in told.stdout
    both = invoke("explain", model, "--rules", file, "--pass", "FoldConstant")
    assert both.exit_code == 2


def test_rules_that_undo_each_other_are_explained_before_they_end_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(
        "import regraft as rx\nfrom regraft.script import relax as R\n"
        "there = rx.rule(lambda x: R.nn.gelu(x), lambda x: R.nn.silu(x), name='there')\n"
        "back = rx.rule(lambda x: R.nn.silu(x), lambda x: R.nn.gelu(x), name='back')\n"
    )
    rx.save_script(rx.IRModule({"main": main}), tmp_path / "model.relax")
    told = invoke("explain", tmp_path / "model.relax", "--rules", tmp_path / "rules.py")
    assert told.exit_code == 2
    assert "rule 'there'" in told.stdout
    assert "1 match" in told.stdout
    assert "the rules undo each other" in told.stderr
    assert "back" in told.stderr


def test_a_wrong_rule_is_named_when_each_rewrite_is_checked(file: Path) -> None:
    module = rx.IRModule({"main": main})
    rx.optimize(module, rules=f"{file}:as_tanh", level=0)
    with pytest.raises(rx.RewriteError, match=r"rule 'gelu as tanh' replaces b by a value that is not the same"):
        rx.optimize(module, rules=f"{file}:as_tanh", level=0, verify_rewrites=True)
    model = file.parent / "model.relax"
    rx.save_script(module, model)
    done = invoke("optimize", model, "-o", file.parent / "out.relax", "--rules", f"{file}:as_tanh", "--verify-rewrites")
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("absent.py", r"absent\.py: there is no such file of rules"),
        ("empty.py", r"empty\.py has no rules at its top level; make some, or list them: RULES"),
        ("broken.py", r"broken\.py:3: the file of rules fails: ZeroDivisionError: division by zero"),
        ("mine.py:absent", r"mine\.py has no rules 'absent'; it has: exp of log, gelu as tanh, .*TwiceRelu"),
        ("nowhere", r"there are no rules 'nowhere'"),
        ("makers.py:of_two", r"makers\.py:of_two is a function of a, b; expected rules, a function of a module, or a"),
        ("makers.py:fails", r"makers\.py:fails: the function fails: KeyError: 'gone'"),
        ("makers.py:leaves", r"makers\.py:leaves: the function fails: SystemExit: 3"),
        ("makers.py:mixed", r"makers\.py:mixed\[1\] is 3; expected a rule, a set of rules, or a list of them"),
        ("makers.py:anything", r"makers\.py:anything is the pattern \*; a rule has a rewriter, too"),
    ],
)
def test_what_is_no_source_of_rules_is_an_error(file: Path, source: str, message: str) -> None:
    (file.parent / "empty.py").write_text("x = 1\n")
    (file.parent / "broken.py").write_text("\n\n1 / 0\n")
    (file.parent / "makers.py").write_text(
        "import sys\ndef of_two(a, b): return a\ndef fails(): return {}['gone']\n"
        "def leaves(): sys.exit(3)\nmixed = [[], 3]\n"
        "from regraft.dpl import wildcard\nanything = wildcard()\n"
    )
    name = str(file.parent / source) if ".py" in source else source
    with pytest.raises(UsageError, match=message):
        rules.rules_of(name)


def test_packages_offer_rules_under_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = EntryPoint("layout", "regraft.gradient.simplify:SIMPLIFICATIONS", rules.GROUP)
    x = wildcard()
    monkeypatch.setattr(EntryPoint, "load", lambda _self: [rx.Rule(is_op("relax.exp")(x), lambda e, _: e, "exp")])
    monkeypatch.setattr(rules, "entry_points", lambda group: (offered,))
    assert [rule.name for rule in rules.rules_of("layout")] == ["exp"]
    assert [rule.name for rule in rules.rules_of("layout:exp")] == ["exp"]


def test_a_name_that_two_packages_offer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("one", "two"):
        facts = tmp_path / f"{package}_rules-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}-rules\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[regraft.rules]\ntidy = {package}_rules:RULES\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=r"several packages offer rules 'tidy': .*one-rules \(one_rules:RULES\)"):
        rules.rules_of("tidy")


def test_an_entry_point_that_is_no_rule_or_fails_is_an_error_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = tmp_path / "acme_rules-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.0\n")
    offered = "number = acme_rules:NUMBER\nlist = acme_rules:LIST\ngone = acme_rules:GONE\n"
    (facts / "entry_points.txt").write_text(f"[regraft.rules]\n{offered}")
    (tmp_path / "acme_rules.py").write_text("NUMBER = 3\nLIST = [[], 'text']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, said in (("number", "is 3; expected a rule"), ("list", r"\[1\] is 'text'"), ("gone", "cannot be loaded")):
        with pytest.raises(UsageError, match=rf"{name}.*acme-rules \(acme_rules:{name.upper()}\).*{said}"):
            rules.rules_of(name)


def test_sequences_take_rules_and_functions_as_they_are() -> None:
    x = wildcard()
    drop = rx.Rule(is_op("relax.exp")(is_op("relax.log")(x)), lambda _, found: found[x], "drop")
    seen: list[int] = []

    def count(module: rx.IRModule) -> rx.IRModule:
        seen.append(len(module))
        return module

    steps = transform.Sequential([drop, [drop], drop | drop, count, transform.DeadCodeElimination()])
    report = transform.report(steps, rx.IRModule({"main": main}))
    assert [one.name for one in report.passes] == ["drop", "drop", "rules", "count", "DeadCodeElimination"]
    assert seen == [1]
    assert "R.log" not in report.program.script()
    array = np.ones((2, 4), "float32")
    np.testing.assert_allclose(
        rx.build(report.program, "numpy")["main"](array), rx.build(main, "numpy")["main"](array), rtol=1e-6
    )
    with pytest.raises(transform.PassError, match="call the pass's name to make it"):
        transform.Sequential([transform.DeadCodeElimination])


def test_functions_of_a_module_stand_among_rules_and_run_at_their_place(tmp_path: Path) -> None:
    x = wildcard()
    drop = rx.Rule(is_op("relax.exp")(is_op("relax.log")(x)), lambda _, found: found[x], "drop")
    seen: list[bool] = []

    def look(module: rx.IRModule) -> rx.IRModule:
        seen.append("R.log" in module.script())
        return module

    module = rx.IRModule({"main": main})
    assert "R.log" not in rx.optimize(module, rules=[look, drop, look], level="canonical").script()
    assert seen == [True]  # a function that is given twice counts once, as a rule does
    rx.optimize(module, rules=look, level="canonical")
    rx.optimize(module, rules=[drop, look], level="canonical")
    rx.optimize(module, passes=look)
    assert seen == [True, True, False, True]
    assert "R.log" not in rx.optimize(module, passes=drop).script()
    assert "R.log" not in rx.optimize(module, passes=[[drop], look]).script()
    source = tmp_path / "mine.py"
    source.write_text("def upper(module):\n    return module.with_attr('seen', 1)\n")
    assert rx.optimize(module, rules=f"{source}:upper", level="canonical").attrs["seen"] == 1
    done = invoke("explain", "--rules", f"{source}:upper", _saved(module, tmp_path))
    assert done.exit_code == 0, done.output


def _saved(module: rx.IRModule, folder: Path) -> Path:
    rx.save_script(module, folder / "model.relax")
    return folder / "model.relax"


def test_a_rule_that_found_nothing_is_in_the_table_and_in_the_report(file: Path, tmp_path: Path) -> None:
    model, output, report = tmp_path / "model.relax", tmp_path / "out.relax", tmp_path / "report.json"
    rx.save_script(rx.IRModule({"main": rx.parse(IDLE)}), model)
    done = invoke("optimize", model, "-o", output, "--rules", file, "--report", report)
    assert done.exit_code == 0, done.output
    assert "TwiceRelu" in done.stdout
    assert "The rules found nothing in the model as it was read" in done.stdout
    assert json.loads(report.read_text())["rules"] == ["exp of log", "gelu as tanh", "TwiceRelu"]
    done = invoke("optimize", model, "-o", tmp_path / "other.relax")
    assert "Rules" not in done.stdout


def test_a_rule_finds_an_operator_that_the_model_writes_out(file: Path, tmp_path: Path) -> None:
    model, output = tmp_path / "model.relax", tmp_path / "out.relax"
    rx.save_script(rx.IRModule({"main": rx.parse(ERF)}), model)
    done = invoke("optimize", model, "-o", output, "--rules", f"{file}:as_tanh")
    assert done.exit_code == 0, done.output
    assert "found nothing" not in done.stdout
    assert "R.nn.gelu_tanh(x)" in output.read_text()
    told = invoke("explain", model, "--rules", f"{file}:as_tanh").stdout
    assert told.index("no call of nn.gelu") < told.index("with operators recognized") < told.index("1 match")
    below = invoke("optimize", model, "-o", tmp_path / "below.relax", "--rules", f"{file}:as_tanh", "--level", "1")
    assert "from level 2 on RecognizeOperators" in " ".join(below.stdout.split())
    chosen = rx.optimize(model, rules=f"{file}:as_tanh", passes="RecognizeOperators")
    assert "gelu_tanh" in chosen.script()


def test_rules_do_not_keep_a_level_from_running_until_nothing_changes(file: Path) -> None:
    reports: list[OptimizationReport] = []
    program = rx.parse(ERF.replace("* 0.5", "* 0.5 * 1.0"))
    rx.optimize(rx.IRModule({"main": program}), rules=f"{file}:exp_of_log", report=reports.append)
    names = [one.name for one in reports[0].passes]
    # The first round ends with the pass that comes last; a round that changes nothing follows one that does.
    assert "RemoveNoOps" in names[names.index("DeadCodeElimination") :]
    assert "rules" not in names[1:]


def test_rewrites_that_cannot_be_run_are_told(tmp_path: Path) -> None:
    model, output, rule_file = tmp_path / "model.relax", tmp_path / "out.relax", tmp_path / "mine.py"
    rule_file.write_text(
        "from regraft import Rule\nfrom regraft.dpl import is_op, wildcard\nx = wildcard()\n"
        'drop = Rule(is_op("relax.exp")(is_op("relax.log")(x)), lambda expr, found: found[x], "drop")\n'
    )
    model.write_text(
        '@R.function\ndef main(x: R.Tensor("float32")):\n    with R.dataflow():\n'
        "        a = R.log(x)\n        b = R.exp(a)\n        R.output(b)\n    return b\n"
    )
    report = tmp_path / "report.json"
    done = invoke("optimize", model, "-o", output, "--rules", rule_file, "--verify-rewrites", "--report", report)
    assert "--verify-rewrites could not run 1 rewrite of 'drop': no random value can be made of" in done.stdout
    [told] = json.loads(report.read_text())["passes"][0]["unverified"]
    assert told["rule"] == "drop"


def test_samples_and_ranges_that_nothing_would_use_are_an_error() -> None:
    module = rx.IRModule({"main": main})
    with pytest.raises(UsageError, match="ask for one: verify, measure or a precision"):
        rx.optimize(module, ranges={"x": (0.0, 1.0)})
