"""The two translations of the Compare page: their numbers, and where they first differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from transformer.measures.compare import not_shared, parting
from transformer.measures.words import Groups, group_labels, word_groups
from transformer.records import Trace
from ui.bound import bound
from ui.compare_choice import FOLLOW, Setup, can_follow
from ui.components.strip import strip, strip_message
from ui.controls import View
from ui.text import code, plain, shorten


@dataclass(frozen=True)
class Text:
    """What one side writes, by words; by tokens where the texts are single words, as of letters.

    Attributes:
        words: without `</s>`, pieces joined.
        log_probs: of each word, the sum over its pieces, in nats; NaN where the trace has none.
        groups: positions of each word's pieces among the predicted tokens.
        total: log P of all predicted tokens, `</s>` included; NaN where the trace has none.
        tokens: how many they are.
        unit: what `words` holds, "word" or "token".
    """

    words: tuple[str, ...]
    log_probs: tuple[float, ...]
    groups: Groups
    total: float
    tokens: int
    unit: str = "word"


def text_of(trace: Trace, unit: str = "word") -> Text:
    """What a trace's model wrote, or followed."""
    predicted = trace.predicted_tokens
    ended = len(predicted) - 1 if trace.complete and predicted else len(predicted)
    written = predicted[:ended]
    groups = word_groups(written) if unit == "word" else tuple((at,) for at in range(ended))
    scores = trace.log_probs.astype("f8")
    if len(scores) != len(predicted):  # a file of arrays need not bring them
        scores = np.full(len(predicted), np.nan)
    each = tuple(float(scores[list(group)].sum()) for group in groups)
    return Text(
        group_labels(written, groups), each, groups, float(scores.sum()), len(predicted),
        unit,
    )  # fmt: skip


def source_words(trace: Trace, unit: str = "word") -> tuple[str, ...]:
    """The words of the source, without `</s>`, or its tokens."""
    special = set(trace.src_special)
    kept = [token for at, token in enumerate(trace.src_tokens) if at not in special]
    return tuple(kept) if unit == "token" else group_labels(kept, word_groups(kept))


def where_they_differ(one: Text, other: Text, *, followed: bool = False) -> str:
    """One sentence, Markdown. `followed`: B did not choose its words, it read A's."""
    if not one.words and not other.words:
        return "Neither side writes anything."
    at = parting(one.words, other.words)
    if at is None:
        gap = one.total - other.total
        same = "B reads A’s words" if followed else "Both write the same words"
        if math.isnan(gap):
            return f"{same}."
        if abs(gap) < 5e-4:
            return f"{same}, with the same probability."
        return f"{same}; {'A' if gap > 0 else 'B'} finds them likelier, by {abs(gap):.2f} nats."
    said = [
        f"{letter} writes {_word(text, at)}"
        for letter, text in zip("AB", (one, other), strict=True)
    ]
    start = f"They differ from the first {one.unit} on"
    if at:
        shared = f"{at} {one.unit}{'' if at == 1 else 's'}"
        start = f"They share {shared} and part at {one.unit} {at + 1}"
    return f"{start}: {said[0]}, {said[1]}."


def _word(text: Text, at: int) -> str:
    if at >= len(text.words):
        return "nothing more"
    word, score = code(text.words[at], 30), text.log_probs[at]
    return word if math.isnan(score) else f"{word} (log p {signed(score)})"


def signed(value: float, digits: int = 2) -> str:
    """A number with a true minus sign; no minus before zero."""
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def draw_texts(setup: Setup, left: Trace, right: Trace) -> None:
    """Both sides next to each other, and the sentence about them."""
    unit = "word"
    texts = text_of(left), text_of(right)
    if max(len(text.words) for text in texts) <= 1:
        unit = "token"  # letters make one word
        texts = text_of(left, unit), text_of(right, unit)
    differing = not_shared(texts[0].words, texts[1].words)
    part = parting(texts[0].words, texts[1].words)
    read = source_words(left, unit), source_words(right, unit)
    changed = not_shared(*read)
    columns = st.columns(2, gap="large")
    for side, column in enumerate(columns):
        trace, text = (left, right)[side], texts[side]
        with column.container():
            _draw_side(
                setup, side, trace, text, _pieces(text.groups, differing[side]),
                None if part is None or part >= len(text.groups) else text.groups[part][0],
                (read[side], changed[side]),
            )  # fmt: skip
    said, follow = st.columns([3, 1], vertical_alignment="center")
    said.markdown(where_they_differ(*texts, followed=setup.follow))
    if setup.follow or (part is not None and left.text.strip() and can_follow(setup.right)):
        with follow.container(horizontal=True, horizontal_alignment="right"):
            st.toggle(
                "B follows A’s translation", **bound(FOLLOW),
                help="Teacher forcing: the right side reads the left side's translation in place "
                "of making its own, so that rows of their maps mean the same.",
            )  # fmt: skip


def _draw_side(
    setup: Setup,
    side: int,
    trace: Trace,
    text: Text,
    differing: Sequence[int],
    part: int | None,
    source: tuple[Sequence[str], Sequence[int]],
) -> None:
    letter, view = "AB"[side], (setup.left, setup.right)[side]
    st.markdown(f"**{letter}** · {_what(setup, view, side)}")
    if setup.pairing == "sentences":
        message = strip_message(source[0], (), source[1], label=f"Sentence {letter} in words")
        strip(message, key=f"compare_source_{letter}")
    with st.container(key=f"headline_compare_{letter}"):
        st.text(trace.text or "(empty)")
    if not trace.predicted_tokens:
        st.caption("This model writes nothing; it only reads.")
        return
    message = strip_message(
        trace.predicted_tokens, () if math.isnan(text.total) else trace.log_probs.tolist(),
        differing, parts_at=part,
        label=f"What {letter} writes, token by token, with log-probabilities",
    )  # fmt: skip
    strip(message, key=f"compare_strip_{letter}")
    if math.isnan(text.total):
        return
    st.caption(
        f"score {signed(trace.score, 3)} · log P {signed(text.total)} nats over {text.tokens} "
        f"tokens · {signed(text.total / max(1, len(text.words)))} a {text.unit}"
    )


def _what(setup: Setup, view: View, side: int) -> str:
    """What this side is, in a few words."""
    named = plain(view.checkpoint) if setup.pairing == "models" else ("first", "second")[side]
    if setup.pairing == "sentences":
        named += f" sentence, {plain(view.checkpoint)}"
    if side == 1 and setup.follow:
        return f"{named}, following A's translation"
    if view.target is not None:
        return f"{named}, following {code(shorten(view.target, 40))}"
    return named


def _pieces(groups: Groups, words: Sequence[int]) -> tuple[int, ...]:
    return tuple(at for word in words for at in groups[word])
