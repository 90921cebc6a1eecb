"""Programs to look at: one HTML page with the graph, what passes made of it, step by step, and why rules do not match.

`view` makes a page of a program, a model or a report; a notebook shows it as it stands. `records` and `recording` turn
programs and passes into the page's data, `page` puts the data, the script that `ui/` builds and the layout worker into
one file. Knows the models room and everything below; only the command line is above.

The room can be called: ``rx.view(program)`` is ``rx.view.view(program)``.
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
    """This room as a function; Python binds the name of a package's module over that of any function."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Page:
        return view(*arguments, **keywords)


sys.modules[__name__].__class__ = _Room
