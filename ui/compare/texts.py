"""Both translations on Compare, their scores, and their first difference."""

import math
from dataclasses import dataclass

import numpy as np
import streamlit as st

from figures.labels import code, plain, shorten, signed
from transformer.measures.compare import not_shared, parting, total_log_prob
from transformer.measures.words import Groups, group_labels, word_groups
from transformer.text.marks import unmarked
from transformer.trace.records import Trace
from ui.compare.choice import CompareChoice, can_follow
from ui.components.mount import show
from ui.components.strip import strip_component
from ui.core import url_state
from ui.core.doubts import cut_in_short, first_words, headline
from ui.core.glossary import linked
from ui.core.view import Side
from ui.core.widgets import bound, draw_text
from ui.frame.beside import Setup
from ui.frame.changes import draw_changes, said_of_changes
from ui.frame.steering import draw_why_link


@dataclass(frozen=True)
class Text:
    """A side's translation in words, or in tokens if both texts are single words."""

    words: tuple[str, ...]  # joined pieces, without `</s>`
    log_probs: tuple[float, ...]  # per word, summed over pieces, in nats; NaN if unknown
    groups: Groups  # piece positions of each word among the predicted tokens
    total: float  # log p of all predicted tokens, including `</s>`; NaN if unknown
    tokens: int  # number of predicted tokens
    unit: str = "word"  # unit of `words` and `source`, "word" or "token"
    source: tuple[str, ...] = ()  # source words, without `</s>`


def text_of(trace: Trace, unit: str = "word") -> Text:
    """Return the translation in a trace, generated or followed."""
    predicted = trace.predicted_tokens
    written = predicted[: trace.n_words]
    groups = word_groups(written) if unit == "word" else tuple((at,) for at in range(len(written)))
    total, scores = total_log_prob(trace), trace.log_probs.astype("f8")
    if math.isnan(total):
        scores = np.full(len(predicted), np.nan)
    log_probs = tuple(float(scores[list(group)].sum()) for group in groups)
    source = tuple(
        token for at, token in enumerate(trace.src_tokens) if at not in trace.src_special
    )
    if unit == "word":
        source = group_labels(unmarked(source), word_groups(source))
    words = group_labels(unmarked(written), groups)
    return Text(words, log_probs, groups, total, len(predicted), unit, source)


def where_they_differ(one: Text, other: Text, *, followed: bool = False) -> str:
    """Return a Markdown sentence about the first difference; `followed` if B follows A."""
    if not one.words and not other.words:
        return "Neither side writes anything."
    if not one.words or not other.words:
        return f"Only {'A' if one.words else 'B'} writes anything."
    at = parting(one.words, other.words)
    if at is None:
        gap = one.total - other.total
        same = "B follows A’s words" if followed else "Both write the same words"
        if math.isnan(gap):
            return f"{same}."
        if abs(gap) < 5e-4:
            return f"{same}, with the same probability."
        likelier = "A" if gap > 0 else "B"
        return f"{same}; they are more probable under {likelier}, by {abs(gap):.2f} nats."
    start = f"They diverge at {one.unit} {at + 1}" if at else f"Even the first {one.unit} differs"
    return f"{start}: A writes {_word(one, at)}, B {_word(other, at, '')}."


def _word(text: Text, at: int, prefix: str = "log p ") -> str:
    if at >= len(text.words):
        return "nothing more"
    word, score = code(text.words[at], 16), text.log_probs[at]
    return word if math.isnan(score) else f"{word} ({prefix}{signed(score)})"


def draw_texts(setup: Setup, sides: tuple[Side, Side]) -> None:
    """Draw both texts side by side."""
    left, right = sides
    scored = url_state.get(CompareChoice.scored)
    if _of_edits(setup) and not scored:
        draw_changes(right.view, right.trace, left.trace)
        _draw_cut(right.trace)
    else:
        for side, text, other, column in zip(
            sides, texts := _texts(sides), texts[::-1], st.columns(2, gap="large"), strict=True
        ):
            with column.container(key=f"headline_compare_{side.letter}"):
                (_draw_whole if scored else _draw_line)(setup, side, text, other)


def _of_edits(setup: Setup) -> bool:
    return setup.pairing == "edits" and not setup.follow


def _texts(sides: tuple[Side, Side]) -> tuple[Text, Text]:
    one, two = (text_of(side.trace) for side in sides)
    if max(len(one.words), len(two.words)) <= 1:  # a string of letters is one word
        one, two = (text_of(side.trace, "token") for side in sides)
    return one, two


