"""Removals: each part's effect on a translation's log-probability."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import streamlit as st

from figures.labels import plain, plain_token, signed
from figures.removals import PART, head_needs, part_needs, selection_of
from transformer.config import ModelConfig
from transformer.edits.language import Edit, parse_edits, text_of
from transformer.measures.heads import rank_correlation
from transformer.measures.significance import rank_interval
from transformer.search.request import excluded
from transformer.trace.records import Needs, Trace
from transformer.trace.removals import Head, heads_of, needs, with_edits
from transformer.translator import Translator
from transformer.types import AttentionKind, Floats
from transformer.worker.job import report
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.layout import clicked, current_theme, draw_chart
from ui.core.presenter import presenting
from ui.core.url_state import HEAD, KIND, LAYER, STEP
from ui.core.view import View, said_next
from ui.core.widgets import filled
from ui.export.download import download_below
from ui.frame.editing import head_of, heads_taken, switch, toggle
from ui.removals.exhibits import bars, looks, needed_parts
from ui.work.desk import computed
from ui.work.results import Computation

#: Changes below this count as small, in nats.
SMALL = 0.05

#: The whole translation, among its steps.
WHOLE = -1

#: Number of heads with a button.
MOST = 5

NEEDS: Computation[Needs] = Computation(
    "needs", (),
    lambda translator, trace: needs(
        translator.model, trace, excluded=excluded(translator.config), progress=report
    ),
)  # fmt: skip


def draw_choice(view: View, trace: Trace) -> int | None:
    """Draw the choice of a token; return its step, or None if the whole translation is chosen."""
    step = view.step(len(trace.predicted_tokens))

    def name(at: int) -> str:
        token = f"{at + 1}  {plain_token(trace.predicted_tokens[at])}"
        return f"Needed for {'the translation' if at == WHOLE else token}"

    st.selectbox(
        "Needed for", [WHOLE, *range(len(trace.predicted_tokens))], format_func=name,
        width=320, label_visibility="collapsed", **filled(
            "needs_of", WHOLE if step is None else step,
            lambda chosen: url_state.put_index(STEP, None if chosen == WHOLE else chosen),
        ),
    )  # fmt: skip
    return step


def draw_heads(view: View, trace: Trace) -> int | None:
    """Draw the tables of heads, what stands out, and the most needed ones; return the step."""
    tables, words = st.columns([5, 4], gap="medium")
    with words:
        step = draw_choice(view, trace)
    effects = computed(view, NEEDS)
    heads = {kind: effects.of(changes, step) for kind, changes in effects.heads.items()}
    sharp, out = looks(trace, step), heads_taken(view, trace)
    chosen = url_state.get(KIND), url_state.get(LAYER), url_state.get(HEAD)
    ring = [
        head for head in ranked(heads)
        if said_next(view.sentence) and (head.kind, head.layer + 1, head.head + 1) == chosen
    ]  # fmt: skip
    chart = head_needs(heads, sharp, out, ring, current_theme(), wide=presenting())
    for at in clicked(
        chart, map(selection_of, heads), in_words(heads).replace("**", ""),
        f"needs_{view.request.name}_{step}", tables, width="content",
    ):  # fmt: skip
        switch(at["kind"], head_of(trace, at["kind"], at["layer"] - 1, at["number"] - 1))
        st.rerun()
    with words:
        for head in ring:
            st.markdown(f"Outlined: {head.off.place}, the head that you chose last.")
        edits = parse_edits(view.entry.ref.edits)
        on = edits[0].place if len(edits) == len(out) == 1 else "your edits" if edits else ""
        st.markdown(linked(in_words(heads, len(out), on), "nats"))
        st.markdown(_agreement(sharp, heads))
        st.markdown("Remove the most needed heads:")
        lines = st.container(gap=None, key="looks_needed")
        for head in ranked(heads)[:MOST]:
            edit, value = head.off, heads[head.kind][head[1:]]
            lines.button(
                f"{edit.place[:1].upper()}{edit.place[1:]}: {signed(value)}", key=f"needs {edit}",
                icon=":material/content_cut:", type="tertiary", on_click=switch,
                args=(head.kind, head_of(trace, *head)),
                help="Removes this head on every page, or restores it.",
            )  # fmt: skip
        download_below(st.container(), view, "needed-parts", needed_parts, step=step)
    return step


def draw_parts(view: View, trace: Trace, step: int | None) -> None:
    """Draw source words, networks and layers as bars; a click removes a part."""
    effects, theme = computed(view, NEEDS), current_theme()
    stacks = [(stack, n) for stack, layers in effects.networks.items() for n in range(len(layers))]
    edits = (
        [Edit("cut", "cross", key=n) for n in range(len(trace.src_tokens))],
        [Edit("ffn off", stack, n) for stack, n in stacks],
        [Edit("skip", stack, n) for stack, n in stacks],
    )
    charts = bars(trace, effects, step).items()
    for n, (place, (title, (names, values))) in enumerate(
        zip(st.columns([2, 1.3, 1.3]), charts, strict=True)
    ):
        place.markdown(f"**{title}**")
        labels = [plain_token(name, 24) for name in names]
        alt = f"{title}: {labels[values.argmin()]} is needed most, {signed(values.min())} nats"
        key = f"parts_{n}_{view.request.name}_{step}"
        for part in clicked(part_needs(labels, values, theme), [PART], alt, key, place):
            toggle(edits[n][part["n"]])
            st.rerun()


def together(edits: Sequence[Edit]) -> Computation[Floats]:
    """Return the change of the original translation by each edit alone, and by all."""
    sets = [*((edit,) for edit in edits), tuple(edits)]
    return Computation(
        "together", text_of(edits),
        lambda translator, trace: with_edits(
            translator.model, trace, sets, means=translator.edited(*edits).means,
            excluded=excluded(translator.config), progress=report,
        ).sum(1),
    )  # fmt: skip


class Effect(NamedTuple):
    """A translation with edits."""

    changes: Floats  # of log-probabilities in the original translation by step, in nats
    text: str


def effect_of(edits: str) -> Computation[Effect]:
    """Return the effect of edits, all together."""

    def make(translator: Translator, trace: Trace) -> Effect:
        other = translator.edited(edits)
        changes = with_edits(
            translator.model, trace, [other.edits], means=other.means,
            excluded=excluded(translator.config),
        )  # fmt: skip
        return Effect(changes[0], other.translate([trace.src_ids])[0].text)

    return Computation("effect", edits, make)


def single_heads(edits: Sequence[Edit], config: ModelConfig) -> list[Edit]:
    """Return the edits, with an edit for each head instead of one for a layer's or all heads."""
    heads = [head.off for head in heads_of(config.head_shapes)]
    return [
        single
        for edit in edits
        for single in [
            head for head in heads
            if edit.verb == "off" and head.where == edit.where
            and edit.layer in (None, head.layer) and edit.index in (None, head.index)
        ] or [edit]
    ]  # fmt: skip


