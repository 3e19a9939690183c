"""Which maps of two sides line up, and their difference.

Two maps line up where rows and columns mean the same: the same tokens, else the same words. Of two
sentences that differ in a few words only, words in the same place are partners too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from figures.labels import show_token
from figures.markdown import code
from transformer.measures.compare import difference, not_shared, parting
from transformer.measures.words import group_labels, word_groups
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.choice import AttentionChoice
from ui.attention.maps import Maps, dimmed_columns, shown_map
from ui.components.lens import Map

#: Of two sentences at most this share of words may differ for places to be partners.
_MOST_CHANGED = 1 / 3

_SIDES = {
    "encoder_self": ("source", "source"),
    "decoder_self": ("target", "target"),
    "cross": ("target", "source"),
}


@dataclass(frozen=True)
class Fit:
    """Whether two maps of one kind can be subtracted.

    Attributes:
        units: "tokens" or "words" for which they can; "" where they cannot.
        why: one sentence, Markdown: why not, or why over words; "" where nothing is to be said.
        helps: whether following the left translation would make them fit.
    """

    units: str
    why: str = ""
    helps: bool = False


def fit_of(
    left: Trace, right: Trace, kind: AttentionKind, units: str, *, by_place: bool = False
) -> Fit:
    """How the maps of one kind line up, in the units asked for or over whole words.

    Args:
        by_place: partners may differ in a few places, as in two sentences with one word changed.
    """
    sides = dict.fromkeys(_SIDES[kind])
    for tried in dict.fromkeys((units, "words")):
        axes = [(labels(left, side, tried), labels(right, side, tried)) for side in sides]
        if all(partners(one, other, by_place) for one, other in axes):
            if tried == units:
                return Fit(tried)
            return Fit(tried, "The two sides cut words differently, so this is over whole words.")
    for side in sides:
        one, other = labels(left, side, "words"), labels(right, side, "words")
        if partners(one, other, by_place):
            continue
        if side == "source":
            return Fit("", _sources_differ(one, other))
        at = (parting(one, other) or 1) - 1  # <s> is no word of the text
        apart = "from the first word on" if at < 1 else f"at word {at + 1}"
        return Fit(
            "",
            f"The translations part {apart}, so rows of one have no partner in the other.",
            not right.forced or right.text != left.text,
        )
    raise AssertionError("one of the sides differs")


def labels(trace: Trace, side: str, units: str) -> tuple[str, ...]:
    """The labels of the source or target axis."""
    source = side == "source"
    tokens = trace.src_tokens if source else trace.tgt_tokens
    if units == "tokens":
        return tokens
    return group_labels(
        tokens, word_groups(tokens, trace.src_special if source else trace.tgt_special)
    )


def partners(one: Sequence[str], other: Sequence[str], by_place: bool) -> bool:
    """Whether the labels of two axes name the same things; with `by_place`, most of them."""
    if tuple(one) == tuple(other):
        return True
    changed = sum(here != there for here, there in zip(one, other, strict=False))
    return by_place and len(one) == len(other) and changed <= _MOST_CHANGED * len(one)


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
    """Which words stand for each other although they differ, as one sentence; "" for none."""
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
    return f"{'; '.join(named)}{more} stand in the same place and are taken for each other."


def difference_map(
    left: Maps, right: Maps, choices: tuple[AttentionChoice, AttentionChoice]
) -> Map:
    """A - B for the map that each side shows. Both have the same number of rows and columns."""
    here, there = shown_map(left, choices[0]), shown_map(right, choices[1])
    named = here.name if here.name == there.name else f"{here.name} − {there.name}"
    return replace(
        here,
        weights=difference(here.weights, there.weights),
        query_tokens=_both(left.queries, right.queries),
        key_tokens=_both(left.keys, right.keys),
        query_notes=(),
        name=f"A − B: {named}",
        dimmed_keys=dimmed_columns(left, choices[0]),
        signed=("B looks more", "A looks more"),
    )


def _both(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """One label for two partners."""
    return tuple(
        here if here == there else f"{show_token(here)} | {show_token(there)}"
        for here, there in zip(one, other, strict=True)
    )
