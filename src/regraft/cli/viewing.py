"""The command that shows a model in a browser: view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import console
from .options import DimSizes, FixedSizes, FunctionName, ModelPath, RuleNames, parse_sizes
from .sharding import MeshSizes, ShardRules, laid

if TYPE_CHECKING:
    from ..view import Page


def view(
    model: ModelPath,
    after: Annotated[
        Path | None, typer.Argument(metavar="AFTER", help="Another model, to be laid beside the first.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PAGE.html", help="Where to write the page.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--pass", metavar="A,B,...", help="Show step by step what these passes make of it.")
    ] = None,
    level: Annotated[str | None, typer.Option(help="Show what a level of `regraft optimize` makes of it.")] = None,
    rules: RuleNames = None,
    limit: Annotated[
        int, typer.Option(min=0, help="How many matches and near misses of each rule to show; 0 is faster.")
    ] = 8,
    profile: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Measured times, from `regraft bench --profile`; a second file is for AFTER."
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Open the page in a browser, and load it again when a file changes.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="For --serve; 0 takes one that is free.")] = 0,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="For --serve: open a browser.")] = True,
    mesh: MeshSizes = None,
    shard: ShardRules = None,
    dim: DimSizes = None,
    fix: FixedSizes = None,
    function: FunctionName = None,
) -> None:
    """Show a model in a browser: its graph, the effect of passes step by step, and why their rules do not match.

    Writes one HTML file that needs no network: MODEL.html in this folder, unless -o names another.
    """
    sizes, dims = parse_sizes(fix, "--fix"), parse_sizes(dim)
    from ..model import UsageError, check_output, open_model
    from ..run import build
    from ..view import read_profile
    from ..view import view as make_page

    if sum(given is not None for given in (after, name, level)) > 1 or (after is not None and rules):
        raise UsageError("a page shows one thing beside the model: AFTER, or --rules with --pass or --level")
    target = None if serve and output is None else output or Path(f"{model.stem}.html")
    profiles = list(profile or ())
    rule_files = [path for path in (Path(one.partition(":")[0]) for one in rules or ()) if path.is_file()]
    files = [path for path in (model, after, *profiles, *rule_files) if path is not None]

    def make() -> Page:
        with console.shown_progress() as progress:
            progress("reading", 0, 2)
            opened = open_model(model, function=function, fixed=sizes)
            if target is not None:
                check_output(target, [*opened.files, *files])
            progress("making the page", 1, 2)
            module, options, _ = laid(opened.module, opened.name, mesh, shard)
            return make_page(
                opened if mesh is None else replace(opened, module=module),
                None if after is None else open_model(after, fixed=sizes),
                passes=name,
                level=level,
                rules=rules or None,
                profile=[read_profile(path, version) for path, version in zip(profiles, (0, -1), strict=False)],
                limit=limit,
                sharding=None if mesh is None else build(module, target="xla", **options),
                dims=dims or None,
            )

    if not serve:
        assert target is not None
        make().write(target)
        console.print_line(f"Wrote {target} ({console.bytes_text(target.stat().st_size)})")
        return
    _serve(make, files, target, port, open_browser)


def _serve(make: Callable[[], Page], files: Sequence[Path], target: Path | None, port: int, open_browser: bool) -> None:
    import webbrowser

    from ..view.serve import Served, server

    def made() -> Page:
        page = make()
        if target is not None:
            page.write(target)
        return page

    served = Served(made, lambda: files, console.print_line)
    running = server(served, port)
    address = f"http://127.0.0.1:{running.server_port}/"
    console.print_line(f"Serving {address} until Ctrl-C")
    if open_browser:
        webbrowser.open(address)
    try:
        running.serve_forever()
    finally:
        running.server_close()
