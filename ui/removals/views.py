"""Heads off: the change of a translation's log-probability without each part of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import streamlit as st

from figures.labels import plain_token, signed
from figures.removals import head_needs, part_needs, selection_of
from transformer.edits.language import heads_off, parse_edits
from transformer.measures.heads import largest_weights, rank_correlation
from transformer.search.request import excluded
from transformer.trace.records import Needs, Trace
from transformer.trace.removals import Head, needs
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.layout import current_theme, draw_chart, sized
from ui.core.url_state import STEP
from ui.core.view import View
from ui.core.widgets import fill
from ui.frame.editing import head_of, switch
from ui.work.cache import computed
from ui.work.results import Computation

#: A head whose removal changes less is said to change nothing, in nats.
SMALL = 0.05

#: Stands for the whole translation among its steps.
WHOLE = -1

#: Heads offered as buttons.
MOST = 5

NEEDS: Computation[Needs] = Computation(
    "needs", (),
    lambda translator, trace: needs(
        translator.model, trace, excluded=excluded(translator.config)
    ),
)  # fmt: skip


def draw_choice(trace: Trace) -> int | None:
    """Draw the choice of a token, and return its step; None for the whole translation."""
    step = url_state.index(STEP, len(trace.predicted_tokens))
    fill("needs_of", WHOLE if step is None else step)

    def name(each: int) -> str:
        if each == WHOLE:
            return "the whole translation"
        return f"{each + 1}  {plain_token(trace.predicted_tokens[each])}"

    def take() -> None:
        chosen = st.session_state["needs_of"]
        url_state.put_index(STEP, None if chosen == WHOLE else chosen)

    st.selectbox(
        "Needed for", [WHOLE, *range(len(trace.predicted_tokens))], format_func=name,
        key="needs_of", width=320, on_change=take,
    )  # fmt: skip
    return step


def draw_heads(view: View, trace: Trace, step: int | None) -> None:
    """Draw the tables of heads, what stands out, and buttons for the most needed ones."""
    found = computed(view, NEEDS)
    heads = {kind: found.of(each, step) for kind, each in found.heads.items()}
    out = _out(view, trace)
    event = st.altair_chart(
        sized(head_needs(heads, out, current_theme())), theme=None, width="content",
        key=f"needs_{view.request.name}_{step}", on_select="rerun",
        selection_mode=[*map(selection_of, heads)], alt=in_words(heads),
    )  # fmt: skip
    for kind in heads:
        if picked := event["selection"].get(selection_of(kind)):
            switch(kind, head_of(trace, kind, picked[0]["layer"] - 1, picked[0]["number"] - 1))
            st.rerun()
    st.markdown(linked(in_words(heads), "nats"))
    st.markdown(_agreement(trace, heads, step))
    with st.container(horizontal=True, gap="small"):
        for head in ranked(heads)[:MOST]:
            edit = head.off
            value = heads[head.kind][head.layer, head.head]
            st.button(
                f"{edit.place[:1].upper()}{edit.place[1:]}: {signed(value)}", key=f"needs {edit}",
                icon=":material/content_cut:", on_click=switch,
                args=(head.kind, head_of(trace, *head)),
                help="Take it out on every page, or bring it back.",
            )  # fmt: skip


def draw_parts(view: View, trace: Trace, step: int | None) -> None:
    """Draw source words, feed-forward networks and layers as bars."""
    found, theme = computed(view, NEEDS), current_theme()
    tokens = [f"{n} {plain_token(token)}" for n, token in enumerate(trace.src_tokens, 1)]
    columns = [("Source token hidden from the decoder", tokens, found.of(found.words, step))]
    for title, parts in (("Feed-forward out", found.networks), ("Layer skipped", found.layers)):
        changes = {stack: found.of(each, step) for stack, each in parts.items()}
        names = [
            f"{stack} layer {n + 1}" for stack, each in changes.items() for n in range(len(each))
        ]
        columns.append((title, names, np.concatenate([*changes.values()])))
    for place, (title, names, values) in zip(st.columns([2, 1.3, 1.3]), columns, strict=True):
        place.markdown(f"**{title}**")
        alt = f"{title}: {names[values.argmin()]} is needed most, {signed(values.min())} nats"
        draw_chart(part_needs(names, values, theme), alt, place, key=f"needs_{title}")


def ranked(heads: Mapping[AttentionKind, Floats]) -> list[Head]:
    """Return all heads, the most needed first."""
    every = [
        (float(value), Head(kind, layer, head))
        for kind, changes in heads.items()
        for (layer, head), value in np.ndenumerate(changes)
    ]
    return [head for _, head in sorted(every, key=lambda each: each[0])]


def in_words(heads: Mapping[AttentionKind, Floats]) -> str:
    """Return the most needed head and the share of heads that change little, in words."""
    changes = np.concatenate([each.ravel() for each in heads.values()])
    first = ranked(heads)[0]
    value = float(heads[first.kind][first.layer, first.head])
    little = int((np.abs(changes) < SMALL).sum())
    place = first.off.place
    return (
        f"Most needed: **{place}** (log-probability {signed(value)} nats). {little} of "
        f"{len(changes)} heads, each out alone, change it by less than {SMALL} nats."
    )


def _agreement(trace: Trace, heads: Mapping[AttentionKind, Floats], step: int | None) -> str:
    looks = [
        largest_weights(trace.attention(kind), None if kind == "encoder_self" else step)
        for kind in heads
    ]
    found = rank_correlation(
        np.concatenate([each.ravel() for each in looks]),
        -np.concatenate([each.ravel() for each in heads.values()]),
    )
    if math.isnan(found):
        return ""
    verdict = "are not the most needed ones" if found < 0.5 else "tend to be the most needed ones"
    return f"The heads that look most sharply {verdict} (rank correlation {signed(found)})."


def _out(view: View, trace: Trace) -> list[tuple[AttentionKind, int, int]]:
    edits = parse_edits(view.entry.ref.edits)
    return [
        (kind, int(layer), int(head))
        for kind in ATTENTION_KINDS
        for layer, head in np.argwhere(heads_off(edits, kind, trace.attention(kind).shape[:2]))
    ]
