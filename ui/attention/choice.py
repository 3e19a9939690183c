"""The Attention page's choices: the URL parameters, and the record limited to one trace.

Tokens are stored as positions of pieces, so a selection survives the switch to whole words; a word
is selected if any of its pieces is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from transformer.measures.heads import HOWS, Head
from transformer.measures.patterns import PATTERNS
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.attention.maps import DISPLAYS, AttentionChoice, clearest_head, kinds_of, special_keys
from ui.components.grid import Cell
from ui.components.lens import Selection
from ui.components.lines import Pin
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.units import UNITS
from ui.core.url_state import HEAD, KIND, LAYER, Param

T = TypeVar("T")

_number = url_state.whole(1, 99_999)


def parse_heads(raw: str) -> tuple[Head, ...] | None:
    """Parse `1.3-2.5` into 0-based layers and heads, keeping the order; `none` is an empty set."""
    if raw == "none":
        return ()
    heads = [(layer - 1, head - 1) for layer, head in map(url_state.parse_pair, raw.split("-"))]
    if len(set(heads)) != len(heads):
        raise ValueError(raw)
    return tuple(heads)


def write_heads(heads: tuple[Head, ...] | None) -> str:
    """Return the URL value of a set of heads; None, the page's default, is not written."""
    if heads is None:
        return ""
    return "-".join(f"{layer + 1}.{head + 1}" for layer, head in heads) or "none"


def parse_positions(raw: str) -> tuple[int, ...] | None:
    """Parse `3-5` into 0-based positions; `none` is no token."""
    if raw == "none":
        return ()
    return tuple(sorted({_number(part) - 1 for part in raw.split("-")}))


def write_positions(positions: tuple[int, ...] | None) -> str:
    """Return the URL value of selected tokens; None, the page's default, is not written."""
    if positions is None:
        return ""
    return "-".join(str(position + 1) for position in positions) or "none"


def parse_pin(raw: str) -> Pin | None:
    """Parse `q3` (a query) or `k5` (a key); `none` if nothing is pinned."""
    if raw == "none":
        return None
    if raw[:1] not in ("q", "k"):
        raise ValueError(raw)
    return ("query" if raw[0] == "q" else "key"), _number(raw[1:]) - 1


def write_pin(pin: Pin | None) -> str:
    """Return the URL value of a pinned token."""
    return "none" if pin is None else f"{pin[0][0]}{pin[1] + 1}"


def parse_kinds(raw: str) -> tuple[AttentionKind, ...]:
    """Parse `encoder_self-cross`."""
    known = {kind: kind for kind in ATTENTION_KINDS}
    try:
        return tuple(known[part] for part in raw.split("-"))  # type: ignore[index]
    except KeyError:
        raise ValueError(raw) from None


@dataclass(frozen=True)
class AttentionSettings(Choice):
    """The URL parameters; `read_choice` limits them to a trace.

    `pin`, `queries` and `keys` belong to the tokens of one sentence and kind. The heads with the
    pattern `find` are looked for in `find_in`; none is the kind on screen.
    """

    kind: Param[str] = KIND
    display: Param[str] = Param("display", url_state.one_of(DISPLAYS), "grid")
    layer: Param[int | None] = LAYER
    head: Param[int | None] = HEAD
    dim: Param[bool] = url_state.switch("dim")
    units: Param[str] = UNITS
    how: Param[str] = Param("combine", url_state.one_of(HOWS), "mean")
    map: Param[str] = Param("map", url_state.one_of(("cell", "heads")), "cell")
    heads: Param[tuple[Head, ...] | None] = Param("heads", parse_heads, None, write_heads)
    mass: Param[float] = Param("mass", url_state.number(0, 1), 0.75)
    pin: Param[Pin | None] = Param("pin", parse_pin, None, write_pin, "tokens")
    queries: Param[tuple[int, ...] | None] = Param(
        "queries", parse_positions, None, write_positions, "tokens"
    )
    keys: Param[tuple[int, ...] | None] = Param(
        "keys", parse_positions, None, write_positions, "tokens"
    )
    find: Param[str] = Param("find", url_state.one_of(PATTERNS), "previous")
    find_in: Param[tuple[AttentionKind, ...]] = Param("find_in", parse_kinds, (), "-".join)

    @classmethod
    def enter(cls, trace: Trace) -> None:
        """Forget tokens selected in another sentence, unless a link has just set them."""
        cls.forget_stale(tokens=hash((trace.src_tokens, trace.tgt_tokens)))


