"""Both translations at the head of Compare: their numbers, and where they first differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from figures.compare import LETTERS
from figures.markdown import code, plain, shorten
from figures.numbers import signed
from transformer.measures.agreement import total_log_prob
from transformer.measures.compare import not_shared, parting
from transformer.measures.words import Groups, group_labels, word_groups
from transformer.trace.records import Trace
from ui.compare.choice import FOLLOW, SCORED, can_follow
from ui.components.strip import strip_message
from ui.components.strip.mount import strip
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.loops import cut_in_short, first_words, headline
from ui.core.view import View
from ui.core.widgets import bound
from ui.frame.twice import Setup


@dataclass(frozen=True)
class Text:
    """A side's translation in words; in tokens if both texts are single words, such as letters.

    Attributes:
        words: without `</s>`, pieces joined.
        log_probs: of each word, the sum over its pieces, in nats; NaN if the trace has none.
        groups: positions of each word's pieces among the predicted tokens.
        total: log P of all predicted tokens, `</s>` included; NaN if the trace has none.
        tokens: their number.
        unit: what `words` holds, "word" or "token".
    """

    words: tuple[str, ...]
    log_probs: tuple[float, ...]
    groups: Groups
    total: float
    tokens: int
    unit: str = "word"


def text_of(trace: Trace, unit: str = "word") -> Text:
    """Return what the model of a trace wrote, or followed."""
    predicted = trace.predicted_tokens
    ended = len(predicted) - 1 if trace.complete and predicted else len(predicted)
    written = predicted[:ended]
    groups = word_groups(written) if unit == "word" else tuple((at,) for at in range(ended))
    total, scores = total_log_prob(trace), trace.log_probs.astype("f8")
    if math.isnan(total):
        scores = np.full(len(predicted), np.nan)
    each = tuple(float(scores[list(group)].sum()) for group in groups)
    return Text(
        group_labels(written, groups), each, groups, total, len(predicted), unit
    )  # fmt: skip


def source_words(trace: Trace, unit: str = "word") -> tuple[str, ...]:
    """Return the words or tokens of the source, without `</s>`."""
    special = set(trace.src_special)
    kept = [token for at, token in enumerate(trace.src_tokens) if at not in special]
    return tuple(kept) if unit == "token" else group_labels(kept, word_groups(kept))


def where_they_differ(one: Text, other: Text, *, followed: bool = False) -> str:
    """Say where two texts differ, in one sentence of Markdown.

    Args:
        followed: whether B read A's words instead of choosing its own.
    """
    if not one.words and not other.words:
        return "Neither side writes anything."
    if not one.words or not other.words:
        return f"Only {'A' if one.words else 'B'} writes anything."
    at = parting(one.words, other.words)
    if at is None:
        gap = one.total - other.total
        same = "B reads A’s words" if followed else "Both write the same words"
        if math.isnan(gap):
            return f"{same}."
        if abs(gap) < 5e-4:
            return f"{same}, with the same probability."
        return f"{same}; {'A' if gap > 0 else 'B'} finds them likelier, by {abs(gap):.2f} nats."
    start = f"They diverge at {one.unit} {at + 1}" if at else f"Even the first {one.unit} differs"
    return f"{start}: A writes {_word(one, at)}, B {_word(other, at, '')}."


def _word(text: Text, at: int, what: str = "log p ") -> str:
    if at >= len(text.words):
        return "nothing more"
    word, score = code(text.words[at], 16), text.log_probs[at]
    return word if math.isnan(score) else f"{word} ({what}{signed(score)})"


def draw_texts(setup: Setup, left: Trace, right: Trace) -> None:
    """Draw both texts side by side, and the sentence about them."""
    unit = "word"
    texts = text_of(left), text_of(right)
    if max(len(text.words) for text in texts) <= 1:
        unit = "token"  # a string of letters is one word
        texts = text_of(left, unit), text_of(right, unit)
    differing = not_shared(texts[0].words, texts[1].words)
    part = parting(texts[0].words, texts[1].words)
    read = source_words(left, unit), source_words(right, unit)
    changed = not_shared(*read)
    draw = _draw_whole if url_state.get(SCORED) else _draw_line
    for side, column in enumerate(st.columns(2, gap="large")):
        with column.container(key=f"headline_compare_{LETTERS[side]}"):
            written = Written(
                (left, right)[side], texts[side], differing[side], part, read[side], changed[side]
            )
            draw(setup, side, written)
    place = st.container(key="compare_where")
    said, ways = place.columns([4, 3], vertical_alignment="center")
    where = where_they_differ(*texts, followed=setup.follow)
    said.markdown(linked(where, "log p", "nats"))
    with ways.container(horizontal=True, horizontal_alignment="right"):
        st.toggle(
            "Token by token", **bound(SCORED),
            help=linked(
                "Both texts whole, each token with its log-probability (log p) in nats: 0 is "
                "certain, −0.69 as likely as not.", "log p", "nats",
            ),
        )  # fmt: skip
        if setup.follow or (part is not None and left.text.strip() and can_follow(setup.right)):
            st.toggle(
                "B follows A’s translation", **bound(FOLLOW),
                help=linked(
                    "Teacher forcing: the right side reads the left side's translation in place "
                    "of making its own, so that rows of their maps mean the same.",
                    "teacher forcing",
                ),
            )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Written:
    """A side's source and translation, and what of them the other side lacks.

    Attributes:
        trace: of this side.  text: what it wrote.
        differing: words of the text that the other side lacks.
        part: the first word that differs, None if none does.
        source: words or tokens of the source.  changed: those that the other side lacks.
    """

    trace: Trace
    text: Text
    differing: Sequence[int]
    part: int | None
    source: Sequence[str]
    changed: Sequence[int]


def _draw_line(setup: Setup, side: int, written: Written) -> None:
    """Draw the translation in one line, below the source if the sources differ."""
    letter, text = LETTERS[side], written.text
    if setup.pairing == "sentences":
        _draw_source(side, written)
    if not written.trace.predicted_tokens:
        st.caption(f"**{letter}** writes nothing; this model only reads.")
        return
    shown = first_words(written.trace, text.words)
    words = (*text.words[:shown], "…") if shown < len(text.words) else text.words
    last = max(len(words) - 1, 0)  # if one text ends where the other goes on
    message = strip_message(
        words or ("(empty)",), (), [at for at in written.differing if at < shown],
        parts_at=None if written.part is None else min(written.part, last),
        label=f"What {letter} writes", one_line=True,
        lead="→" if setup.pairing == "sentences" else letter,
    )  # fmt: skip
    strip(message, key=f"compare_line_{letter}")
    _draw_cut(written.trace)


def _draw_source(side: int, written: Written, *, one_line: bool = True) -> None:
    letter = LETTERS[side]
    message = strip_message(
        written.source, (), written.changed, label=f"Sentence {letter} in words",
        parts_at=min(written.changed, default=None), one_line=one_line,
        lead=letter if one_line else "",
    )  # fmt: skip
    strip(message, key=f"compare_source_{letter}")


def _draw_whole(setup: Setup, side: int, written: Written) -> None:
    """Draw the whole translation, token by token, with its numbers."""
    letter, view = LETTERS[side], (setup.left, setup.right)[side]
    trace, text, part = written.trace, written.text, written.part
    st.markdown(f"**{letter}** · {_what(setup, view, side)}")
    if setup.pairing == "sentences":
        _draw_source(side, written, one_line=False)
    st.text(headline(trace) or "(empty)")
    _draw_cut(trace)
    if not trace.predicted_tokens:
        st.caption("This model writes nothing; it only reads.")
        return
    message = strip_message(
        trace.predicted_tokens, () if math.isnan(text.total) else trace.log_probs.tolist(),
        _pieces(text.groups, written.differing),
        parts_at=None if part is None or part >= len(text.groups) else text.groups[part][0],
        label=f"What {letter} writes, token by token, with log-probabilities",
    )  # fmt: skip
    strip(message, key=f"compare_strip_{letter}")
    if math.isnan(text.total):
        return
    numbers = (
        f"score {signed(trace.score, 3)} · log P {signed(text.total)} nats over {text.tokens} "
        f"tokens · {signed(text.total / max(1, len(text.words)))} a {text.unit}"
    )
    st.caption(linked(numbers, "score", "log p", "nats"))


def _draw_cut(trace: Trace) -> None:
    """Say it in one line: the maps begin on the first screen."""
    if cut := cut_in_short(trace):
        st.caption(f":material/content_cut: {cut}")


def _what(setup: Setup, view: View, side: int) -> str:
    """Name this side in a few words."""
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
