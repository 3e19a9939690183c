"""A view on screen: a page's own, or one of the two sides of Compare.

Functions that draw a `Side` serve both a page and Compare, which calls them twice with separate
widget keys and settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.url_state import HEAD, LAYER, Param
from ui.core.view import View

T = TypeVar("T")


def other(param: Param[T]) -> Param[T]:
    """Return side B's copy of a setting: `token` becomes `other_token`."""
    return replace(param, name=f"other_{param.name}")


def _parse_cell(raw: str) -> str:
    return raw if raw in ("same", "mean") else str(url_state.whole(1, 99_999)(raw))


#: Layer and head of B: a number from 1, "mean", or "same" as A.
OTHER_LAYER: Param[str] = Param("other_layer", _parse_cell, "same")
OTHER_HEAD: Param[str] = Param("other_head", _parse_cell, "same")


@dataclass(frozen=True, eq=False)
class Side:
    """A view with its trace."""

    view: View
    trace: Trace
    letter: str = ""  # "A" or "B" on Compare, otherwise ""
    follows: bool = False  # True for a B that reads A's translation
    beside: list[Side] = field(default_factory=list)  # sides on screen, on Compare only

    @property
    def first(self) -> Side | None:
        """A, if this is B and A is on screen."""
        return self.beside[0] if self.letter == "B" and len(self.beside) > 1 else None

    @property
    def lead(self) -> str:
        """Markdown prefix with the letter, or ""."""
        return f"**{self.letter}** · " if self.letter else ""

    def key(self, name: str) -> str:
        """Return this side's key of a widget or component."""
        return f"{name}_{self.letter}" if self.letter else name

    def own(self, param: Param[T]) -> Param[T]:
        """Return this side's setting: B has its own, see `other`."""
        return other(param) if self.letter == "B" else param

    @property
    def cell_params(self) -> tuple[Param[Any], Param[Any]]:
        """This side's layer and head settings."""
        return (OTHER_LAYER, OTHER_HEAD) if self.letter == "B" else (LAYER, HEAD)

    def cell_now(
        self, first: tuple[int | None, int | None] | None = None
    ) -> tuple[int | None, int | None]:
        """Return this side's layer and head, counted from 1; None means all.

        Args:
            first: A's layer and head, which B follows by default; the stored values if omitted.
        """
        shared = first or (url_state.get(LAYER), url_state.get(HEAD))
        layer, head = (
            same if raw == "same" else None if raw in (None, "mean") else int(raw)
            for raw, same in zip(map(url_state.get, self.cell_params), shared, strict=True)
        )
        return layer, head
