"""The Attention page's choices, limited to one trace, and the maps computed for them.

Tokens are stored as positions of pieces, so a selection survives a switch to whole words; a word is
selected if any of its pieces is.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from transformer.attribution.cells import Place
from transformer.measures.heads import HOWS, PATTERNS, Head
from transformer.measures.registered import all_measures, is_built_in, load_measures
from transformer.study.records import Study
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, InputError
from ui.attention.maps import (
    DISPLAYS,
    AttentionChoice,
    Maps,
    clearest_head,
    drawing_of,
    kinds_of,
    maps_of,
    sheet_of,
    tab_of,
    values_of,
)
from ui.components.grid import MOST_AT_ONCE, Cell, Sheet, Tab
from ui.components.lens import Selection
from ui.components.lines import Drawing, Pin
from ui.core import url_state
from ui.core.public import is_public
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import View
from ui.core.widgets import UNITS, Choice
from ui.work.desk import computed
from ui.work.results import Computation
from ui.work.studies import Opened, study_of

T = TypeVar("T")


def several(
    name: str, parse: Callable[[str], T], write: Callable[[T], str] = str, of: str = ""
) -> Param[tuple[T, ...] | None]:
    """Return a setting with several distinct values in order, such as `1.3-2.5`.

    `none` is an empty tuple; None, the page's default, is not written.
    """

    def parse_all(raw: str) -> tuple[T, ...]:
        return () if raw == "none" else tuple(map(parse, raw.split("-")))

    def write_all(values: tuple[T, ...] | None) -> str:
        return "" if values is None else "-".join(map(write, values)) or "none"

    distinct = url_state.checked(parse_all, lambda values: len(set(values)) == len(values))
    return Param(name, distinct, None, write_all, of)


def _parse_head(raw: str) -> Head:
    layer, head = url_state.parse_pair(raw)
    return layer - 1, head - 1


def _parse_position(raw: str) -> int:
    return url_state.whole(1, 99_999)(raw) - 1


def _parse_pin(raw: str) -> Pin | None:
    """Parse `q3` (a query) or `k5` (a key); `none` if nothing is pinned."""
    if raw == "none":
        return None
    if raw[:1] not in ("q", "k"):
        raise ValueError(raw)
    return ("query" if raw[0] == "q" else "key"), _parse_position(raw[1:])


def _write_pin(pin: Pin | None) -> str:
    return f"{pin[0][0]}{pin[1] + 1}" if pin else "none"


@dataclass(frozen=True)
class AttentionSettings(Choice):
    """URL parameters; `read_choice` limits them to a trace.

    `pin`, `queries` and `keys` refer to tokens of one sentence and kind. A stored `find` opens the
    finder, which searches the kinds in `find_in`, by default the kind on screen. `source_word` is
    the number of the word to hide.
    """

    kind: Param[str] = KIND
    #: a display, or "against" for a matrix with a second measure beside it
    display: Param[str] = Param("display", url_state.one_of((*DISPLAYS, "against")), "grid")
    layer: Param[int | None] = LAYER
    head: Param[int | None] = HEAD
    dim: Param[bool] = url_state.switch("dim")
    units: Param[str] = UNITS
    how: Param[str] = Param("combine", url_state.one_of(HOWS), "mean")
    map: Param[str] = Param("map", url_state.one_of(("cell", "heads")), "cell")
    heads: Param[tuple[Head, ...] | None] = several(
        "heads", _parse_head, lambda head: url_state.write_pair((head[0] + 1, head[1] + 1))
    )
    mass: Param[float] = Param("mass", url_state.number(0, 1), 0.75)
    pin: Param[Pin | None] = Param("pin", _parse_pin, None, _write_pin, "tokens kind")
    queries: Param[tuple[int, ...] | None] = several(
        "queries", _parse_position, lambda at: str(at + 1), "tokens kind"
    )
    keys: Param[tuple[int, ...] | None] = several(
        "keys", _parse_position, lambda at: str(at + 1), "tokens kind"
    )
    find: Param[str] = Param("find", url_state.text(60), PATTERNS[0])
    find_in: Param[tuple[str, ...] | None] = several("find_in", url_state.one_of(ATTENTION_KINDS))
    source_word: Param[int | None] = Param(
        "source_word", url_state.whole(1, 99_999), None, of="tokens"
    )

    @classmethod
    def enter(cls, trace: Trace) -> None:
        """Forget tokens selected in another sentence, unless a link has just set them.

        Edits and moments of training change the translation of a sentence, but keep the tokens.
        """
        url_state.settle(tokens=trace.src_tokens)


def ensure_kind(trace: Trace) -> None:
    """Replace the chosen kind if the trace has no maps of it."""
    kinds = kinds_of(trace)
    if url_state.get(KIND) not in kinds:
        # Tokens selected for another kind mean nothing here, but those in a link without a kind do.
        tokens = () if url_state.stored(KIND) else AttentionSettings.of("tokens")
        kept = {param: url_state.get(param) for param in tokens if url_state.stored(param)}
        url_state.store({KIND: kinds[-1], **kept})


def read_choice(
    trace: Trace,
    of_kind: AttentionKind | None = None,
    place: tuple[int | None, int | None] | None = None,
    display: str | None = None,
) -> AttentionChoice:
    """Return the stored choice, without anything that this model or sentence lacks.

    Args:
        of_kind: kind of attention; defaults to the stored kind.
        place: layer and head, 1-based, None for all; defaults to the stored ones, or to the
            clearest head.
        display: defaults to the stored display.
    """
    kinds = kinds_of(trace)
    stored = AttentionSettings.read()
    stored_kind = next((kind for kind in kinds if kind == stored.kind), kinds[-1])
    kind = of_kind or stored_kind
    n_layers, n_heads, n, m = trace.attention(kind).shape
    layer, head = url_state.indices(place or (stored.layer, stored.head), (n_layers, n_heads))
    cell = layer, head
    against = (display or stored.display) == "against"
    if place is None and not _cell_stored() and not against:
        cell = clearest_head(trace, kind, cell)
    display, heads = "matrix" if against else display or stored.display, stored.heads
    if heads is None:  # lines open on one head
        lines = display == "heads" or stored.map == "heads"
        heads = (clearest_head(trace, kind, cell),) if lines else ()
    heads = tuple(at for at in heads if at[0] < n_layers and at[1] < n_heads)
    pin = stored.pin
    if pin is not None and pin[1] >= (n if pin[0] == "query" else m):
        pin = None
    how, chosen = next(how for how in HOWS if how == stored.how), bool(heads)
    maps = kind, display, stored.units, how, stored.dim, cell, chosen and stored.map == "heads"
    queries = tuple(at for at in stored.queries or () if at < n)
    keys = tuple(at for at in stored.keys or () if at < m)
    return AttentionChoice(*maps, heads, stored.mass, pin, queries, keys)


def places_of(choice: AttentionChoice) -> tuple[Place, ...]:
    """Return the position of the map under the lens or matrix, () for combined heads."""
    alone = choice.display != "heads" and not choice.chosen
    return ((choice.kind, *choice.cell),) if alone else ()


def wanted_cell(choice: AttentionChoice) -> Cell:
    """Return the chosen cell, even if the current kind lacks this layer or head."""
    return url_state.cell(999, 999) if _cell_stored() else choice.cell


def _cell_stored() -> bool:
    return url_state.stored(LAYER) or url_state.stored(HEAD)


def wanted_marks(choice: AttentionChoice) -> tuple[Head, ...]:
    """Return the heads to combine under the lens, including heads that the current kind lacks."""
    if url_state.get(AttentionSettings.map) != "heads":
        return ()
    stored = url_state.get(AttentionSettings.heads)
    return choice.heads if stored is None else stored


def choose_cell(cell: Cell, *heads: Head) -> None:
    """Store a cell, and heads for lines, if any."""
    layer, head = (None if at is None else at + 1 for at in cell)
    values: dict[Param[Any], object] = {LAYER: layer, HEAD: head, AttentionSettings.map: "cell"}
    url_state.store(values | ({AttentionSettings.heads: heads} if heads else {}))


def mark_heads(heads: Sequence[Head]) -> None:
    """Store heads and combine them under the lens; without heads, show the chosen cell."""
    under = "heads" if heads else "cell"
    url_state.store({AttentionSettings.heads: tuple(heads), AttentionSettings.map: under})


def choose_selection(selection: Selection) -> None:
    """Store the tokens whose weight is summed, as positions of pieces."""
    queries, keys = selection
    url_state.store({AttentionSettings.queries: queries, AttentionSettings.keys: keys})


def ask_pair(choice: AttentionChoice, maps: Maps, query: int, key: int) -> None:
    """Rank heads in the finder by their weight from a query unit to a key unit."""
    queries, keys = maps.pieces((query,), (key,))
    url_state.store({
        KIND: choice.kind, AttentionSettings.find: "pair",
        AttentionSettings.queries: queries, AttentionSettings.keys: keys,
    })  # fmt: skip


def measures() -> dict[str, str]:
    """Return labels of registered measures by name; a public server has built-in measures only.

    Modules named in `HEADLIGHT_MEASURES` are imported first.

    Raises: `InputError`, one line, for a module that cannot be imported.
    """
    registry = all_measures()
    if not is_public():
        load_measures(os.environ.get("HEADLIGHT_MEASURES", ""))
    labels = {name: name if is_built_in(name) else f"{name} (your measure)" for name in registry}
    return {name: label for name, label in labels.items() if name == label or not is_public()}


def toggle_find() -> None:
    """Open or close the finder."""
    if url_state.stored(AttentionSettings.find):
        url_state.forget(AttentionSettings.find, AttentionSettings.find_in)
    else:
        url_state.put(AttentionSettings.find, AttentionSettings.find.default)


def found_values(
    kind: AttentionKind, units: str, find: str, pair: tuple[int, int] = (0, 0)
) -> Computation[Floats | str | None]:
    """Return every head's value, or one line about the error in a measure."""

    def make(_: object, trace: Trace) -> Floats | str | None:
        try:
            return values_of(maps_of(trace, kind, units), kind, find, *as_units(pair))
        except InputError as error:
            return str(error)

    return Computation("found", (kind, units, find, pair), make)


