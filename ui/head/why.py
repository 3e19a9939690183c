"""The section "Why this head looks here" of Inside a head."""

from functools import partial

import numpy as np
import streamlit as st

from figures.labels import code, plain_token, signed
from transformer.trace.parts import Part
from ui.core.glossary import linked
from ui.core.layout import draw_map
from ui.core.side import Side
from ui.core.view import View
from ui.export.download import download_button, figure_for
from ui.head.exhibits import HeadChoice, names_of
from ui.head.why_exhibits import (
    LISTED,
    Names,
    Why,
    matrix_of,
    why_name,
    why_of,
    why_this_head_looks,
)
from ui.work.desk import computed, get_tracer
from ui.work.results import Computation

_ONE_STACK = (
    "**Why this head looks here** is made for an encoder and a decoder; this model has one stack."
)


def why_at(place: HeadChoice, key: int) -> Computation[Why]:
    """Return the computation of a score's parts."""
    return Computation(
        "why here", (place, key), lambda model, trace: why_of(model, trace, place, key)
    )


def why_link(view: View) -> str:
    """Return a link to the section, to continue a sentence, or "" without one."""
    lacks = get_tracer(view).lacks("internals")
    return "" if lacks else ", or read [why it looks there](#why-this-head-looks-here)"


def draw_why(side: Side, place: HeadChoice, key: int) -> None:
    """Draw the parts of the score of the query and the key, or the reason why there are none."""
    if get_tracer(side.view).lacks("internals"):
        st.caption(_ONE_STACK)
        return
    why, names = computed(side.view, why_at(place, key)), Names(side.trace, place, key)
    st.markdown("#### Why this head looks here")
    words, picture = st.columns([6, 5], gap="large")
    query = code(plain_token(names_of(place, side.trace)[0]))
    with words:
        st.markdown(_in_words(why, names, query, code(plain_token(names.token("key")))))
    with picture:
        draw_map(matrix_of(why.split, names), key="why_here", max_height=380)
        st.markdown(_tests_in_words(why, names))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(linked(
            "The score in parts: query and key are sums of what each layer added to their token, "
            "so the score is a sum over pairs, a part of the query times a part of the key. Each "
            "LayerNorm keeps its scale in this sentence. So the sum is exact, but a part's effect "
            "is not: everything after it changes too.",
            "score in parts", "score", "LayerNorm",
        ), width="stretch")  # fmt: skip
        download_button(
            partial(figure_for, side.view, why_this_head_looks, **vars(place), key=key),
            key="why_here_figure", name=why_name(place, key), n_numbers=why.split.shares.size,
        )  # fmt: skip


def _in_words(why: Why, names: Names, query: str, key: str) -> str:
    split, score = why.split, why.split.score
    of_key, of_query = (split.shares.sum(axis, dtype=np.float64) for axis in (0, 1))
    at, other = (int((sums * (score or 1)).argmax()) for sums in (of_key, of_query))
    masked = " (masked, so it gets no weight)" if names.masked else ""
    lines = [
        f"Before the softmax, {query} scores {key}{masked} **{signed(score)}**"
        f"{_reason(why, split.key_parts[at], of_key[at], names)} On the query's side, above all "
        f"{names.clause(split.query_parts[other], 'query')} ({signed(of_query[other])}).",
        "", f"The largest of {len(of_key)} parts of the key:", "",
    ]  # fmt: skip
    order = np.argsort(-np.abs(of_key), kind="stable")
    for part in order[:LISTED].tolist():
        column = split.shares[:, part] * (of_key[part] or 1)
        answers = split.query_parts[int(column.argmax())]
        lines.append(
            f"- **{signed(of_key[part])}**: {names.clause(split.key_parts[part], 'key')}; the "
            f"query answers with {names.own(answers)}."
        )
    if (rest := order[LISTED:]).size:
        lines.append(f"- {signed(of_key[rest].sum())}: all others together.")
    if split.relative:
        lines.append(f"- {signed(split.relative)}: the distance from query to key.")
    return "\n".join(lines)


def _reason(why: Why, part: Part, share: float, names: Names) -> str:
    """Return the largest part as the reason of the score, or the test that speaks against it."""
    for trial in why.trials:
        if trial.part == part and 2 * trial.measured / trial.predicted < 1:
            return (
                f". **Without {names.place(part)}, the score changes by {signed(trial.measured)}, "
                f"not by {signed(trial.predicted)}** as the sum below says: later parts change too "
                "and make up for it."
            )
    most = "mostly" if 2 * abs(share) >= abs(why.split.score) else "above all"
    return f", {most} because **{names.clause(part, 'key')}** ({signed(share)})."


def _tests_in_words(why: Why, names: Names) -> str:
    lines = ["Taken out at all positions, everything after it computed again:", ""]
    for trial in why.trials:
        lines.append(
            f"- without {names.place(trial.part)}: the score changes by {signed(trial.measured)}; "
            f"the sum says {signed(trial.predicted)}."
        )
    return "\n".join(lines)
