"""Alignment and difference of both sides' maps.

Maps are aligned if rows and columns are the same tokens or the same words. For sentences that
differ in a few words, words at the same position are paired too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from figures.attention import LETTERS
from figures.labels import ARROW, code, count, plain, plain_token, reads, show_token
from transformer.measures.compare import divergence, not_shared, parting, partners
from transformer.measures.words import group_labels, word_groups
from transformer.text.marks import unmarked
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.maps import AttentionChoice, Maps, dimmed_columns, largest_cells, shown_map
from ui.components.grid import Sheet, difference_sheet
from ui.components.lens import Map

_SIDES = {
    "encoder_self": ("source", "source"),
    "decoder_self": ("target", "target"),
    "cross": ("target", "source"),
}
#: Least difference of a cell that is framed or named.
LEAST = 0.05
#: Between different labels at the same position; tokens and words have no spaces.
BOTH = " | "


@dataclass(frozen=True)
class Fit:
    """Units in which two maps can be subtracted, if any."""

    units: str  # "tokens" or "words", or "" if maps cannot be subtracted
    why: str = ""  # Markdown: reason for no units, or for words instead of tokens
    helps: bool = False  # whether B following A's translation would align them


def fit_of(
    left: Trace, right: Trace, kind: AttentionKind, units: str, *, by_place: bool = False
) -> Fit:
    """Align maps of one kind in these units, otherwise over whole words.

    Args: by_place: pair different words at the same position, up to a third of a sentence.
    """
    sides = dict.fromkeys(_SIDES[kind])
    for unit in dict.fromkeys((units, "words")):
        axes = [(labels(left, side, unit), labels(right, side, unit)) for side in sides]
        if all(partners(one, other, by_place=by_place) for one, other in axes):
            why = "" if unit == units else (
                "A and B split words differently, so this compares whole words."
            )  # fmt: skip
            return Fit(unit, why)
    for side in sides:
        one, other = labels(left, side, "words"), labels(right, side, "words")
        if partners(one, other, by_place=by_place):
            continue
        if side == "source":
            return Fit("", _sources_differ(one, other))
        at = max((parting(one, other) or 1) - 1, 0)  # <s> is not a word in the text
        why = f"The translations diverge at word {at + 1}, so their rows cannot be paired."
        return Fit("", why, not right.forced or right.text != left.text)
    raise AssertionError("one of the axes differs")


def labels(trace: Trace, side: str, units: str) -> tuple[str, ...]:
    """Return labels for the source or target axis."""
    source = side == "source"
    tokens = trace.src_tokens if source else trace.tgt_tokens
    if units == "tokens":
        return tokens
    special = trace.src_special if source else trace.tgt_special
    return group_labels(unmarked(tokens), word_groups(tokens, special))


def _sources_differ(one: Sequence[str], other: Sequence[str]) -> str:
    if len(one) != len(other):
        counts = f"{len(one) - 1} and {len(other) - 1} words"
        return f"The sources have {counts}, so their columns cannot be paired."
    here = not_shared(one, other)[0]
    first = code(one[here[0]], 30) if here else "a word"
    return f"The sources differ from {first} on, so their columns cannot be paired."


def changed_labels(left: Maps, right: Maps) -> list[list[int]]:
    """Return the queries and the keys that differ; decoder rows by what they predict."""
    return [
        [at for at, label in enumerate(labels) if BOTH in label.split(ARROW)[-1]]
        for labels in (_both(left.queries, right.queries), _both(left.keys, right.keys))
    ]


def most_different_head(one: Maps, other: Maps) -> tuple[int, int] | None:
    """Return the layer and head, from 1, that differ most at the last row with another word."""
    if not (rows := changed_labels(one, other)[0]):
        return None
    apart = np.abs(one.weights - other.weights)[:, :, rows[-1]].max(-1)
    layer, head = divmod(int(apart.argmax()), apart.shape[1])
    return layer + 1, head + 1


def row_sentence(one: Map, other: Map, row: int) -> str:
    """Return a sentence on the key on which both maps differ most in a row."""
    at = row, int(np.abs(one.weights[row] - other.weights[row]).argmax())
    parts = []
    for letter, shown in zip(LETTERS, (one, other), strict=True):
        read, _, predicted = plain_token(shown.query_tokens[row]).partition(ARROW)
        doing, key = "Predicting" if predicted else "Reading", plain_token(shown.key_tokens[at[1]])
        parts.append(
            f"{doing if letter == 'A' else doing.lower()} **“{plain(predicted or read)}”**, "
            f"{letter} puts **{shown.weights[at]:.0%}** on “{plain(key)}”"
        )
    return f"{'; '.join(parts)}."


def largest_differences(one: Map, other: Map, difference: Map) -> str:
    """Return the cells that differ most, each with both sides' weights, one a line."""
    return "  \n".join(
        f"{plain(reads(difference.query_tokens[at[0]], difference.key_tokens[at[1]]))}: "
        f"**{one.weights[at]:.2f}** in A, **{other.weights[at]:.2f}** in B"
        for at in largest_cells(np.abs(difference.weights), LEAST)
    )


