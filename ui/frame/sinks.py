"""Attention by class of key, weight against norm, and why a sink gets so much."""

from html import escape
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from figures.labels import code, plain_token
from figures.palette import CHROME, categorical
from transformer.attribution.cells import Place, why_weight_only
from transformer.attribution.edges import edges, row_shares
from transformer.measures.heads import combine
from transformer.measures.sinks import KEY_CLASSES, KeyClass, key_classes, mass_by_class
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.core.layout import current_theme
from ui.core.view import View
from ui.work.desk import computed
from ui.work.results import Computation

#: A value counts as short up to this share of the words' mean length.
_SHORT = 0.75


class Sinks(NamedTuple):
    """Where the rows of one map go."""

    masses: dict[str, dict[KeyClass, float]]  # by measure: "weight", and "norm" if it is known
    key: int | None  # the key outside of words with most weight, if there is one
    weight: float  # its share of the weight
    length: float | None  # of its value vector through W_O, by the words' mean; None for many heads


def sinks_of(place: Place) -> Computation[Sinks]:
    """Return the computation for one map."""
    kind, layer, head = place

    def make(model: Any, trace: Trace) -> Sinks:
        tokens = trace.axis_tokens(kind)[1]
        special = trace.tgt_special if kind == "decoder_self" else trace.src_special
        classes = key_classes(tokens, special)
        words = np.array([name == "word" for name in classes])
        weight = combine(trace.attention(kind), "mean", layer, head)
        masses, length = {"weight": mass_by_class(weight, classes)}, None
        on_key: Floats = weight.sum(0) / max(1, len(weight))
        key = int(np.where(words, -1, on_key).argmax()) if not words.all() else None
        if why_weight_only(model) is None:
            of = edges(model.model, trace, "norm")
            blocks = of.blocks[kind] if layer is None else of.blocks[kind][layer : layer + 1]
            heads = of.heads[kind] if layer is None else of.heads[kind][layer : layer + 1]
            norms = blocks if head is None else heads[:, head]
            masses["norm"] = mass_by_class(row_shares(norms).mean(0), classes)
            if key is not None and layer is not None and head is not None:
                lengths = norms[0].sum(0) / np.maximum(weight.sum(0), 1e-12)
                usual = float(lengths[words].mean()) if words.any() else 0.0
                length = float(lengths[key]) / usual if usual else None
        return Sinks(masses, key, 0.0 if key is None else float(on_key[key]), length)

    return Computation("sinks", place, make)


def draw_sinks(view: View, trace: Trace, place: Place) -> None:
    """Draw the bars of one map, and the answer for its largest sink.

    Args: view, trace: with weights.
    """
    sinks = computed(view, sinks_of(place))
    st.html("".join(_bar(name, masses) for name, masses in sinks.masses.items()))
    if sinks.key is None:
        return
    token = code(plain_token(trace.axis_tokens(place[0])[1][sinks.key]))
    text = f"**Why does {token} get so much?** It gets {sinks.weight:.2f} of the weight. "
    if sinks.length is not None:
        short = sinks.length <= _SHORT
        text += "Because" if short else "Not because"
        text += f" its value is short: in this head it is {sinks.length:.2f} times as long as a "
        text += "word's" + (", so attention there adds little." if short else ".")
    elif "norm" in sinks.masses:
        text += "Choose one layer and head to see how long its value vector is there."
    else:
        text += "The length of its value vector needs a model that runs here."
    st.caption(text)


def _bar(name: str, masses: dict[KeyClass, float]) -> str:
    theme = current_theme()
    chrome = CHROME[theme]
    colours = [chrome.accent, chrome.muted, *categorical(6, theme)[3:]]
    said = ", ".join(f"{kind} {mass:.2f}" for kind, mass in masses.items())
    parts = "".join(
        f'<span style="flex: {max(mass, 0.001):.3f} 0 0; background: '
        f"{colours[KEY_CLASSES.index(kind)]}; color: {chrome.surface}; overflow: hidden; "
        f'white-space: nowrap; text-align: center">'
        f"{escape(f'{kind} {mass:.2f}') * (mass > 0.14)}</span>"
        for kind, mass in masses.items()
    )
    return (
        f'<div role="img" aria-label="{escape(f"{name} by class of key: {said}")}" '
        f'title="{escape(said)}" '
        'style="display: flex; font-size: 0.75rem; line-height: 1.2rem; gap: 1px">'
        f'<span style="width: 3.5rem">{name}</span>{parts}</div>'
    )
