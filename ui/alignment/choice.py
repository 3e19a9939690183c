"""The URL parameters of the page "Word for word", and what they choose."""

from dataclasses import dataclass
from typing import get_args

from transformer.measures.words import Row
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import HEAD, KIND, LAYER, Param, one_of

#: Where gold links come from, and their names on screen.
GOLDS = {
    "made": "Training text that knows its links", "letters": "Strings and their reversals",
    "drawn": "RWTH: links that people drew", "own": "My own file",
}  # fmt: skip


@dataclass(frozen=True)
class AlignmentChoice(Choice):
    """The URL parameters; `LAYER` and `HEAD` are shared with other pages."""

    row: Param[str] = Param("row", one_of(get_args(Row)), "reading")
    soft: Param[bool] = url_state.switch("soft")
    gold: Param[str] = Param("gold", one_of(GOLDS), "made")
    #: whether every head is measured against `gold`
    errors: Param[bool] = Param(
        "errors", lambda raw: one_of(("on", "off"))(raw) == "on", False,
        lambda value: "on" if value else "off", of="model gold",
    )  # fmt: skip
    layer: Param[int | None] = LAYER
    head: Param[int | None] = HEAD
    kind: Param[str] = KIND


def row_now() -> Row:
    """Return the stored row."""
    return next(row for row in get_args(Row) if row == url_state.get(AlignmentChoice.row))


def place_now(trace: Trace) -> tuple[int | None, int | None]:
    """Return the layer and head, from 0; by default layer 1, all heads together."""
    stored = url_state.stored(LAYER) or url_state.stored(HEAD)
    n_layers, n_heads = trace.cross.shape[:2]
    return url_state.cell(n_layers, n_heads, "cross") if stored else (0, None)
