"""A translation that ended in a loop: its text without the repetition, and the notice about it.

Every page shows a translation in these words, so that one that says the same again and again until
the length limit neither fills the page nor passes for what the model meant. Needs no Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from figures.labels import code
from transformer.search.loops import Loop, find_loop
from transformer.trace.records import Trace


def loop_in(trace: Trace) -> Loop | None:
    """Return the loop that the translation ends in, None if it ends by itself or without one."""
    return None if trace.complete else find_loop(trace.text)


def headline(trace: Trace) -> str:
    """Return the translation as text, a loop cut after its first time."""
    loop = loop_in(trace)
    return trace.text if loop is None else f"{loop.kept} …"


def first_words(trace: Trace, words: Sequence[str]) -> int:
    """Return how many of a translation's words or tokens stand before the end of `headline`."""
    loop = loop_in(trace)
    if loop is None:
        return len(words)
    kept = len("".join(loop.kept.split()))
    letters = accumulate(len("".join(word.replace("▁", "").split())) for word in words)
    return next((n for n, so_far in enumerate(letters, 1) if so_far >= kept), len(words))


def cut_notice(trace: Trace) -> str:
    """Return a warning that a translation was cut, and what it repeats; "" if it was not."""
    if trace.complete or not trace.predicted_tokens:
        return ""
    loop, why = loop_in(trace), "the model did not finish the sentence by itself."
    if loop is not None:
        why = f"the model writes {code(loop.repeated, 60)} {loop.times} times. "
        why += "Shown once above; the maps show every repeat."
    return f"Cut at the length limit of {len(trace.predicted_tokens)} tokens: {why}"


def cut_in_short(trace: Trace) -> str:
    """Return `cut_notice` in one line, for a place beside another translation."""
    if trace.complete or not trace.predicted_tokens:
        return ""
    loop, cut = loop_in(trace), f"Cut at {len(trace.predicted_tokens)} tokens"
    return f"{cut}: {code(loop.repeated, 20)} {loop.times} times, shown once" if loop else cut
