"""The whole command: its subcommands, and the handling of errors, which become one message and an exit code.

The exit codes are part of the interface: scripts rely on them, `docs/cli.md` lists them, and tests check them.
"""

from __future__ import annotations

import errno
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from . import INTERRUPTED, console, looking, running, say_interrupted, sharding, transforming, viewing

VERIFICATION_FAILED: Final = 1
WRONG_INPUT: Final = 2
MISSING_EXTRA: Final = 3
NOT_WRITTEN: Final = 4
DEFECT: Final = 70


class _Commands(TyperGroup):
    """The group of all commands; turns errors into messages and exit codes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept ``--traceback`` and ``--quiet`` anywhere, because they are usually appended to a finished command."""
        for option in ("--traceback", "--quiet"):
            if option in args:
                args = [option, *[arg for arg in args if arg != option]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, after the hook that `main` passes; only errors that Typer shows leave this method."""
        try:
            if ctx.obj is not None:
                ctx.obj()
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            say_interrupted(_note_of_a_rule(error))
            raise typer.Exit(INTERRUPTED) from error
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            # Typer shows its own errors, and a closed pipe is not an error.
            if hasattr(error, "exit_code") or (isinstance(error, OSError) and error.errno == errno.EPIPE):
                raise
            if ctx.params.get("traceback"):
                traceback.print_exception(error)
            raise typer.Exit(_report(error)) from error


def _report(error: Exception) -> int:
    """Print the message for ``error``; returns the exit code."""
    from ..ir.errors import MissingDependencyError, RegraftError
    from ..model.errors import OutputError, VerificationError
    from ..rewrite import RewriteValueError

    if _is_out_of_memory(error):
        _say(f"error: out of memory{f': {error}' if str(error) else ''}")
        return WRONG_INPUT
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        _say(f"error: {error.filename}: {error.strerror}; give a shorter one")
        return WRONG_INPUT
    if not isinstance(error, RegraftError):
        rule = _of_a_rule(error)
        if rule is not None:
            _say(f"error: {type(error).__name__}: {error}, {rule}; --traceback shows the calls that led there")
            return WRONG_INPUT
        _say(
            f"internal error: {type(error).__name__}: {error}. This is a defect of regraft: --traceback shows where; "
            "please report it"
        )
        return DEFECT
    _say(f"error: {str(error).strip()}")
    for kind, code in (
        (VerificationError, VERIFICATION_FAILED),
        (RewriteValueError, VERIFICATION_FAILED),
        (MissingDependencyError, MISSING_EXTRA),
        (OutputError, NOT_WRITTEN),
    ):
        if isinstance(error, kind):
            return code
    return WRONG_INPUT


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # PyTorch has no class of its own for this error.
    return isinstance(error, MemoryError) or (type(error) is RuntimeError and "can't allocate memory" in str(error))


def _of_a_rule(error: Exception) -> str | None:
    """The user's rule that raised ``error``, with its place; None if the error is a defect of this package."""
    note = _note_of_a_rule(error)
    package = str(Path(__file__).resolve().parent.parent)
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    asked = [place for place, name in enumerate(frames) if name.startswith(package)]
    is_outside = bool(asked) and any(not name.startswith(package) for name in frames[asked[0] :])
    return note if is_outside else None


def _note_of_a_rule(error: BaseException) -> str | None:
    """A note on the rule whose rewriter was running, and on its place; None if there is none."""
    notes: list[str] = getattr(error, "__notes__", [])
    return next((note for note in notes if note.startswith("in the rewriter of rule")), None)


def _say(message: str) -> None:
    typer.echo(f"regraft: {console.visible(message)}", err=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            own = version("regraft")
        except PackageNotFoundError:
            own = "not installed, run from its source"
        typer.echo(f"regraft {own} (Python {sys.version.split()[0]})")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    name="regraft",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def regraft(
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error was raised.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only, and what is asked for as JSON.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version, and stop.")
    ] = False,
) -> None:
    """Rewrite tensor programs by pattern: models in, the same models out, rewritten and checked.

    A MODEL is a file that ends in .onnx, .pt2, .relax or .xml.

    Exit codes: 0 done; 1 the result computes something else; 2 wrong usage, or a model or input that cannot be read or
    run; 3 a package is not installed; 4 the output cannot be written; 70 a defect of regraft; 130 interrupted.
    """
    console.be_quiet(quiet)


for command in (
    *(transforming.optimize, transforming.convert, transforming.grad),
    *(looking.inspect, looking.passes, looking.explain, looking.targets),
    viewing.view,
    *(running.run, running.bench, running.generate),
    sharding.shard,
):
    app.command()(command)