def draw_difference(setup: Setup, sides: tuple[Side, Side]) -> None:
    """Draw a sentence about the first difference, and the switches of both texts."""
    left, right = sides
    one, two = _texts(sides)
    place = st.container(key="compare_where")
    summary, switches = place.columns([4, 3], vertical_alignment="center")
    summary.markdown(
        said_of_changes(right.view, right.trace, left.trace)
        if _of_edits(setup)
        else linked(where_they_differ(one, two, followed=setup.follow), "log p", "nats")
    )
    if (
        left.view.kind == "checkpoint" and left.view.entry.ref == right.view.entry.ref
        and (at := parting(*(side.trace.predicted_ids for side in sides))) is not None
        and at < min(len(side.trace.predicted_ids) for side in sides)
    ):  # fmt: skip
        pair = [(side.trace.predicted_ids[at], side.trace.predicted_tokens[at]) for side in sides]
        with summary:
            draw_why_link(left.trace, left.trace.predicted_ids[:at], *pair)
    with switches.container(horizontal=True, horizontal_alignment="right"):
        st.toggle(
            "Token by token", **bound(CompareChoice.scored),
            help=linked(
                "Both full texts, each token with its log-probability (log p) in nats: 0 is "
                "certain, −0.69 is a probability of 50%.", "log p", "nats",
            ),
        )  # fmt: skip
        differ = parting(one.words, two.words) is not None
        if setup.follow or (differ and left.trace.text.strip() and can_follow(right.view)):
            st.toggle(
                "B follows A’s translation", **bound(CompareChoice.follow),
                help=linked(
                    "Teacher forcing: B reads A’s translation instead of its own, so that both "
                    "have the same rows.",
                    "teacher forcing",
                ),
            )  # fmt: skip


def _draw_line(setup: Setup, side: Side, text: Text, other: Text) -> None:
    if setup.by_place:
        _draw_source(side, text, other)
    if not side.trace.predicted_tokens:
        st.caption(f"**{side.letter}** writes nothing: it is an encoder.")
        return
    part, n_words = parting(text.words, other.words), first_words(side.trace, text.words)
    words = (*text.words[:n_words], "…") if n_words < len(text.words) else text.words
    last = max(len(words) - 1, 0)  # if this text ends before the other
    differing = not_shared(text.words, other.words)[0]
    line = strip_component(
        words or ("(empty)",), (), [at for at in differing if at < n_words],
        parts_at=None if part is None else min(part, last),
        label=f"What {side.letter} writes", lead="→" if setup.by_place else side.letter,
    )  # fmt: skip
    show(line, key=f"compare_line_{side.letter}")
    _draw_cut(side.trace)


def _draw_source(side: Side, text: Text, other: Text, *, lead: bool = True) -> None:
    changed = not_shared(text.source, other.source)[0]
    line = strip_component(
        text.source, (), changed, label=f"Sentence {side.letter} in words",
        parts_at=min(changed, default=None), lead=side.letter if lead else "",
    )  # fmt: skip
    show(line, key=f"compare_source_{side.letter}")


def _draw_whole(setup: Setup, side: Side, text: Text, other: Text) -> None:
    trace, part = side.trace, parting(text.words, other.words)
    st.markdown(f"{side.lead}{_name(setup, side)}")
    if setup.by_place:
        _draw_source(side, text, other, lead=False)
    draw_text(headline(trace) or "(empty)", side.view.spoken[1])
    _draw_cut(trace)
    if not trace.predicted_tokens:
        st.caption("This model is an encoder and writes nothing.")
        return
    differing = [at for word in not_shared(text.words, other.words)[0] for at in text.groups[word]]
    line = strip_component(
        trace.predicted_tokens, () if math.isnan(text.total) else trace.log_probs.tolist(),
        differing,
        parts_at=None if part is None or part >= len(text.groups) else text.groups[part][0],
        label=f"What {side.letter} writes, token by token, with log-probabilities",
    )  # fmt: skip
    show(line, key=f"compare_strip_{side.letter}")
    if math.isnan(text.total):
        return
    numbers = (
        f"score {signed(trace.score, 3)} · log p {signed(text.total)} nats over {text.tokens} "
        f"tokens · {signed(text.total / max(1, len(text.words)))} per {text.unit}"
    )
    st.caption(linked(numbers, "score", "log p", "nats"))


def _draw_cut(trace: Trace) -> None:
    if cut := cut_in_short(trace):
        st.caption(f":material/content_cut: {cut}")


def _name(setup: Setup, side: Side) -> str:
    named = plain(side.view.title)
    if setup.by_place:
        named = f"{'first' if side.letter == 'A' else 'second'} sentence, {named}"
    if side.follows:
        return f"{named}, following A's translation"
    if side.view.target is not None:
        return f"{named}, following {code(shorten(side.view.target, 40))}"
    return named
