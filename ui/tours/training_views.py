"""The pictures of the training tour's stops."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from figures.labels import count, plain
from figures.paper import HALL
from ui.core.glossary import term
from ui.core.layout import current_theme
from ui.core.view import View
from ui.export.download import download_button
from ui.tours import guide, lecture
from ui.tours.training_exhibits import FIGURES, length_of, training_exhibit
from ui.tours.training_facts import Part, TrainingFacts, how_long, training_facts, whose


def draw_training(view: View, here: guide.TourStop) -> None:
    """Draw the picture of a stop, with its downloads; of the first, the numbers."""
    scene = guide.scene_of(view)
    facts = training_facts(scene)
    if here.number == 1:
        _draw_numbers(facts)
        return
    figure, length = [*FIGURES][here.number - 2], length_of(scene)
    exhibit = training_exhibit(facts, view.checkpoint, view.title, figure, length)
    numbers = zip(*exhibit.arrays.values(), strict=True)
    alt = "; ".join(f"{name}: {value:.4g}" for name, value in numbers)
    preset = replace(HALL[current_theme()], height=0, text=16, small=15)
    picture = lecture.picture_at(here, view, exhibit.parts[0], 1, preset)
    st.image(picture, alt=f"{exhibit.title}. {alt}")
    st.caption(plain(exhibit.caption))
    with st.container(horizontal=True, horizontal_alignment="right"):
        download_button(lambda: exhibit, key="training", name=exhibit.name)


def _draw_numbers(facts: TrainingFacts) -> None:
    """Draw the length of the training, and of each of its parts."""
    st.markdown(f"##### {whose(facts)} in numbers")
    epochs = count(facts.epochs, "epoch") if facts.epochs else ""
    loss = "" if facts.val_nll is None else f"loss on held-out text {facts.val_nll:.2f} nats"
    terms = "\n\n".join(f"**{name}** {term(name)}" for name in ("update", "epoch", "token", "loss"))
    st.markdown(_length(facts, epochs, loss), help=terms)
    st.caption(
        "From the model's metrics.json."
        + (" The numbers are of the last part of its training." if facts.continued else "")
        if facts.own
        else "This model does not say how it was trained; these are the paper's numbers."
    )
    if facts.continued and len(facts.parts) > 1:
        st.markdown("##### Its training, part by part")
        parts = (_length(part, plain(", ".join(part.corpora))) for part in facts.parts)
        st.markdown("\n".join(f"1. {part}" for part in parts))


def _length(training: Part | TrainingFacts, *more: str) -> str:
    """Return the length of a training in a line of Markdown; `more` is further text."""
    texts = [
        f"{training.updates:,} updates" if training.updates else "",
        f"{training.target_tokens:,} target tokens" if training.target_tokens else "",
        how_long(training.hours) if training.hours else "",
        *more,
    ]
    return " · ".join(filter(None, texts)) or "no record"
