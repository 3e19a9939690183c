"""Maps on the Attention page: one kind, by tokens or words, single or combined.

`AttentionChoice` selects them without a session.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from figures import labels
from transformer.measures.heads import (
    PATTERNS,
    Head,
    How,
    Pattern,
    combine,
    combine_chosen,
    mass_by_head,
    mutual_information,
    pattern_mask,
    pattern_share,
)
from transformer.measures.registered import measured
from transformer.measures.words import Groups, maps_by_words, merge, predicted_words
from transformer.trace.records import Cells, Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools, Floats
from ui.components.grid import Cell, Sheet, Tab, grid_sheet
from ui.components.lens import Map, Selection
from ui.components.lines import Drawing, Pin, drawing

Display = Literal["grid", "heads", "matrix"]
DISPLAYS: tuple[Display, ...] = get_args(Display)

_BITS: WeakKeyDictionary[Trace, dict[AttentionKind, NDArray[np.float64]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class AttentionChoice:
    """Maps to show, limited to what this model and sentence have; indices count from 0."""

    kind: AttentionKind
    display: str
    units: str = "tokens"
    how: How = "mean"
    dim: bool = False
    cell: Cell = (None, None)  # layer and head of the single map; None combines all
    chosen: bool = False  # whether the lens combines `heads` instead of showing `cell`
    heads: tuple[Head, ...] = ()  # chosen heads in order of choice, possibly none
    mass: float = 0.75  # share of a query's weight that its lines hold
    pin: Pin | None = None  # pinned token, as a piece position
    #: queries, keys: tokens whose weight is summed, as piece positions
    queries: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()


def kinds_of(trace: Trace) -> tuple[AttentionKind, ...]:
    """Return the kinds of maps in a trace, at least one."""
    return tuple(kind for kind in ATTENTION_KINDS if trace.attention(kind).size)


def special_keys(trace: Trace, kind: AttentionKind) -> tuple[int, ...]:
    """Return the positions of the special tokens among the keys."""
    return trace.tgt_special if kind == "decoder_self" else trace.src_special


def clearest_head(trace: Trace, kind: AttentionKind, cell: Cell) -> Head:
    """Return the head on which lines open: `cell`, or the clearest head that it combines.

    The clearest head has the most mutual information between query and key.
    """
    cached = _BITS.setdefault(trace, {})
    if kind not in cached:
        cached[kind] = mutual_information(trace.attention(kind))
    bits = cached[kind]
    at = tuple(slice(None) if index is None else slice(index, index + 1) for index in cell)
    candidates = np.full(bits.shape, -1.0)
    candidates[at] = bits[at]
    layer, head = divmod(int(candidates.argmax()), bits.shape[1])
    return layer, head


def to_units(positions: Sequence[int], groups: Groups | None) -> tuple[int, ...]:
    """Return the units (tokens or words) that contain any of these pieces."""
    if groups is None:
        return tuple(positions)
    return tuple(at for at, group in enumerate(groups) if not set(group).isdisjoint(positions))


def to_pieces(units: Sequence[int], groups: Groups | None) -> tuple[int, ...]:
    """Return all pieces of these units."""
    if groups is None:
        return tuple(units)
    return tuple(position for at in units for position in groups[at])


@dataclass(frozen=True)
class KindText:
    """Texts about one kind of attention (section 3.2.3)."""

    name: str  # label of the control
    about: str  # one or two sentences
    #: queries, keys: axis titles
    queries: str
    keys: str
    short: str = ""  # shorter name, or "" to use `name`


ABOUT: dict[AttentionKind, str] = {
    "encoder_self": "Every source token looks at every source token. Nothing is masked: the whole "
    "sentence is known from the start.",
    "decoder_self": "Every token of the translation looks at itself and at the tokens before it. "
    "Later tokens are masked (dots): during translation they do not exist yet.",
    "cross": "Every token of the translation looks at the whole source while the next token is "
    "being predicted. Nothing is masked.",
}

#: Texts for models with a single stack, which do not translate.
ABOUT_ONE_STACK: dict[AttentionKind, str] = {
    "encoder_self": "Every token looks at every token of the text, before and after it. Nothing is "
    "masked.",
    "decoder_self": "Every token of the text looks at itself and at the tokens before it while the "
    "next token is being predicted. Later tokens are masked (dots).",
}


def kind_text_of(trace: Trace, kind: AttentionKind) -> KindText:
    """Return the texts about one kind of attention in this model."""
    about, short = ABOUT[kind], labels.KIND_NAMES[kind]
    queries, keys = labels.texts_of(trace, kind)
    if labels.one_stack(trace):
        about, short = ABOUT_ONE_STACK.get(kind, about), ""
    if kind != "encoder_self" and trace.predicted_tokens:
        queries = labels.READS_PREDICTS
    short = short.partition(" ")[0].removesuffix("-attention")
    return KindText(labels.name_of_kind(trace, kind), about, queries, keys, short)


@dataclass(frozen=True, eq=False)
class Maps:
    """All maps of one kind in the view's units."""

    weights: Floats  # [L, H, n, m]; rows are queries and sum to 1
    #: queries, keys: [n] and [m] labels; decoder rows name the tokens they read and predict
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    #: query_groups, key_groups: piece positions per word; None for tokens
    query_groups: Groups | None
    key_groups: Groups | None
    special: tuple[int, ...]  # columns that "Dim special tokens" covers
    kind_text: KindText  # texts about this kind
    causal: bool  # whether later keys are masked
    cells: Cells | None = None  # the measure of `weights`, None for attention weights
    #: [L + 1, H + 1, n, m], with all heads and all layers together; None if these are means
    wide: Floats | None = None

    def units(self, choice: AttentionChoice) -> Selection:
        """Return the selected queries and keys as units."""
        return to_units(choice.queries, self.query_groups), to_units(choice.keys, self.key_groups)

    def pieces(self, queries: Sequence[int], keys: Sequence[int]) -> Selection:
        """Return units of queries and keys as pieces."""
        return to_pieces(queries, self.query_groups), to_pieces(keys, self.key_groups)