def difference_words(one: Map, other: Map, difference: Map, how: str = "") -> list[str]:
    """Return lines on what differs; for the mean of heads, with the rule of its rows."""
    if not difference.weights.any():
        return ["**All weights are equal on both sides.**"]
    lines = [
        largest_differences(one, other, difference),
        f"Rows differ by **{divergence(one.weights, other.weights).mean():.3f} bits** on average "
        "(Jensen-Shannon divergence: 0 for equal rows, 1 for rows that share no key).",
    ]
    if how == "mean":
        lines.append(
            "Each row of the difference sums to 0: a side that looks more at some keys looks "
            "less at other keys."
        )
    return lines


def changed_places(left: Maps, right: Maps) -> str:
    """Return a sentence about labels that join different words, or ""."""
    same = (left.queries, left.keys) == (right.queries, right.keys)
    return "" if same else f"A’s word{BOTH}B’s word: different words at the same position."


def difference_map(
    left: Maps, right: Maps, choices: tuple[AttentionChoice, AttentionChoice]
) -> Map:
    """Return A - B for the maps on screen, which have equal shapes."""
    here, there = shown_map(left, choices[0]), shown_map(right, choices[1])
    name = here.name if here.name == there.name else f"{here.name} − {there.name}"
    return replace(
        here, weights=here.weights - there.weights, query_tokens=_both(left.queries, right.queries),
        key_tokens=_both(left.keys, right.keys), name=f"A − B: {name}",
        dimmed_keys=dimmed_columns(left, choices[0]), signed=("B looks more", "A looks more"),
    )  # fmt: skip


def joined_choices(
    maps: tuple[Maps, Maps], choices: tuple[AttentionChoice, AttentionChoice]
) -> tuple[AttentionChoice, AttentionChoice]:
    """Return A's cell for both sides, combining layers or heads if B lacks it."""
    counts = [min(pair) for pair in zip(*(side.weights.shape[:2] for side in maps), strict=True)]
    layer, head = (
        at if at is not None and at < count else None
        for at, count in zip(choices[0].cell, counts, strict=True)
    )
    return replace(choices[0], cell=(layer, head)), replace(choices[1], cell=(layer, head))


def without_partner(left: Maps, right: Maps) -> str:
    """Return a sentence about heads without a partner, or "" if counts are equal."""
    shapes = [maps.weights.shape[:2] for maps in (left, right)]
    if shapes[0] == shapes[1]:
        return ""
    sizes = " and ".join(
        f"{letter} {count(layers, 'layer')} of {heads}"
        for letter, (layers, heads) in zip(LETTERS, shapes, strict=True)
    )
    return f"{sizes} heads: unpaired heads have no cell, but count in the combined row and column."


def signed_sheet(maps: tuple[Maps, Maps], choice: AttentionChoice) -> Sheet:
    """Return the grid of A - B."""
    mean = difference_map(*maps, (choice, choice))
    assert mean.signed is not None
    return difference_sheet(
        maps[0].weights, maps[1].weights, mean.query_tokens, mean.key_tokens,
        label=f"A − B: {maps[0].kind_text.name}, all layers and heads", ends=mean.signed,
        how=choice.how, dimmed_keys=dimmed_columns(maps[0], choice),
    )  # fmt: skip


def _both(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Join paired labels; decoder rows join their input and predicted tokens separately."""
    return tuple(
        ARROW.join(
            mine if mine == theirs else f"{show_token(mine)}{BOTH}{show_token(theirs)}"
            for mine, theirs in zip(here.split(ARROW), there.split(ARROW), strict=False)
        )
        for here, there in zip(one, other, strict=True)
    )
