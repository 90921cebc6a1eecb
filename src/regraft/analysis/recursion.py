"""Functions of a module that call themselves, directly or through others; and values that weights alone decide."""

from __future__ import annotations

from ..ir.expr import GlobalVar, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function, If, VarBinding
from ..ir.reading import defining_symvars
from .uses import direct_uses
from .variables import called_names, free_symbolic_vars


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """The groups of functions that call each other in a circle; a function that calls itself is a group of its own.

    Groups and their members are in the module's order. Cost: linear.
    """
    calls = {name: [called for called in called_names(f) if called in mod] for name, f in mod.items()}
    groups = [group for group in _connected(calls) if len(group) > 1 or group[0] in calls[group[0]]]
    place = {name: index for index, name in enumerate(mod)}
    ordered = sorted((sorted(group, key=place.__getitem__) for group in groups), key=lambda group: place[group[0]])
    return [[mod.get_global_var(name) for name in group] for group in ordered]


def _connected(edges: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected parts of a graph, by Tarjan's algorithm with a stack of its own."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: dict[str, None] = {}
    parts: list[list[str]] = []
    for root in edges:
        path = [] if root in number else [(root, iter(edges[root]))]
        if path:
            number[root] = lowest[root] = len(number)
            open_names[root] = None
        while path:
            name, following = path[-1]
            for other in following:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    open_names[other] = None
                    path.append((other, iter(edges[other])))
                    break
                if other in open_names:
                    lowest[name] = min(lowest[name], number[other])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == number[name]:
                    part: list[str] = []
                    while not part or part[-1] != name:
                        part.append(open_names.popitem()[0])
                    parts.append(part)
    return parts


def computable_at_compile_time(func: Function) -> list[Var]:
    """The weights of ``func``, parameters after the first ``num_input``, and what is made of them and constants alone.

    In order of definition; empty without the attribute ``num_input``. Values with effects, branches, casts, and sizes
    that no weight has are left out, and so is what a branch binds. Cost: linear.
    """
    count = func.attrs.get("num_input")
    if not isinstance(count, int):
        return []
    known = dict.fromkeys(func.params[count:])
    sizes = {size for param in known for size in defining_symvars(param.ty)}
    for block in func.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if type(binding) is not VarBinding or isinstance(value, If | Function):
                continue
            if isinstance(value, Call) and not value.is_pure:
                continue
            if not all(var in known for var in direct_uses(value).variables):
                continue
            if sizes.issuperset(free_symbolic_vars(value)):
                known[binding.var] = None
    return list(known)
