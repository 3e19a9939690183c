"""What the Translate page says in words: what is wrong, how it was decoded, what one sees."""

from __future__ import annotations

import math
import re

import streamlit as st

from figures.markdown import code
from figures.numbers import signed
from transformer.trace.records import Trace
from ui.core.view import View

#: The piece that stands for what a vocabulary does not hold.
UNKNOWN = "<unk>"
#: A piece that spells one byte of a character without a piece of its own.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def how_decoded(view: View, trace: Trace) -> str:
    """How the translation came about, in a few words."""
    if view.kind == "archive":
        return "as recorded in the file"
    if trace.forced:
        return "given, teacher forcing"
    if view.sampling is not None:
        drawn = view.sampling
        settings = [f"temperature {drawn.temperature:g}"]
        settings += [f"top k {drawn.top_k}"] if drawn.top_k else []
        settings += [f"top p {drawn.top_p:g}"] if drawn.top_p < 1 else []
        how = f"sampled, {', '.join(settings)}, seed {drawn.seed}"
    else:
        how = "greedy" if view.beam_size == 1 else f"beam {view.beam_size}, α {view.alpha:g}"
    if view.kind == "huggingface":
        return f"{how}; maps of one pass over it, teacher forcing"
    if trace.n_forced:
        how += f"; the first {trace.n_forced} given"
    return how


def said_of_search(view: View, trace: Trace) -> str:
    """One more sentence where the rest of a search was too large to keep; else nothing."""
    if trace.search is not None or trace.forced or view.kind != "checkpoint":
        return ""
    return (
        " The other hypotheses of this long search were left out, so there is no tree of it on "
        "the page Beam search."
    )


def scored(trace: Trace) -> str:
    """The score of the translation, as far as it is known and means the same as elsewhere."""
    if math.isnan(trace.score):
        return "no score"
    return f"score {signed(trace.score)} nats"


def unknown_pieces(trace: Trace) -> list[str]:
    """What the model does not know of a source, each once: bytes in a row as what they spell."""
    found: list[str] = []
    spelled, before = bytearray(), -1
    for position in trace.src_unknown:
        byte = _BYTE.fullmatch(trace.src_tokens[position])
        if spelled and (byte is None or position != before + 1):
            found.append(spelled.decode("utf-8", "replace"))
            spelled.clear()
        if byte is None:
            found.append(trace.src_tokens[position])
        else:
            spelled.append(int(byte[1], 16))
        before = position
    if spelled:
        found.append(spelled.decode("utf-8", "replace"))
    return list(dict.fromkeys(found))


def say_what_is_wrong(trace: Trace) -> None:
    """Name the pieces that the model does not know, and say where the length limit cut."""
    if trace.src_unknown:
        pieces = unknown_pieces(trace)
        named = ", ".join(code(piece, 20) for piece in pieces[:12])
        more = " and more" if len(pieces) > 12 else ""
        known = set(range(len(trace.src_tokens))) - {*trace.src_unknown, *trace.src_special}
        if all(trace.src_tokens[position] == "▁" for position in known):
            said = "knows nothing of this sentence", "The translation is made up."
        elif len(pieces) == 1:
            said = "does not know one piece of this sentence", "Do not trust the translation there."
        else:
            said = f"does not know {len(pieces)} pieces", "Do not trust the translation there."
        st.warning(
            f"This checkpoint {said[0]}: {named}{more}. {said[1]}", icon=":material/question_mark:"
        )
    if UNKNOWN in trace.predicted_tokens[: trace.n_forced]:
        st.warning(
            "This checkpoint does not know all of what is given; the rest is read as "
            f"{code(UNKNOWN)}.",
            icon=":material/question_mark:",
        )
    if not trace.complete:
        st.warning(
            f"Cut at the length limit of {len(trace.predicted_tokens)} tokens: the model did not "
            "end the sentence by itself.",
            icon=":material/content_cut:",
        )


def explain() -> None:
    """The mechanism behind the picture, in the paper's words and numbering."""
    st.markdown(
        "The decoder writes one token at a time. At each step the position being predicted sends "
        "a **query** to every source token's **key**; the softmax of their match is how much of "
        "each source token's **value** it takes in (section 3.2.3, encoder-decoder attention). In "
        "decoder self-attention it asks the same of what is written so far, never of what comes "
        "later: there is no weight above the diagonal."
    )
    st.latex(
        r"\mathrm{Attention}(Q,K,V)=\mathrm{softmax}\!\left(\frac{QK^{\top}}{\sqrt{d_k}}\right)V"
    )
    st.markdown(
        "Every row of the matrix is one query and sums to 1. Each layer has several heads, which "
        "look at different things; *mean* averages them. The bars are the softmax over the whole "
        "vocabulary for the next token, and entropy says how open that choice is (section 3.4).\n\n"
        "Attention is not by itself an explanation: it shows where a head reads, not what the "
        "model does with what it read."
    )
