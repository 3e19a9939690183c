"""One view on screen: a page's own, or one of the two that Compare puts beside each other.

What a page draws of one view is a function of a `Side`, so that the page calls it once and Compare
twice, with keys and settings that do not meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from transformer.trace.records import Trace
from ui.core.url_state import Param
from ui.core.view import View

T = TypeVar("T")


def other(param: Param[T]) -> Param[T]:
    """A page's setting as B holds it: `token` becomes `other_token`."""
    return replace(param, name=f"other_{param.name}")


@dataclass(frozen=True, eq=False)
class Side:
    """A view, its trace, and where they stand.

    Attributes:
        view: what is looked at.  trace: of its sentence.
        letter: "A" or "B" beside another view; "" for the one view of a page.
    """

    view: View
    trace: Trace
    letter: str = ""

    @property
    def lead(self) -> str:
        """The letter in front of a line of Markdown; "" on a page of its own."""
        return f"**{self.letter}** · " if self.letter else ""

    def key(self, name: str) -> str:
        """The key of a widget or a component that each side has for itself."""
        return f"{name}_{self.letter}" if self.letter else name

    def own(self, param: Param[T]) -> Param[T]:
        """The setting of this side: the page's own, and for B one apart, see `other`."""
        return other(param) if self.letter == "B" else param
