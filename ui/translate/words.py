"""The Translate page's texts: warnings, how the translation was decoded, the explanation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from figures.labels import code
from transformer.checkpoint.folder import COVERED, KINDS, training_text
from transformer.text.marks import decoded, is_unknown, unmarked
from transformer.trace.records import Trace
from ui.core.loops import cut_notice
from ui.core.view import View, ask_for

#: The piece that replaces anything missing from the vocabulary.
UNKNOWN = "<unk>"
#: A piece that spells one byte of a character without a piece of its own.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def unknown_pieces(pieces: Sequence[str], positions: Iterable[int]) -> list[str]:
    """Return the texts of unknown pieces, each once; a run of byte pieces as the text it spells."""
    runs, before = list[list[str]](), -1
    for at in positions:
        (piece,) = unmarked([pieces[at]])
        spelled = _BYTE.fullmatch(piece) and runs and _BYTE.fullmatch(runs[-1][-1])
        if spelled and at == before + 1:
            runs[-1].append(piece)
        else:
            runs.append([piece])
        before = at
    return list(dict.fromkeys(_bare("".join(decoded(run))) for run in runs))


def _bare(token: str) -> str:
    return token.removeprefix("▁") or token


def _listed(pieces: Sequence[str]) -> str:
    return ", ".join(code(piece, 20) for piece in pieces[:6]) + " and more" * (len(pieces) > 6)


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
        pieces = unknown_pieces(trace.src_tokens, trace.src_unknown)
        known = set(range(len(trace.src_tokens))) - {*trace.src_unknown, *trace.src_special}
        if all(trace.src_tokens[position] == "▁" for position in known):
            return [f"The model has never seen these characters: {_listed(pieces)}. The "
                    "translation is made up."]  # fmt: skip
        count = "one piece of this sentence" if len(pieces) == 1 else f"{len(pieces)} pieces"
        reasons.append(f"The model does not know {count}: {_listed(pieces)}.")
    elif (  # measured on finished models
        not (reasons[0] or view.sampling) and view.entry.updates is None
        and everyday(view.entry.metrics)
    ):  # fmt: skip
        reasons.append(uncertainty(trace))
    given = trace.predicted_tokens[: trace.n_forced]
    if lost := [at for at, p in enumerate(given) if is_unknown(p) or _bare(p) == UNKNOWN]:
        named = _listed(unknown_pieces(given, lost))
        reasons.append(f"Unknown pieces of the given target are read as {code(UNKNOWN)}: {named}.")
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
