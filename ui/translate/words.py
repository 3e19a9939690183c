"""The Translate page's texts: warnings, how the translation was decoded, the explanation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import streamlit as st

from figures.labels import code
from transformer.checkpoint.folder import COVERED, training_text
from transformer.trace.records import Trace
from ui.core.loops import cut_notice
from ui.core.view import View

#: The piece that replaces anything missing from the vocabulary.
UNKNOWN = "<unk>"
#: A piece that spells one byte of a character without a piece of its own.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def missing_search_note(view: View, trace: Trace) -> str:
    """Return a sentence saying that the search was too large to record, else an empty one."""
    if trace.search is not None or trace.forced or view.kind != "checkpoint":
        return ""
    return (
        " The other hypotheses of this long search were left out, so How it chose cannot "
        "show its tree."
    )


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


def draw_warnings(view: View, trace: Trace) -> None:
    """Warn of what makes a translation doubtful: length, unknown pieces, a cut or a loop."""
    if long := length_warning(view.entry.metrics, trace):
        st.warning(long, icon=":material/straighten:")
    if trace.src_unknown:
        pieces = unknown_pieces(trace)
        named = ", ".join(code(piece, 20) for piece in pieces[:12])
        more = " and more" if len(pieces) > 12 else ""
        known = set(range(len(trace.src_tokens))) - {*trace.src_unknown, *trace.src_special}
        if all(trace.src_tokens[position] == "▁" for position in known):
            problem, advice = "knows nothing of this sentence", "The translation is made up."
        else:
            count = "one piece of this sentence" if len(pieces) == 1 else f"{len(pieces)} pieces"
            problem, advice = f"does not know {count}", "Do not trust the translation there."
        st.warning(
            f"This checkpoint {problem}: {named}{more}. {advice}", icon=":material/question_mark:"
        )
    if UNKNOWN in map(_bare, trace.predicted_tokens[: trace.n_forced]):
        st.warning(
            "This checkpoint does not know every piece of the given target; unknown ones are read "
            f"as {code(UNKNOWN)}.",
            icon=":material/question_mark:",
        )
    if cut := cut_notice(trace):
        st.warning(cut, icon=":material/content_cut:")
