"""Writes down what programs give here that differ from Relax's: ``python -m tests.relax.record_outcomes``.

Read the changes of the file before they are kept: each is a change of behaviour.
"""

from __future__ import annotations

import json

from .running import PYTHON_PROGRAMS, loaded, outcome, same, written
from .test_python_programs import DIFFERS


def main() -> None:
    """Write the file, and name the programs that do not differ any more."""
    found: dict[str, object] = {}
    for path in sorted(PYTHON_PROGRAMS.glob("*.py")):
        there = loaded(path, here=False)
        for name, program in loaded(path, here=True).items():
            each = f"{path.stem}.{name}"
            if each in DIFFERS:
                ours = outcome(program)
                found[each] = written(ours)
                if same(ours, outcome(there[name])) is None:
                    print(f"{each} does not differ any more")
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
    (PYTHON_PROGRAMS / "outcomes_that_differ.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
