"""Attention by class of key, weight against norm, and why a sink gets so much."""

from html import escape
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from figures.labels import code, plain_token
from figures.palette import CHROME, categorical, ink_on
from transformer.attribution.cells import Place, measured, why_weight_only
from transformer.measures.heads import KEY_CLASSES, KeyClass, combine, key_classes, mass_by_class
from transformer.trace.records import Trace
from ui.core.layout import current_theme
from ui.core.view import View
from ui.work.desk import computed
from ui.work.results import Computation

#: A value counts as short up to this share of the words' mean length.
_SHORT = 0.75
#: Smallest share of a map's weight that is explained.
MUCH = 0.15


class Sinks(NamedTuple):
    """Shares of one map by class of key, and the key outside words with the most weight."""

    masses: dict[str, dict[KeyClass, float]]  # by measure: "weight", and "norm" if it is known
    key: int  # meaningless without such a key
    weight: float  # its share of the weight
    #: of its value through W_O by the mean of words, if the last row gives shares to both
    length: float | None


def sinks_of(place: Place) -> Computation[Sinks]:
    """Return the computation for one map."""
    kind, layer, head = place

    def make(model: Any, trace: Trace) -> Sinks:
        special = trace.tgt_special if kind == "decoder_self" else trace.src_special
        classes = key_classes(trace.axis_tokens(kind)[1], special)
        words = np.array([name == "word" for name in classes])
        weight = combine(trace.attention(kind), "mean", layer, head)
        masses, length = {"weight": mass_by_class(weight, classes)}, None
        key = int(np.where(words, -1, weight.sum(0)).argmax())
        if why_weight_only(model) is None:
            cells = measured(model, trace, "norm").cells
            assert cells is not None
            norm = cells.at(kind, layer, head)
            masses["norm"] = mass_by_class(norm, classes)
            seen = weight[-1] > 1e-30  # in a causal map, only the last row may see every key
            lengths = norm[-1] / np.where(seen, weight[-1], np.float32(1))
            if None not in place and seen[key] and lengths[words & seen].any():
                length = float(lengths[key] / lengths[words & seen].mean())
        return Sinks(masses, key, float(weight[:, key].mean()), length)

    return Computation("sinks", place, make)


def draw_sinks(view: View, trace: Trace, place: Place) -> None:
    """Draw the bars of one map, and the answer for its largest sink.

    Args: view, trace: with weights.
    """
    sinks = computed(view, sinks_of(place))
    theme = current_theme()
    fills = (CHROME[theme].accent, CHROME[theme].muted, *categorical(6, theme)[3:])
    colours = dict(zip(KEY_CLASSES, fills, strict=False))
    bars = [_bar(name, masses, colours) for name, masses in sinks.masses.items()]
    norm = ", and by the length of what it adds (norm)" * ("norm" in sinks.masses)
    title = f'<div style="font-size: 0.75rem">This map by kind of key, by weight{norm}</div>'
    named = [f'<span style="color: {colours[kind]}">■</span> {escape(kind)} &#8195;'
             for kind in sinks.masses["weight"]]  # fmt: skip
    legend = f'<div style="padding-left: 3.5rem; font-size: 0.75rem">{"".join(named)}</div>'
    st.html("".join([title, *bars, legend]))
    if [*sinks.masses["weight"]] == ["word"] or sinks.weight < MUCH:
        return
    token = code(plain_token(trace.axis_tokens(place[0])[1][sinks.key]))
    text = f"**Why does {token} get so much?** It gets {sinks.weight:.2f} of the weight, averaged "
    text += "over the rows. "
    if sinks.length is not None:
        short = sinks.length <= _SHORT
        text += "One reason may be that" if short else "Not because"
        text += f" its value is short: in this head it is {sinks.length:.2f} times as long as a "
        text += "word's" + (", so attention there adds little. " if short else ".")
        text += "The norm's shares of a row add up to 1, however little there is." * short
    elif "norm" in sinks.masses and None not in place:
        text += "By norm, the last row of this map is 0 at this key or at every word."
    elif "norm" in sinks.masses:
        text += "Choose one layer and head to see how long its value vector is there."
    else:
        text += "The length of its value vector needs a model that runs here."
    st.caption(text)


def _bar(name: str, masses: dict[KeyClass, float], colours: dict[KeyClass, str]) -> str:
    said = ", ".join(f"{kind} {mass:.2f}" for kind, mass in masses.items())
    parts = "".join(
        f'<span style="flex: {max(mass, 0.001):.3f} 0 0; background: '
        f"{colours[kind]}; color: {ink_on(colours[kind])}; overflow: hidden; "
        f'text-align: center; height: 1.2rem">'
        f"{f'{mass:.2f}' * (mass > 0.1)}</span>"
        for kind, mass in masses.items()
    )
    return (
        f'<div role="img" aria-label="{escape(f"{name} by class of key: {said}")}" '
        f'title="{escape(said)}" '
        'style="display: flex; font-size: 0.75rem; line-height: 1.2rem; gap: 1px">'
        f'<span style="width: 3.5rem">{name}</span>{parts}</div>'
    )
