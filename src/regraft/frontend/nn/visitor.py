"""A visitor that changes the modules, parameters and effects of a model, at any depth."""

from __future__ import annotations

from typing import Any

from .module import Module, ModuleDict, ModuleList, ParameterDict, ParameterList
from .values import Effect, Parameter


class Mutator:
    """A walk through a model in the order of attributes; the result of a method replaces its argument.

    Derive from it and override `visit_module`, `visit_param` or `visit_effect`; call ``super()`` to visit the contents.
    The model that is passed to `visit` is changed in place and returned.
    """

    def visit_module(self, name: str, node: Module) -> Any:
        """Visit the module at the path ``name``."""
        return self.visit(name, node)

    def visit_effect(self, name: str, node: Effect) -> Any:
        """Return the effect unchanged."""
        return node

    def visit_param(self, name: str, node: Parameter) -> Any:
        """Return the parameter unchanged."""
        return node

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """Visit the modules."""
        return self.visit(name, node)

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """Visit the modules."""
        return self.visit(name, node)

    def visit_parameterdict(self, name: str, node: ParameterDict) -> Any:
        """Visit the parameters."""
        return self.visit(name, node)

    def visit_parameterlist(self, name: str, node: ParameterList) -> Any:
        """Visit the parameters."""
        return self.visit(name, node)

    def visit(self, name: str, node: Any) -> Any:
        """Change the contents of ``node``, and return it. ``name`` is its path, which prefixes the names inside."""
        for key, item in list(node.owned_items()) if isinstance(node, Module) else ():
            node.replace(key, self._changed(_inside(name, key), item))
        return node

    def _changed(self, name: str, item: Any) -> Any:
        match item:
            case ModuleDict():
                return self.visit_moduledict(name, item)
            case ModuleList():
                return self.visit_modulelist(name, item)
            case ParameterDict():
                return self.visit_parameterdict(name, item)
            case ParameterList():
                return self.visit_parameterlist(name, item)
            case Module():
                return self.visit_module(name, item)
            case Effect():
                return self.visit_effect(name, item)
            case Parameter():
                return self.visit_param(name, item)
            case _:
                return item


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