def maps_of(trace: Trace, kind: AttentionKind, units: str) -> Maps:
    """Return the maps of one kind in `units`, "tokens" or "words"."""
    special, kind_text = special_keys(trace, kind), kind_text_of(trace, kind)
    causal, cells = kind == "decoder_self", trace.cells
    wide = cells.wide[kind] if cells else None
    if units == "tokens":
        queries, (_, keys) = labels.query_labels(trace, kind), trace.axis_tokens(kind)
        return Maps(
            trace.attention(kind), queries, keys, None, None, special, kind_text, causal,
            cells, wide,
        )  # fmt: skip
    words = maps_by_words(trace, kind)
    rows, columns = words.query_groups, words.key_groups
    predicts = () if kind == "encoder_self" else trace.predicted_tokens
    ended = trace.complete or trace.forced_end
    return Maps(
        words.weights,
        labels.row_labels(words.queries, predicts and predicted_words(predicts, rows, ended)),
        words.keys, rows, columns, to_units(special, columns), kind_text, causal, cells,
        None if wide is None else merge(wide, rows, columns),
    )  # fmt: skip


def tab_of(trace: Trace, kind: AttentionKind, sheet: Sheet | None) -> Tab:
    """Return the grid's tab for one kind."""
    kind_text = kind_text_of(trace, kind)
    return Tab(kind_text.name, kind_text.short or kind_text.name, sheet)


def sheet_of(maps: Maps, choice: AttentionChoice) -> Sheet:
    """Return the grid of these maps."""
    return grid_sheet(
        maps.weights, maps.queries, maps.keys, how=choice.how, noun=labels.cell_noun(maps.cells),
        wide=maps.wide if choice.how == "mean" else None,
        named=labels.combination(maps.cells, choice.how),
        label=f"{maps.kind_text.name}, all layers and heads",
        dimmed_keys=dimmed_columns(maps, choice),
    )  # fmt: skip


def drawing_of(maps: Maps, choice: AttentionChoice) -> Drawing:
    """Return the lines of the chosen heads in these maps."""
    return drawing(
        maps.weights, choice.heads, maps.queries, maps.keys, mass=choice.mass,
        query_title=maps.kind_text.queries, key_title=maps.kind_text.keys,
        dimmed_keys=dimmed_columns(maps, choice), causal=maps.causal,
    )  # fmt: skip