def as_units(pair: tuple[int, int]) -> tuple[tuple[int], tuple[int]]:
    """Return a query and a key as the tokens of a pattern."""
    return (pair[0],), (pair[1],)


def heads_do(view: View, trace: Trace) -> dict[str, dict[Head, tuple[str, str]]]:
    """Return head roles by kind, a word and a sentence, from the model's study.

    While the finder shows a measure, its values replace the roles. Heads of an edited model have
    the roles of the original unless the edited model was studied itself.
    """
    roles: dict[str, dict[Head, tuple[str, str]]] = {kind: {} for kind in kinds_of(trace)}
    opened = _opened(view)
    for (kind, layer, head), tag in opened.tags.items() if opened else ():
        if kind in roles and tag.finding.named:
            roles[kind][layer, head] = tag.word, tag.text
    name = url_state.get(AttentionSettings.find)
    usable = False
    with suppress(InputError):  # the finder says why
        usable = url_state.stored(AttentionSettings.find) and name in measures()
    if usable:
        for kind in kinds_of(trace):
            values = computed(view, found_values(kind, url_state.get(UNITS), name))
            if values is not None and not isinstance(values, str):
                roles[kind] = {
                    (layer, head): (f"{value:.2f}", f"{name}: {value:.4g}.")
                    for (layer, head), value in np.ndenumerate(values)
                }
    return roles