def ensure_kind(trace: Trace) -> None:
    """Replace the chosen kind if the trace has no maps of it."""
    kinds = kinds_of(trace)
    if url_state.get(KIND) not in kinds:
        if url_state.stored(KIND):  # tokens selected on other axes mean nothing here
            url_state.forget(*AttentionSettings.of("tokens"))
        url_state.put(KIND, kinds[-1])


def read_choice(
    trace: Trace,
    of_kind: AttentionKind | None = None,
    place: tuple[int | None, int | None] | None = None,
    display: str | None = None,
) -> AttentionChoice:
    """Return the stored choice, without anything that this model or sentence lacks.

    Args:
        of_kind: the kind of attention; defaults to the stored one.
        place: layer and head counted from 1, None for all; defaults to the stored ones.
        display: defaults to the stored one.
    """
    kinds = kinds_of(trace)
    stored = AttentionSettings.read()
    stored_kind = next((each for each in kinds if each == stored.kind), kinds[-1])
    kind = of_kind or stored_kind
    n_layers, n_heads, n, m = trace.attention(kind).shape
    layer, head = place or (stored.layer, stored.head)
    cell = (
        layer - 1 if layer is not None and layer <= n_layers else None,
        head - 1 if head is not None and head <= n_heads else None,
    )
    display, heads = display or stored.display, stored.heads
    if heads is None:  # lines open on one head, and are not combined unless that is asked for
        lines = display == "heads" or stored.map == "heads"
        heads = (clearest_head(trace, kind, cell),) if lines else ()
    heads = tuple(each for each in heads if each[0] < n_layers and each[1] < n_heads)
    pin = stored.pin
    if pin is not None and pin[1] >= (n if pin[0] == "query" else m):
        pin = None
    return AttentionChoice(
        kind=kind,
        display=display,
        units=stored.units,
        how=next(how for how in HOWS if how == stored.how),
        dim=stored.dim,
        cell=cell,
        chosen=stored.map == "heads" and bool(heads),
        heads=heads,
        mass=stored.mass,
        pin=pin,
        queries=tuple(at for at in stored.queries or () if at < n),
        # Start with the special tokens: how much weight does each head leave on them?
        keys=special_keys(trace, kind)
        if stored.keys is None
        else tuple(at for at in stored.keys if at < m),
    )


def take_kind(kind: str) -> None:
    """Show another kind and forget tokens selected on its predecessor's axes."""
    if url_state.get(KIND) != kind:
        url_state.put(KIND, kind)
        url_state.forget(*AttentionSettings.of("tokens"))


def wanted_cell() -> Cell:
    """Return the stored cell, even if the current kind has no such layer or head."""
    layer, head = url_state.get(LAYER), url_state.get(HEAD)
    return None if layer is None else layer - 1, None if head is None else head - 1


def wanted_marks(choice: AttentionChoice) -> tuple[Head, ...]:
    """Return the heads combined under the lens, including heads that the current kind lacks."""
    if url_state.get(AttentionSettings.map) != "heads":
        return ()
    stored = url_state.get(AttentionSettings.heads)
    return choice.heads if stored is None else stored


def choose_cell(cell: Cell) -> None:
    """Store the cell chosen in the grid."""
    layer, head = cell
    _change(LAYER, None if layer is None else layer + 1)
    _change(HEAD, None if head is None else head + 1)
    _change(AttentionSettings.map, "cell")


def _change(param: Param[T], value: T) -> None:
    """Store a value only if it changes, so that an untouched default stays out of the link."""
    if url_state.get(param) != value:
        url_state.put(param, value)


def choose_heads(heads: Sequence[Head]) -> None:
    """Store a set of heads."""
    url_state.put(AttentionSettings.heads, tuple(heads))


def mark_heads(heads: Sequence[Head]) -> None:
    """Store a set of heads and show them combined under the lens."""
    choose_heads(heads)
    url_state.put(AttentionSettings.map, "heads")


def choose_selection(selection: Selection) -> None:
    """Store the tokens whose weight is summed, as positions of pieces."""
    url_state.put(AttentionSettings.queries, selection[0])
    url_state.put(AttentionSettings.keys, selection[1])
