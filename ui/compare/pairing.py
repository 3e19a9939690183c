"""Aligned maps of two sides, and their difference.

Two maps are aligned if their rows and columns mean the same: the same tokens, or else the same
words. In two sentences that differ in a few words, words in the same place are partners as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from figures.compare import LETTERS
from figures.labels import ARROW, code, count, show_token
from transformer.measures.compare import not_shared, parting, partners
from transformer.measures.words import group_labels, word_groups
from transformer.text.marks import unmarked
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.maps import AttentionChoice, Maps, dimmed_columns, shown_map
from ui.components.grid import Sheet
from ui.components.grid.signed import difference_sheet
from ui.components.lens import Map

_SIDES = {
    "encoder_self": ("source", "source"),
    "decoder_self": ("target", "target"),
    "cross": ("target", "source"),
}


@dataclass(frozen=True)
class Fit:
    """Units in which two maps of one kind can be subtracted, if any."""

    units: str  # "tokens" or "words", or "" if they cannot be subtracted
    why: str = ""  # Markdown: why maps cannot be subtracted, or why words are compared, not tokens
    helps: bool = False  # whether following the left translation would align them


def fit_of(
    left: Trace, right: Trace, kind: AttentionKind, units: str, *, by_place: bool = False
) -> Fit:
    """Align the maps of one kind in these units, or else over whole words.

    Args: by_place: allow partners to differ in a few places, as after changing one word.
    """
    sides = dict.fromkeys(_SIDES[kind])
    for tried in dict.fromkeys((units, "words")):
        axes = [(labels(left, side, tried), labels(right, side, tried)) for side in sides]
        if all(partners(one, other, by_place=by_place) for one, other in axes):
            if tried == units:
                return Fit(tried)
            return Fit(tried, "The two sides cut words differently, so this is over whole words.")
    for side in sides:
        one, other = labels(left, side, "words"), labels(right, side, "words")
        if partners(one, other, by_place=by_place):
            continue
        if side == "source":
            return Fit("", _sources_differ(one, other))
        at = (parting(one, other) or 1) - 1  # <s> is no word of the text
        apart = "from the first word on" if at < 1 else f"at word {at + 1}"
        return Fit(
            "",
            f"The translations diverge {apart}, so rows of one have no partner in the other.",
            not right.forced or right.text != left.text,
        )
    raise AssertionError("one of the sides differs")


def labels(trace: Trace, side: str, units: str) -> tuple[str, ...]:
    """Return the labels of the source or target axis."""
    source = side == "source"
    tokens = trace.src_tokens if source else trace.tgt_tokens
    if units == "tokens":
        return tokens
    tokens = unmarked(tokens)
    return group_labels(
        tokens, word_groups(tokens, trace.src_special if source else trace.tgt_special)
    )


def _sources_differ(one: Sequence[str], other: Sequence[str]) -> str:
    if len(one) != len(other):
        return (
            f"The sources have {len(one) - 1} and {len(other) - 1} words, so columns of one have "
            "no partner in the other."
        )
    here = not_shared(one, other)[0]
    first = code(one[here[0]], 30) if here else "a word"
    return f"The sources are different words from {first} on, so columns have no partner."


def changed_places(left: Maps, right: Maps) -> str:
    """Return a sentence about partners that differ, or ""."""
    pairs = dict.fromkeys(
        (one, other)
        for mine, theirs in ((left.queries, right.queries), (left.keys, right.keys))
        for one, other in zip(mine, theirs, strict=True)
        if one != other
    )
    if not pairs:
        return ""
    named = [f"{code(one, 24)} and {code(other, 24)}" for one, other in list(pairs)[:3]]
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    return f"{'; '.join(named)}{more} stand in the same place and are compared as equal."


def difference_map(
    left: Maps, right: Maps, choices: tuple[AttentionChoice, AttentionChoice]
) -> Map:
    """Return A - B of the maps on screen, which have the same shape."""
    here, there = shown_map(left, choices[0]), shown_map(right, choices[1])
    named = here.name if here.name == there.name else f"{here.name} − {there.name}"
    return replace(
        here,
        weights=here.weights - there.weights,
        query_tokens=_both(left.queries, right.queries),
        key_tokens=_both(left.keys, right.keys),
        name=f"A − B: {named}",
        dimmed_keys=dimmed_columns(left, choices[0]),
        signed=("B looks more", "A looks more"),
    )


def joined_choices(
    maps: tuple[Maps, Maps], choices: tuple[AttentionChoice, AttentionChoice]
) -> tuple[AttentionChoice, AttentionChoice]:
    """Return A's cell for both sides, combined over a layer or head that B lacks."""
    counts = [min(pair) for pair in zip(*(side.weights.shape[:2] for side in maps), strict=True)]
    layer, head = (
        at if at is not None and at < count else None
        for at, count in zip(choices[0].cell, counts, strict=True)
    )
    return replace(choices[0], cell=(layer, head)), replace(choices[1], cell=(layer, head))


def without_partner(left: Maps, right: Maps) -> str:
    """Return a sentence about heads without a cell, or "" if both sides have equally many."""
    shapes = [maps.weights.shape[:2] for maps in (left, right)]
    if shapes[0] == shapes[1]:
        return ""
    sizes = " and ".join(
        f"{letter} {count(layers, 'layer')} of {heads}"
        for letter, (layers, heads) in zip(LETTERS, shapes, strict=True)
    )
    return (
        f"{sizes} heads: those of one side only have no cell, but count in its combined row "
        "and column."
    )


def signed_sheet(maps: tuple[Maps, Maps], choice: AttentionChoice) -> Sheet:
    """Return the grid of A - B."""
    shown = difference_map(*maps, (choice, choice))
    assert shown.signed is not None
    return difference_sheet(
        maps[0].weights, maps[1].weights, shown.query_tokens, shown.key_tokens,
        label=f"A − B: {maps[0].kind_text.name}, all layers and heads", ends=shown.signed,
        how=choice.how, dimmed_keys=dimmed_columns(maps[0], choice),
    )  # fmt: skip


def _both(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Join the labels of partners; in decoder rows, of both tokens that they read and predict."""
    return tuple(
        ARROW.join(
            mine if mine == theirs else f"{show_token(mine)} | {show_token(theirs)}"
            for mine, theirs in zip(here.split(ARROW), there.split(ARROW), strict=False)
        )
        for here, there in zip(one, other, strict=True)
    )