def study_for(view: View) -> Study | None:
    """Return the study of the view's model; see `heads_do`."""
    opened = _opened(view)
    return opened.study if opened else None


def _opened(view: View) -> Opened | None:
    ref = view.entry.ref
    return study_of(ref) or study_of(ref.edited(""))


def get_maps(view: View, trace: Trace, choice: AttentionChoice) -> Maps:
    """Return `maps_of`, cached when words have to be merged."""
    if choice.units == "tokens":
        return maps_of(trace, choice.kind, choice.units)
    return computed(view, _by_words(choice.kind, choice.units))


def get_tabs(view: View, trace: Trace, choice: AttentionChoice) -> dict[str, Tab]:
    """Return the grid's tab for every kind, with its maps if they are sent at once."""
    sheets = {
        kind: computed(view, sheet_for(replace(choice, kind=kind)))
        for kind in _at_once(trace, choice)
    }
    return {kind: tab_of(trace, kind, sheets.get(kind)) for kind in kinds_of(trace)}


def largest(view: View, trace: Trace, choice: AttentionChoice) -> tuple[int, int]:
    """Return the largest number of heads per layer and of units per axis over all kinds."""
    every = [get_maps(view, trace, replace(choice, kind=kind)) for kind in kinds_of(trace)]
    longest = max(max(len(maps.queries), len(maps.keys)) for maps in every)
    return max(maps.weights.shape[1] for maps in every), longest


def first_of_maps(trace: Trace, choice: AttentionChoice) -> list[Computation[Any]]:
    """Return the computations for one display."""
    first: list[Computation[Any]] = []
    if choice.units != "tokens":
        kinds = kinds_of(trace) if choice.display == "grid" else (choice.kind,)
        first += [_by_words(kind, choice.units) for kind in kinds]
    if choice.display == "grid":
        first += [sheet_for(replace(choice, kind=kind)) for kind in _at_once(trace, choice)]
    elif choice.display == "heads":
        first.append(lines_for(choice))
    return first


def _at_once(trace: Trace, choice: AttentionChoice) -> list[AttentionKind]:
    """Return the kinds whose grids are sent together: all if they are small enough."""
    kinds = kinds_of(trace)
    quick = sum(trace.attention(kind).size for kind in kinds) <= MOST_AT_ONCE
    return [kind for kind in kinds if quick or kind == choice.kind]


def _by_words(kind: AttentionKind, units: str) -> Computation[Maps]:
    return Computation("words", (kind, units), lambda _, trace: maps_of(trace, kind, units))


def sheet_for(choice: AttentionChoice) -> Computation[Sheet]:
    """Return the computation of the grid of all maps."""
    return Computation(
        "grid", (choice.kind, choice.units, choice.how, choice.dim),
        lambda _, trace: sheet_of(maps_of(trace, choice.kind, choice.units), choice),
    )  # fmt: skip


def lines_for(choice: AttentionChoice) -> Computation[Drawing]:
    """Return the computation of the chosen heads' lines."""
    return Computation(
        "lines", (choice.kind, choice.units, choice.heads, choice.mass, choice.dim),
        lambda _, trace: drawing_of(maps_of(trace, choice.kind, choice.units), choice),
    )  # fmt: skip
