"""One round: a damaged file is inspected and optimized; anything but a result or an error of ours is a defect."""

from __future__ import annotations

import io
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

from regraft.ir import RegraftError
from tests.fuzz.mutations import damaged
from tests.fuzz.samples import SAMPLES

MOST_SECONDS: Final = 60
MOST_MEMORY: Final = 6 << 30


class Finding(NamedTuple):
    """A damaged file that does not end as it should, and how it ends."""

    sample: str
    seed: int
    how: str


class _TooLongError(BaseException):
    """A file that takes longer than it may."""


@contextmanager
def limited(seconds: int) -> Generator[None]:
    """Raise in what runs inside once it has taken so long."""

    def stop(_signal: int, _frame: Any) -> None:
        raise _TooLongError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def try_file(path: Path, inputs: Path | None = None) -> str | None:
    """The defect in how a model, and inputs of it, are taken; None for a result or an error of ours."""
    from regraft.model import describe_model, open_model, optimize
    from regraft.model.inputs import read_inputs

    try:
        with limited(MOST_SECONDS), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            opened = open_model(path)
            describe_model(opened)
            if inputs is not None:
                read_inputs(opened.function, [inputs])
                return None
            optimize(path, output=path.with_name(f"out{path.suffix}"))
    except (RegraftError, MemoryError):
        return None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(error)[-4:])
    return None


def run(sample: str, seeds: range) -> list[Finding]:
    """The findings among the files that ``seeds`` make of a sample."""
    make, name, model = SAMPLES[sample]
    sound = make()
    found: list[Finding] = []
    with tempfile.TemporaryDirectory() as folder:
        for other, content in sound.items():
            (Path(folder) / other).write_bytes(content)
        path = Path(folder) / name
        inputs = path if path.suffix == ".npz" else None
        for seed in seeds:
            path.write_bytes(damaged(path.suffix, sound[name], seed))
            how = try_file(Path(folder) / model, inputs)
            if how is not None:
                found.append(Finding(sample, seed, how))
    return found


def main() -> None:
    """``python -m tests.fuzz.rounds [ROUNDS [FIRST SEED [SAMPLE]]]``; the exit code is 1 if anything is found."""
    arguments = sys.argv[1:]
    count, first = int(arguments[0]) if arguments else 500, int(arguments[1]) if len(arguments) > 1 else 0
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    findings: list[Finding] = []
    for sample in arguments[2:] or SAMPLES:
        found = run(sample, range(first, first + count))
        findings += found
        print(f"{sample}: {count} damaged files, {len(found)} findings", flush=True)
        for one in found:
            print(f"--- {one.sample}, seed {one.seed}\n{one.how}", flush=True)
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