def draw_together(view: View) -> None:
    """Draw the effects of several edits, one by one and together; heads count one by one."""
    config = cast("ModelConfig", view.entry.config)
    edits = single_heads(parse_edits(view.entry.ref.edits), config)
    if len(edits) < 2:
        return
    *alone, both = computed(view.original, together(edits)).tolist()
    words, picture = st.columns([5, 4], gap="medium")
    words.markdown(in_sum(alone, both))
    named = edits if len(edits) <= MOST else []
    names = [edit.place if edit.verb == "off" else edit.words for edit in named]
    values = np.array([*(alone if names else ()), sum(alone), both], np.float32)
    chart = part_needs([*names, "sum, each alone", "together"], values, current_theme())
    draw_chart(chart, in_sum(alone, both), picture, key="together")


def in_sum(alone: Sequence[float], both: float) -> str:
    """Return the changes of single edits and of all together in words."""
    total = sum(alone)
    text = (
        f"One by one, your {len(alone)} edits change the log-probability of the original "
        f"translation by {signed(min(alone))} to {signed(max(alone))} nats, **in total by "
        f"{signed(total)}; together by {signed(both)}**. "
    )
    if abs(both - total) < max(0.1, 0.25 * abs(total)):
        return f"{text}They hardly depend on each other."
    if both < total:
        return f"{text}They can replace each other: together they are needed more than alone."
    return f"{text}Once one is removed, the others are needed less."


def draw_reasons(view: View, trace: Trace, whole: Trace) -> None:
    """Draw the number of right letters of the toy, and the effect of removed positions."""
    if view.examples.kind == "letters":
        right = whole.source.strip().casefold()[::-1]
        all_of_them, some = (
            sum(a == b for a, b in zip(record.text, right, strict=False))
            for record in (whole, trace)
        )
        st.markdown(
            f"The reversed letters are **{plain(right)}**: with all parts, {all_of_them} of "
            f"{len(right)} are in the right place; with your edits, {some}."
        )
    edits = parse_edits(view.entry.ref.edits)
    if any(edit.verb == "no positions" and edit.where != "decoder" for edit in edits):
        st.markdown("Without positions, the encoder sees an unordered set of tokens.")


def ranked(heads: Mapping[AttentionKind, Floats]) -> list[Head]:
    """Return all heads, the most needed first."""
    every = [Head(kind, *at) for kind, grid in heads.items() for at in np.ndindex(grid.shape)]
    return sorted(every, key=lambda head: heads[head.kind][head[1:]])


def in_words(heads: Mapping[AttentionKind, Floats], out: int = 0, on: str = "") -> str:
    """Return the most needed heads, and how many but `out` change little on top of edits, `on`."""
    changes = np.concatenate([grid.ravel() for grid in heads.values()])
    value = signed(changes.min())
    first = [at.off.place for at in ranked(heads) if signed(heads[at.kind][at[1:]]) == value]
    places = f"**{'** and **'.join(first)}**" if len(first) < 3 else f"{len(first)} heads"
    little, rest = int((np.abs(changes) < SMALL).sum()) - out, len(changes) - out
    how = f"on top of {on}" if on else "alone"
    return (
        f"Most needed: {places} (log-probability {value} nats{' each' * (len(first) > 1)}). "
        f"Removed {how}, {little} of {'the other ' * bool(out)}{rest} heads change it by less than "
        f"{SMALL} nats."
    )


def _agreement(sharp: Mapping[AttentionKind, Floats], heads: Mapping[AttentionKind, Floats]) -> str:
    looks, changes = (np.concatenate([*map(np.ravel, by.values())]) for by in (sharp, heads))
    correlation = rank_correlation(looks, -changes)
    if math.isnan(correlation):
        return ""
    low, high = rank_interval(correlation, len(looks))
    verdict = "are not" if high < 0.5 else "tend to be" if low >= 0.5 else "may or may not be"
    return (
        f"The sharpest heads {verdict} the most needed ones (rank correlation "
        f"{signed(correlation)}, 95% interval {signed(low)} to {signed(high)})."
    )
