"""The pictures of the training tour's stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from figures.exhibit import Exhibit
from figures.markdown import plain
from figures.numbers import decimal
from figures.training import bars, rate_curve
from ui.core.glossary import term
from ui.core.layout import sized
from ui.core.theme import current_theme
from ui.core.view import View
from ui.export.download import download_button
from ui.tours import training_exhibits as made
from ui.tours.stops import Scene
from ui.tours.training import length_of
from ui.tours.training_facts import Part, TrainingFacts, how_long, training_facts, whose

_GLOSSES = {
    "Updates": term("update"),
    "Epochs": term("epoch"),
    "Target tokens": term("token"),
    "Loss on held-out text": term("loss"),
}


@dataclass(frozen=True)
class Picture:
    """The picture of a stop.

    Attributes:
        draw: draws it.  name: of its files.  make: its exhibit; None where there is none.
    """

    draw: Callable[[], None]
    name: str = ""
    make: Callable[[], Exhibit] | None = None


def draw_training(view: View, scene: Scene, number: int) -> None:
    """Draw the picture of a stop, numbered from 1, with its downloads."""
    facts = training_facts(scene)
    picture = pictures(facts, view.checkpoint, length_of(scene))[number - 1]
    picture.draw()
    if picture.make is not None:
        with st.container(horizontal=True, horizontal_alignment="right"):
            download_button(picture.make, key="training", name=picture.name)


def pictures(facts: TrainingFacts, checkpoint: str, length: int) -> tuple[Picture, ...]:
    """Return the pictures of all stops.

    Args: length: tokens of the sentence on the left.
    """
    hours, averages = made.hours_by_part(facts), made.bleu_by_average(facts)
    papers = averages is made.PAPER_AVERAGES
    tried = "checkpoints averaged" if papers else "BLEU on validation text, greedy"
    best = () if papers else (max(averages, key=averages.__getitem__),)
    return (
        Picture(partial(_draw_read, facts)),
        Picture(
            partial(
                _draw_bars, made.pairs_by_length(facts, length), "pairs in a batch",
                (f"{length} tokens",), ",.0f",
            ),
            "batch-by-length", partial(made.batch_exhibit, facts, length),
        ),
        Picture(
            partial(_draw_hours, facts, hours),
            "training-hours", partial(made.hours_exhibit, facts, checkpoint),
        ),
        Picture(
            partial(
                _draw_bars, made.memory_by_age(facts), "weight in the mean, the newest being 1",
                ("square, 50 updates ago",), ".2g",
            ),
            "adam-memory", partial(made.memory_exhibit, facts),
        ),
        Picture(partial(_draw_rate, facts), "learning-rate", partial(made.rate_exhibit, facts)),
        Picture(
            partial(
                _draw_bars, made.numbers_dropped(facts), "numbers of one token, on average",
                ("set to 0",), ".0f",
            ),
            "dropout", partial(made.dropout_exhibit, facts),
        ),
        Picture(
            partial(
                _draw_bars, made.target_shares(facts), "share of the target", ("the right token",)
            ),
            "label-smoothing", partial(made.smoothing_exhibit, facts),
        ),
        Picture(
            partial(_draw_bars, averages, tried, best, ".0f" if papers else ".1f"),
            "averaged-checkpoints", partial(made.averages_exhibit, facts, checkpoint),
        ),
        Picture(
            partial(_draw_scores, facts),
            "bleu-by-setting", partial(made.scores_exhibit, facts, checkpoint),
        ),
    )  # fmt: skip


def _draw_bars(
    found: Mapping[str, float], title: str, marked: Sequence[str] = (), written: str = ".3g"
) -> None:
    """Draw named numbers, with their text for screen readers."""
    height = max(110, 50 + 36 * len(found))
    chart = bars(found, title, current_theme(), marked=marked, written=written, height=height)
    alt = "; ".join(f"{name}: {value:{written}}" for name, value in found.items())
    st.altair_chart(sized(chart), theme=None, alt=f"{title}. {alt}")


def _draw_hours(facts: TrainingFacts, hours: Mapping[str, float]) -> None:
    """Hours by part, with the text each part read and the machine."""
    _draw_bars(hours, "hours", (), ".2g")
    last = facts.parts[-1]
    total = f"{how_long(facts.hours_in_all)} in all" if facts.hours_in_all else "The paper's"
    st.caption(f"{total}{f', on {plain(last.hardware)}' if last.hardware else ''}.")


def _draw_read(facts: TrainingFacts) -> None:
    """Length of the training: updates, epochs, time."""
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
        + (" The numbers are of the last part of its training." if facts.continued else "")
        if facts.own
        else "This checkpoint does not say how it was trained; these are the paper's numbers."
    )
    if facts.continued and len(facts.parts) > 1:
        st.markdown("##### Its training, part by part")
        st.markdown("\n".join(f"{n}. {_part(part)}" for n, part in enumerate(facts.parts, 1)))


def _part(part: Part) -> str:
    """A part of the training in a line of Markdown."""
    said = [
        plain(", ".join(part.corpora)),
        f"{part.updates:,} updates" if part.updates else "",
        f"{part.target_tokens:,} target tokens" if part.target_tokens else "",
        how_long(part.hours) if part.hours else "",
    ]
    return " · ".join(each for each in said if each) or "nothing said"


def _draw_rate(facts: TrainingFacts) -> None:
    """The learning rate of every update."""
    updates, rates = facts.rates
    peak, cooldown = int(updates[rates.argmax()]), facts.recipe.cooldown
    st.altair_chart(
        sized(rate_curve(updates, rates, min(facts.recipe.warmup, facts.updates), current_theme())),
        theme=None,
        alt=f"Learning rate over {facts.updates:,} updates: it rises until update {peak:,}, to "
        f"{decimal(rates.max(), 3)}, and falls to {decimal(rates[-1], 3)}.",
    )
    st.caption(
        f"{whose(facts)}: warm-up {facts.recipe.warmup:,} updates"
        + (f", led to zero over the last {cooldown:.0%}, a departure" if cooldown else "")
        + ". This is the rate that was used, with whatever the recipe changed in the formula."
    )


def _draw_scores(facts: TrainingFacts) -> None:
    """BLEU on validation for what was tried, and on the tests."""
    found = made.bleu_by_setting(facts)
    if found is made.PAPER_SCORES:
        st.caption("The paper's table 2, newstest2014 English to German.")
    top = max(found, key=found.__getitem__)
    _draw_bars(found, "BLEU", (top,), ".1f")
    st.caption(
        "; ".join(f"test {name}: {score:.1f} BLEU" for name, score in facts.tests.items() if score)
    )
