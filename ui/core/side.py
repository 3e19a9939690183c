"""One view on screen: a page's own, or one of the two sides of Compare.

A page draws a view by functions of a `Side`, so that the page calls them once and Compare twice,
with keys and settings that do not collide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from transformer.trace.records import Trace
from ui.core.url_state import Param
from ui.core.view import View

T = TypeVar("T")


def other(param: Param[T]) -> Param[T]:
    """Return side B's version of a page's setting: `token` becomes `other_token`."""
    return replace(param, name=f"other_{param.name}")


@dataclass(frozen=True, eq=False)
class Side:
    """A view with its trace.

    Attributes:
        view: of this side.  trace: of its sentence.
        letter: "A" or "B" on Compare; "" on a page of one view.
    """

    view: View
    trace: Trace
    letter: str = ""

    @property
    def lead(self) -> str:
        """The letter that starts a line of Markdown; "" on a page of one view."""
        return f"**{self.letter}** · " if self.letter else ""

    def key(self, name: str) -> str:
        """Return this side's key for a widget or component."""
        return f"{name}_{self.letter}" if self.letter else name

    def own(self, param: Param[T]) -> Param[T]:
        """Return this side's setting: the page's own, or for B a separate one (see `other`)."""
        return other(param) if self.letter == "B" else param
