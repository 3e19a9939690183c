"""The pictures of the training tour's stops."""

import streamlit as st

from figures.charts import bars
from figures.exhibit import Exhibit, Series
from figures.labels import decimal, plain
from figures.training import rate_curve
from transformer.evaluation.records import text_name
from ui.core.glossary import term
from ui.core.layout import current_theme, draw_chart
from ui.core.view import View
from ui.export.download import download_button
from ui.tours.checkpoint_facts import length_of
from ui.tours.stops import Scene
from ui.tours.training_exhibits import FIGURES, PAPER_AVERAGES, training_exhibit
from ui.tours.training_facts import Part, TrainingFacts, how_long, training_facts, whose

_GLOSSES = {
    "Updates": term("update"),
    "Epochs": term("epoch"),
    "Target tokens": term("token"),
    "Loss on held-out text": term("loss"),
}


def draw_training(view: View, scene: Scene, number: int) -> None:
    """Draw the picture of a stop, numbered from 1, with its downloads."""
    facts, length = training_facts(scene), length_of(scene)
    if number == 1:
        _draw_read(facts)
        return
    exhibit = training_exhibit(facts, view.checkpoint, view.title, [*FIGURES][number - 2], length)
    if exhibit.name == "learning-rate":
        _draw_rate(facts)
    else:
        _draw_bars(exhibit, length)
    if exhibit.name == "training-hours":
        last = facts.parts[-1]
        total = f"{how_long(facts.hours_in_all)} in all" if facts.hours_in_all else "The paper's"
        st.caption(f"{total}{f', on {plain(last.hardware)}' if last.hardware else ''}.")
    elif exhibit.name == "bleu-by-setting":
        scores = ((plain(text_name(name)), score) for name, score in facts.tests.items() if score)
        tests = [f"{name}: {score:.1f} BLEU." for name, score in scores]
        st.caption(" ".join([exhibit.caption, *tests]))
    with st.container(horizontal=True, horizontal_alignment="right"):
        download_button(lambda: exhibit, key="training", name=exhibit.name)


#: How numbers are written, by figure; and the bar that stands out, if it is not the highest.
_WRITTEN = {
    "batch-by-length": ",.0f", "training-hours": ".2g", "adam-memory": ".2g", "dropout": ".0f",
    "bleu-by-setting": ".1f",
}  # fmt: skip
_MARKED = {
    "adam-memory": "square, 50 updates ago", "dropout": "set to 0",
    "label-smoothing": "the right token", "training-hours": "",
}  # fmt: skip


def _draw_bars(exhibit: Exhibit, length: int) -> None:
    """Draw named numbers, with their text for screen readers."""
    series = exhibit.parts[0]
    assert isinstance(series, Series)
    ((title, values),) = series.lines.items()
    numbers = dict(zip(map(str, series.x), map(float, values), strict=True))
    best = "" if numbers == PAPER_AVERAGES else max(numbers, key=numbers.__getitem__)
    marked = {**_MARKED, "batch-by-length": f"{length} tokens"}.get(exhibit.name, best)
    written, height = _WRITTEN.get(exhibit.name, ".3g"), max(110, 50 + 36 * len(numbers))
    chart = bars(numbers, title, current_theme(), marked=(marked,), written=written, height=height)
    alt = "; ".join(f"{name}: {value:{written}}" for name, value in numbers.items())
    draw_chart(chart, f"{title}. {alt}")


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
        "From the model's metrics.json."
        + (" The numbers are of the last part of its training." if facts.continued else "")
        if facts.own
        else "This model does not say how it was trained; these are the paper's numbers."
    )
    if facts.continued and len(facts.parts) > 1:
        st.markdown("##### Its training, part by part")
        st.markdown("\n".join(f"{n}. {_part(part)}" for n, part in enumerate(facts.parts, 1)))


def _part(part: Part) -> str:
    """Return a part of the training in a line of Markdown."""
    texts = [
        plain(", ".join(part.corpora)),
        f"{part.updates:,} updates" if part.updates else "",
        f"{part.target_tokens:,} target tokens" if part.target_tokens else "",
        how_long(part.hours) if part.hours else "",
    ]
    return " · ".join(filter(None, texts)) or "no record"


def _draw_rate(facts: TrainingFacts) -> None:
    updates, rates = facts.rates
    peak, cooldown = int(updates[rates.argmax()]), facts.recipe.cooldown
    draw_chart(
        rate_curve(updates, rates, min(facts.recipe.warmup, facts.updates), current_theme()),
        f"Learning rate over {facts.updates:,} updates: it rises until update {peak:,}, to "
        f"{decimal(rates.max(), 3)}, and falls to {decimal(rates[-1], 3)}.",
    )
    st.caption(
        f"{whose(facts)}: warm-up {facts.recipe.warmup:,} updates"
        + (f", led to zero over the last {cooldown:.0%}, a departure" if cooldown else "")
        + ". This is the rate that was used, with whatever the recipe changed in the formula."
    )