def dimmed_columns(maps: Maps, choice: AttentionChoice) -> tuple[int, ...]:
    """Return the columns to cover."""
    return maps.special if choice.dim else ()


def shown_map(maps: Maps, choice: AttentionChoice) -> Map:
    """Return the map under the lens: a head, a whole layer or stack, or the chosen heads."""
    if choice.chosen:
        weights = combine_chosen(maps.weights, choice.heads, choice.how)
    elif maps.wide is None or choice.how != "mean":
        weights = combine(maps.weights, choice.how, *choice.cell)
    else:  # heads together are not always their mean
        layer, head = (-1 if at is None else at for at in choice.cell)
        weights = maps.wide[layer, head]
    ends = labels.EFFECT_ENDS if maps.cells is not None and maps.cells.signed else None
    return Map(
        weights, maps.queries, maps.keys, name_of_map(choice, maps.cells), maps.kind_text.queries,
        maps.kind_text.keys, dimmed_columns(maps, choice), maps.causal, ends,
        noun=labels.cell_noun(maps.cells),
    )  # fmt: skip


def name_of_map(choice: AttentionChoice, cells: Cells | None = None) -> str:
    """Return the name of the map under the lens, of weights or a measure."""
    if choice.chosen:
        over = "Mean" if choice.how == "mean" else "Maximum"
        named = ", ".join(f"{layer + 1}.{head + 1}" for layer, head in choice.heads[:8])
        more = f" and {len(choice.heads) - 8} more" if len(choice.heads) > 8 else ""
        return f"{over} of heads {named}{more}" if len(choice.heads) > 1 else f"Head {named}"
    return labels.cell_name(choice.cell, labels.combination(cells, choice.how)).capitalize()


#: Pattern names, which follow "Heads that look at".
NAMES: dict[Pattern, str] = {
    "previous": "the previous token",
    "next": "the next token",
    "itself": "the token itself",
    "first": "the first token",
    "end": "the end token, `</s>`",
    "diagonal": "the diagonal",
    "pair": "a chosen token from a chosen token",
}


def mask_of(
    maps: Maps, kind: AttentionKind, pattern: Pattern, queries: Sequence[int], keys: Sequence[int]
) -> Bools:
    """Return the keys that a pattern selects per query, [n, m]; the tokens of "pair" are units."""
    return pattern_mask(
        pattern, len(maps.queries), len(maps.keys), same=kind != "cross", causal=maps.causal,
        special=maps.special, queries=queries, keys=keys,
    )  # fmt: skip


def values_of(
    maps: Maps, kind: AttentionKind, find: str, queries: Sequence[int] = (),
    keys: Sequence[int] = (),
) -> Floats | None:  # fmt: skip
    """Return every head's weight on a pattern, or its registered measure, [L, H].

    None if no row has the pattern. Raises: `InputError` for a measure that fails or is missing.
    """
    for pattern in PATTERNS:
        if pattern == find:
            mask = mask_of(maps, kind, pattern, queries, keys)
            shares = pattern_share(maps.weights, mask, causal=maps.causal)
            return None if shares is None else shares.astype("f4")
    return measured(find, maps.weights)


def selected_mass(maps: Maps, choice: AttentionChoice) -> Floats:
    """Return every head's weight on the selected keys, averaged over selected queries, [L, H]."""
    return mass_by_head(maps.weights, *maps.units(choice)).astype("f4")


def share_of(weights: Floats, keys: Sequence[int]) -> float:
    """Return the share of a map [n, m] on some keys; 0 for a map without weight."""
    total = float(weights.sum(dtype="f8"))
    return float(mass_by_head(weights, (), keys)) * len(weights) / total if total else 0.0


def largest_cells(gaps: Floats, least: float) -> tuple[tuple[int, int], ...]:
    """Return the at most 3 cells to frame, the largest first."""
    order = np.argsort(-gaps, axis=None, kind="stable")[: min(3, np.sum(gaps >= least))]
    return tuple(divmod(int(at), gaps.shape[1]) for at in order)
