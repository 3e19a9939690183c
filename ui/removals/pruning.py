"""Heads off, second part: greedy pruning, with its curves as they grow."""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from figures.exhibit import Exhibit
from figures.removals import OUT, pruning_curves
from transformer.edits.language import MAX_EDITS, parse_edits, text_of
from transformer.evaluation.pruning import Pruning, harmless, prune
from transformer.trace.removals import edits_off
from transformer.training.typed import has_languages
from transformer.translator import Translator
from transformer.worker.job import report
from ui.core import url_state
from ui.core.examples import languages_of_training
from ui.core.layout import clicked, current_theme, draw_chart
from ui.core.url_state import Param
from ui.core.view import Request, View
from ui.core.widgets import choose_one
from ui.export.download import download_button, source_of
from ui.frame.editing import take_out
from ui.removals.exhibits import CHOSEN, log_probs_of, pruning, pruning_exhibit, text_of_pruning
from ui.work import results
from ui.work.desk import Progress, attend, errors_on_page, resume, stopped
from ui.work.results import load

#: The text on which heads are pruned.
OVER: Param[str] = Param("prune", url_state.one_of(("sentence", "typed")), "sentence")

#: A fall of a token's log-probability that counts, in nats.
FALL = 0.1

_STARTED = "headlight_pruning"

#: Arguments of `text_of_pruning`.
Text = Mapping[str, tuple[str, str]]


def draw_pruning(view: View) -> None:
    """Draw the choice of a text, the curves so far, and ways to open the model at a point.

    Prune the model without its edits, so that the curves remain while one of their points is open.
    """
    st.subheader("How many heads can go?", anchor=False)
    st.markdown(
        "Heads are removed one by one, the least harmful first. Random "
        "orders show what chance would do. **Choose a point to open the model there.**"
    )
    edited, view = view, view.original
    known = languages_of_training(view.entry.whole, view.entry.metrics)
    offered = has_languages(*known) and view.examples.kind != "letters"
    names = {"sentence": "This sentence"} | ({"typed": "200 typed sentences"} if offered else {})
    url_state.show(OVER)
    over = url_state.get(OVER) if url_state.get(OVER) in names else "sentence"
    text = {"languages" if over == "typed" else "unseen": known} if offered else {}
    asked = view.request
    work = ("pruning", known if over == "typed" else asked, asked.model, asked.device)
    with st.container(horizontal=True, vertical_alignment="center"):
        choose_one("Text", OVER, names, chosen=over)
        now: Pruning | None = results.CACHE.get(work)
        begun = st.session_state.get(_STARTED) == work and not stopped(work)
        if not begun and (now is None or not now.done):
            st.button(
                "Go on" if now else "Take heads out one by one", key="prune", on_click=_start,
                args=(work,), icon=":material/play_arrow:",
            )  # fmt: skip
    if over == "typed":
        st.caption(
            "Sentences as visitors type them, each with a translation; every other one chooses the "
            "heads. It takes minutes; after Stop the curves stay."
        )
    slot = st.empty()
    if begun and (now is None or not now.done):
        if now is not None:
            _draw_curves(now, slot)
        growing = _Growing(work, partial(_draw_curves, where=slot))
        with errors_on_page():
            now = attend(partial(_prune, asked, text, work), growing)
    if now is not None and len(now.bleu) > 1:
        with slot.container():
            _draw_result(edited, now, text)


def _start(work: Hashable) -> None:
    st.session_state[_STARTED] = work
    resume()


def _prune(asked: Request, of: Text, work: Hashable) -> Pruning:
    """Continue pruning to the end, alternating with other computations."""
    recorded, model = results.trace(asked), load(asked)
    assert isinstance(model, Translator)  # the page needs its internals
    text = text_of_pruning(model, recorded, **of)
    now: Pruning | None = results.CACHE.get(work)
    steps = prune(model, text, now, report)
    while now is None or not now.done:
        with results.LONG.turn():
            now = next(steps)
        results.CACHE.put(work, now)
    return now


class _Growing(Progress):
    """A bar that draws the curves as they grow."""

    def __init__(self, work: Hashable, draw: Callable[[Pruning], None]) -> None:
        super().__init__(work, "Removing heads: {step} of {most}")
        self._pruning, self._draw, self._drawn_steps = work, draw, 0

    def __call__(self, step: int, most: int) -> None:
        """See `Progress`."""
        super().__call__(step, most)
        now: Pruning | None = results.CACHE.get(self._pruning)
        if now is not None and len(now.steps) > self._drawn_steps + len(now.heads) // 48:
            self._drawn_steps = len(now.steps)
            self._draw(now)


def _curves(now: Pruning) -> Any:
    marks, values = now.marks[: len(now.bleu)], now.random_values
    every = range(len(now.steps) + 1)
    measures = (
        ("log-probability of a token, nats", log_probs_of(now), every, values[..., 0]),
        ("BLEU", {CHOSEN: np.array(now.bleu, np.float32)}, marks, values[..., 1]),
    )
    return pruning_curves(measures, marks, len(now.heads), current_theme())


def _draw_curves(now: Pruning, where: st.delta_generator.DeltaGenerator) -> None:
    if len(now.bleu) > 1:
        draw_chart(_curves(now), in_words(now), where)


def _draw_result(view: View, now: Pruning, text: Text) -> None:
    alt, key = in_words(now).replace("**", ""), f"{view.request.name}_{text}_{len(now.steps)}"
    for point in clicked(_curves(now), OUT, alt, f"pruning_{key}", width="content"):
        edits = edits_off(now.order[: point["out"]], now.heads)
        if len(edits) <= MAX_EDITS and text_of(parse_edits(edits)) != view.entry.ref.edits:
            take_out(edits)
            st.rerun()
    st.markdown(in_words(now))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("Open the model with", width="content")
        for mark in now.marks[1 : len(now.bleu)]:
            edits = edits_off(now.order[:mark], now.heads)
            st.button(
                f"{len(now.heads) - mark} left", key=f"left_{mark}", type="tertiary",
                on_click=take_out, args=(edits,), disabled=len(edits) > MAX_EDITS,
            )  # fmt: skip
    plain_view = view.original
    download_button(lambda: _figure(plain_view, now, text), key="take_pruning", name="pruning")


def _figure(view: View, now: Pruning, text: Text) -> Exhibit:
    heads = None if now.done else len(now.steps)
    made = pruning_exhibit(now, "languages" in text)
    return source_of(view).figure(made, pruning, **text, heads=heads)


def in_words(now: Pruning) -> str:
    """Return how many heads can go, and what BLEU is then, in words."""
    n, fitted = len(now.heads), harmless(now.log_probs, FALL)
    marks, means = now.marks[: len(now.bleu)], now.random_values[..., 0].mean(1)
    fallen = (mark for mark, mean in zip(marks, means, strict=True) if mean < means[0] - FALL)
    by_chance = next((f"fewer than {mark}" for mark in fallen), f"at least {marks[-1]}")
    at = max(place for place, mark in enumerate(marks) if mark <= fitted)
    so_far = "" if now.done or fitted < len(now.steps) else "So far: "
    unseen = (
        f"On typed sentences not used to choose: **{harmless(now.unseen_log_probs, FALL)}**"
        if now.unseen
        else "Other text may lose more"
    )
    return (
        f"{so_far}**{fitted} of {n} heads** can go before a token of the text that chose them "
        f"loses {FALL:g} nats; in random order {by_chance}. {unseen}. BLEU is {now.bleu[at]:.1f} "
        f"with {n - marks[at]} heads left, {now.bleu[0]:.1f} with all."
    )
