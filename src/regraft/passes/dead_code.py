"""DeadCodeElimination: remove bindings and functions that nothing needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..analysis import called_names, remove_all_unused
from ..ir.module import IRModule
from ..ir.walks import reached
from .context import PassContext, PassError
from .passes import ModulePass, Pass


def reachable(module: IRModule, roots: Iterable[str]) -> set[str]:
    """The functions that ``roots`` mention, directly or through others; unknown names are ignored."""

    def called(name: str) -> list[str]:
        return [other for other in called_names(module[name]) if other in module]

    return set(reached([name for name in roots if name in module], called))


def without_unreached(module: IRModule, entries: Iterable[str] = ()) -> IRModule:
    """``module`` without the private functions that neither a public function nor one of ``entries`` reaches."""
    roots = [name for name, function in module.items() if not function.is_private or name in entries]
    needed = reachable(module, roots) if roots else set(module)
    dead = {name for name in module if name not in needed}
    return module.without_functions(dead) if dead else module


def DeadCodeElimination(entry_functions: Sequence[str] | None = None) -> Pass:
    """Remove bindings that no result or effect needs, and private functions that no public one reaches.

    ``entry_functions`` are private functions to keep as well. If the program is a single function, it stays.

    Needs: nothing. Guarantees: effects and casts that check something stay, in order. Raises `PassError` for an entry
    function that does not exist. Cost: linear.
    """
    entries = tuple(entry_functions or ())

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        for name in entries:
            if name not in module:
                raise PassError(f"entry function {name!r} is not in the module; there are: {', '.join(module)}")
        # Bindings first: a function that only dead bindings call is dead, too.
        live = {name: remove_all_unused(function) for name, function in module.items()}
        changed = {name: function for name, function in live.items() if function is not module[name]}
        if changed:
            module = module.with_functions(changed)
        return without_unreached(module, entries)

    return ModulePass(transform, "DeadCodeElimination", opt_level=1)
