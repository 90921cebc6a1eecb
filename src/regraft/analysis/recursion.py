"""Functions of a module that call themselves, directly or through others."""

from __future__ import annotations

from ..ir.expr import GlobalVar
from ..ir.module import IRModule
from .variables import called_names


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """The groups of functions that call each other in a cycle; a function that calls itself is a group of its own.

    Groups and their members are in the module's order. Cost: linear.
    """
    calls = _calls(mod)
    groups = [group for group in _connected(calls) if len(group) > 1 or group[0] in calls[group[0]]]
    place = {name: index for index, name in enumerate(mod)}
    ordered = sorted((sorted(group, key=place.__getitem__) for group in groups), key=lambda group: place[group[0]])
    return [[mod.get_global_var(name) for name in group] for group in ordered]


def callees_first(mod: IRModule) -> list[str]:
    """The functions of ``mod``, each after those that it calls, but for calls in a circle. Cost: linear."""
    return [name for group in _connected(_calls(mod)) for name in group]


def _calls(mod: IRModule) -> dict[str, list[str]]:
    """By name, the functions of ``mod`` that each one calls."""
    return {name: [called for called in called_names(function) if called in mod] for name, function in mod.items()}


def _connected(edges: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected components of a graph, by Tarjan's algorithm with an explicit stack."""
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
