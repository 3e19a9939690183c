"""The Translate page's texts: warnings, how the translation was decoded, the explanation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import streamlit as st

from figures.labels import code
from transformer.checkpoint.folder import COVERED, KINDS, training_text
from transformer.trace.records import Trace
from ui.core.loops import cut_notice
from ui.core.view import View, ask_for

#: The piece that replaces anything missing from the vocabulary.
UNKNOWN = "<unk>"
#: A piece that spells one byte of a character without a piece of its own.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def unknown_pieces(trace: Trace) -> list[str]:
    """Return the source's unknown pieces, each once; a run of byte pieces as the text it spells."""
    unknown: list[str] = []
    spelled, before = bytearray(), -1
    for position in trace.src_unknown:
        byte = _BYTE.fullmatch(trace.src_tokens[position])
        if spelled and (byte is None or position != before + 1):
            unknown.append(spelled.decode("utf-8", "replace"))
            spelled.clear()
        if byte is None:
            unknown.append(_bare(trace.src_tokens[position]))
        else:
            spelled.append(int(byte[1], 16))
        before = position
    if spelled:
        unknown.append(spelled.decode("utf-8", "replace"))
    return list(dict.fromkeys(unknown))


def _bare(token: str) -> str:
    return token.removeprefix("▁") or token


def length_warning(metrics: Mapping[str, Any], trace: Trace) -> str:
    """Return a sentence if the source is longer than the text trained on, else ""."""
    text = training_text(metrics)
    length = len(trace.src_tokens) - len(trace.src_special)
    if text is None or length <= text.src_tokens:
        return ""
    return (
        f"This sentence has {length} tokens; {100 * COVERED:.0f}% of the training sentences have "
        f"at most {text.src_tokens}. Expect mistakes, or translate it in parts."
    )


#: Mean probability of the model's own tokens below which a translation is doubtful. On Tatoeba's
#: held-out sentences, three everyday models are wrong about 4 times as often below it as above it
#: (`benchmarks/certainty.py`); rare words, copies and the beam's disagreement tell much less.
DOUBTED = 0.6


def everyday(metrics: Mapping[str, Any]) -> bool:
    """Return True for a model of everyday sentences, for which `DOUBTED` was measured."""
    text = training_text(metrics)
    return text is not None and text.kind == KINDS["tatoeba"]


def uncertainty(trace: Trace) -> str:
    """Return a sentence if the model gave its own tokens a low probability, else ""."""
    mean = float(np.exp(trace.log_probs.mean()))
    if trace.n_forced or mean >= DOUBTED:
        return ""
    return (
        f"Doubtful: the model gave its own tokens a probability of {mean:.0%} on average. Below "
        f"{DOUBTED:.0%}, 4 in 10 translations of held-out sentences share little with a person's; "
        "above, 1 in 8."
    )


def doubts(view: View, trace: Trace) -> list[str]:
    """Return what makes a translation doubtful, in Markdown: unknown pieces, length, a cut."""
    reasons = [length_warning(view.entry.metrics, trace)]
    if trace.src_unknown:
        pieces = unknown_pieces(trace)
        named = ", ".join(code(piece, 20) for piece in pieces[:6])
        more = " and more" if len(pieces) > 6 else ""
        known = set(range(len(trace.src_tokens))) - {*trace.src_unknown, *trace.src_special}
        if all(trace.src_tokens[position] == "▁" for position in known):
            return [f"The model has never seen these characters: {named}{more}. The translation "
                    "is made up."]  # fmt: skip
        count = "one piece of this sentence" if len(pieces) == 1 else f"{len(pieces)} pieces"
        reasons.append(f"The model does not know {count}: {named}{more}.")
    elif (  # measured on finished models
        not (reasons[0] or view.sampling) and view.entry.updates is None
        and everyday(view.entry.metrics)
    ):  # fmt: skip
        reasons.append(uncertainty(trace))
    if UNKNOWN in map(_bare, trace.predicted_tokens[: trace.n_forced]):
        reasons.append(f"Unknown pieces of the given target are read as {code(UNKNOWN)}.")
    return [*filter(None, reasons), cut_notice(trace)]


def draw_warnings(view: View, trace: Trace) -> None:
    """Say in one quiet line what makes a translation doubtful; offer a long text's sentences."""
    if warning := " ".join(filter(None, doubts(view, trace))):
        st.caption(f":material/info: {warning}")
    parts = re.split(r"(?<=[.!?…])\s+", view.sentence.strip())
    if len(parts) > 1 and length_warning(view.entry.metrics, trace):
        st.selectbox(
            "A sentence of it", parts, index=None, key="part_box", label_visibility="collapsed",
            placeholder=f"Translate one of its {len(parts)} sentences",
            on_change=lambda: ask_for(st.session_state["part_box"]),
        )  # fmt: skip
