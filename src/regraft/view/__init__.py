"""A view of programs in a browser: one HTML page with the graph, each step of the passes, and why rules do not match.

`view` makes a page from a program, a model or a report; notebooks display it directly. `records` and `recording` turn
programs and passes into the page's data. `page` puts the data, the script that `ui/` builds and the layout worker into
one file. Knows the package `model` and everything below it; only the command line is above.

The package can be called: ``rx.view(program)`` is ``rx.view.view(program)``.
"""

import sys
from types import ModuleType
from typing import Any, final

from .collect import view
from .page import Page
from .profile import Profile, read_profile
from .report import HtmlReport

__all__ = ["HtmlReport", "Page", "Profile", "read_profile", "view"]


@final
class _Room(ModuleType):
    """This package as a callable: importing it sets the name ``rx.view`` to the module, never to a function."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Page:
        return view(*arguments, **keywords)


sys.modules[__name__].__class__ = _Room
