"""Tours: short walks through the paper, with questions to answer before the picture is shown."""

from __future__ import annotations

import streamlit as st

from figures.training import bars, rate_curve
from ui.core.glossary import term
from ui.core.layout import sized
from ui.core.theme import current_theme
from ui.core.view import View, current_view
from ui.export.download import download_button
from ui.frame.pages import require_frame
from ui.tours import guide
from ui.tours.stops import Tour
from ui.tours.training import TRAINING, TrainingFacts, how_long, training_facts, whose
from ui.tours.training_exhibits import (
    PAPER_SCORES,
    bleu_by_setting,
    rate_exhibit,
    scores_exhibit,
    smoothing_exhibit,
    target_shares,
)

require_frame()


_GLOSSES = {
    "Updates": term("update"),
    "Epochs": term("epoch"),
    "Target tokens": term("token"),
    "Loss on held-out text": term("loss"),
}


def draw_tours() -> None:
    """All tours, in the paper's order."""
    st.markdown(
        "Short walks through the paper, on the checkpoint and the pages of this app. Each stop "
        "sets the controls and asks for a prediction; **the answer comes from the model on the "
        "left**, not from a book. Every stop has an address of its own to hand out."
    )
    here = guide.current_stop()
    for start in range(0, len(guide.TOURS), 2):
        pair = guide.TOURS[start : start + 2]
        for column, tour in zip(st.columns(2, gap="large"), pair, strict=False):
            with column.container(border=True, height="stretch"):
                draw_tour(tour, now=here is not None and here.tour is tour)


def draw_tour(tour: Tour, now: bool) -> None:
    """One tour on the list: what it is about, its stops, and the way in."""
    words, button = st.columns([3, 1], vertical_alignment="center")
    words.markdown(f"{tour.icon} **{tour.title}** :gray[· section {tour.section}]  \n{tour.about}")
    button.button(
        "Again" if now else "Start", key=f"start_{tour.name}", width="stretch",
        on_click=guide.go_to, args=(tour.name, 1),
    )  # fmt: skip
    st.caption(" · ".join(stop.title for stop in tour.stops))


def draw_read(facts: TrainingFacts) -> None:
    """How long the training was, in numbers."""
    st.markdown(f"##### {whose(facts)} in numbers")
    shown = {
        "Updates": f"{facts.updates:,}",
        "Epochs": f"{facts.epochs:,}" if facts.epochs else "",
        "Target tokens": f"{facts.target_tokens:,}",
        "Time": how_long(facts.hours) if facts.hours else "",
        "Loss on held-out text": f"{facts.val_nll:.2f} nats" if facts.val_nll is not None else "",
    }
    shown = {label: value for label, value in shown.items() if value}
    for column, (label, value) in zip(st.columns(len(shown)), shown.items(), strict=True):
        column.metric(label, value, help=_GLOSSES.get(label))
    st.caption(
        "From the checkpoint's metrics.json."
        + (
            " What its weights had been trained on before this part is not counted."
            if facts.continued
            else ""
        )
        if facts.own
        else "This checkpoint does not say how it was trained; these are the paper's numbers."
    )


def draw_rate(facts: TrainingFacts) -> None:
    """The learning rate of every update."""
    updates, rates = facts.rates
    peak, cooldown = int(updates[rates.argmax()]), facts.recipe.cooldown
    st.altair_chart(
        sized(rate_curve(updates, rates, min(facts.recipe.warmup, facts.updates), current_theme())),
        theme=None,
        alt=f"Learning rate over {facts.updates:,} updates: it rises until update {peak:,}, to "
        f"{rates.max():.2e}, and falls to {rates[-1]:.2e}.",
    )
    st.caption(
        f"{whose(facts)}: warm-up {facts.recipe.warmup:,} updates"
        + (f", led to zero over the last {cooldown:.0%}, a departure" if cooldown else "")
        + ". This is the rate that was used, with whatever the recipe changed in the formula."
    )


def draw_smoothing(facts: TrainingFacts) -> None:
    """What the model is asked to say, with and without smoothing."""
    target = target_shares(facts)
    st.altair_chart(
        sized(
            bars(
                target,
                "share of the target",
                current_theme(),
                marked=("the right token",),
                height=170,
            )
        ),
        theme=None,
        alt="; ".join(f"{name}: {share:.3g}" for name, share in target.items()),
    )


def draw_scores(facts: TrainingFacts) -> None:
    """BLEU on validation for what was tried, and on the tests."""
    found = bleu_by_setting(facts)
    if found is PAPER_SCORES:
        st.caption("The paper's table 2, newstest2014 English to German.")
    top = max(found, key=found.__getitem__)
    st.altair_chart(
        sized(bars(found, "BLEU", current_theme(), marked=(top,), written=".1f", height=230)),
        theme=None,
        alt="BLEU by setting. "
        + "; ".join(f"{name}: {score:.1f}" for name, score in found.items()),
    )
    st.caption(
        "; ".join(f"test {name}: {score:.1f} BLEU" for name, score in facts.tests.items() if score)
    )


def draw_training(view: View, number: int) -> None:
    """The picture of a stop of the training tour."""
    facts = training_facts(guide.scene_of(view))
    (draw_read, draw_rate, draw_smoothing, draw_scores)[number - 1](facts)
    take = {
        2: ("learning-rate", lambda: rate_exhibit(facts)),
        3: ("label-smoothing", lambda: smoothing_exhibit(facts)),
        4: ("bleu-by-setting", lambda: scores_exhibit(facts, view.checkpoint)),
    }.get(number)
    if take is not None:
        with st.container(horizontal=True, horizontal_alignment="right"):
            download_button(take[1], key="training", name=take[0])


now = guide.current_stop()
view = current_view()
if now is not None and now.tour is TRAINING and view.checkpoint:
    draw_training(view, now.number)
else:
    draw_tours()
