"""Translations that end in a loop: their text without the repetition, and a notice.

Every page uses these texts, so that a repetition up to the length limit neither fills the page nor
looks intended. Needs no Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from figures.labels import code
from transformer.search.loops import Loop, find_loop
from transformer.trace.records import Trace


def loop_in(trace: Trace) -> Loop | None:
    """Return the loop at the end of a translation that was cut, or None."""
    return None if trace.complete else find_loop(trace.text)


def headline(trace: Trace) -> str:
    """Return the translation with a final loop shown once."""
    loop = loop_in(trace)
    return trace.text if loop is None else f"{loop.kept} …"


def first_words(trace: Trace, words: Sequence[str]) -> int:
    """Return the number of words or tokens that `headline` contains."""
    loop = loop_in(trace)
    if loop is None:
        return len(words)
    kept = len("".join(loop.kept.split()))
    letters = accumulate(len("".join(word.replace("▁", "").split())) for word in words)
    return next((n for n, so_far in enumerate(letters, 1) if so_far >= kept), len(words))


def cut_notice(trace: Trace) -> str:
    """Return a warning that names the cut and the repeated text, or ""."""
    if trace.complete or not trace.predicted_tokens:
        return ""
    loop, why = loop_in(trace), "the model did not finish the sentence by itself."
    if loop is not None:
        why = f"the model writes {code(loop.repeated, 60)} {loop.times} times. "
        why += "Shown once above; the maps show every repeat."
    return f"Cut at the length limit of {len(trace.predicted_tokens)} tokens: {why}"


def cut_in_short(trace: Trace) -> str:
    """Return a short form of `cut_notice`."""
    if trace.complete or not trace.predicted_tokens:
        return ""
    loop, cut = loop_in(trace), f"Cut at {len(trace.predicted_tokens)} tokens"
    return f"{cut}: {code(loop.repeated, 20)} {loop.times} times, shown once" if loop else cut
