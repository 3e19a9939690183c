"""The original's translation, the change of each token, and the edited model's translation."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from figures.labels import plain, shorten
from transformer.measures.compare import SideBySide, Word, side_by_side
from transformer.search.request import excluded
from transformer.trace.records import Trace
from transformer.trace.removals import log_probs
from transformer.translator import Translator
from transformer.types import Floats
from ui.components.mount import show
from ui.components.strip import Column, beside_component
from ui.core.doubts import first_words
from ui.core.glossary import linked
from ui.core.view import Request, View
from ui.work.desk import computed
from ui.work.results import Computation
from ui.work.results import trace as trace_of

#: Changes of a whole translation below this, in nats, count as none.
_NONE = 0.005


def changes_of(view: View) -> Computation[Floats]:
    """Return the computation of the tokens' log-probability changes, [T] in nats.

    The edited model reads the original's translation in one pass (teacher forcing).
    """
    request = view.original.request

    def make(translator: Translator, _: Trace) -> Floats:
        whole = trace_of(request)
        return (
            log_probs(translator.model, whole, excluded=excluded(translator.config))
            - whole.log_probs
        )

    return Computation("changes", request, make)


def first_of_changes(view: View) -> list[Computation[Any] | Request]:
    """Return the computations for `draw_changes`, empty without edits."""
    return [view.original.request, changes_of(view)] if view.entry.ref.edits else []


def draw_changes(view: View, trace: Trace, whole: Trace) -> None:
    """Draw the original translation with each token's change, and the edited translation."""
    pair, changes = side_by_side(whole, trace), computed(view, changes_of(view))
    words = [*_without_loops(pair, trace, whole)]
    columns = [
        Column(
            [whole.predicted_tokens[at] for at in old.tokens],
            [float(whole.log_probs[at]) for at in old.tokens],
            [float(changes[at]) for at in old.tokens],
            new.text,
            old.text != new.text,
        )
        for old, new in words
    ]
    total = float(changes.sum(dtype=np.float64))
    show(beside_component(columns, total), key="changes")


def _without_loops(pair: SideBySide, trace: Trace, whole: Trace) -> Iterator[tuple[Word, Word]]:
    """Yield pairs of words, without the repetitions of a final loop."""
    left = [
        first_words(each, [words[side].text for words in pair.pairs if words[side].tokens])
        for side, each in enumerate((whole, trace))
    ]
    for words in pair.pairs:
        here = [bool(word.tokens) for word in words]
        if any(each and n > 0 for each, n in zip(here, left, strict=True)):
            yield words
        left = [n - each for each, n in zip(here, left, strict=True)]
    if min(left) < 0:
        yield Word(), Word("…")


def said_of_changes(view: View, trace: Trace, whole: Trace) -> str:
    """Describe the effect of the edits in Markdown."""
    total = float(computed(view, changes_of(view)).sum(dtype=np.float64))
    return linked(in_words(side_by_side(whole, trace), total), "nats")


def in_words(pair: SideBySide, total: float) -> str:
    """Describe where two translations diverge and how likely the original's words are now."""
    size = f"{abs(total):.{1 if abs(total) >= 0.095 else 2}f} nats"
    change = f"{size} {'less' if total < 0 else 'more'} likely"
    if abs(total) < _NONE:
        change = "just as likely"
    at = pair.parts_at
    if at is None:
        return f"Nothing changed: the same words, {change}."
    # A comma that moved to the word before says less than the word that is gone.
    said = [{"".join(filter(str.isalnum, word.text)) for word in words} for words in pair.pairs]
    at = next((n for n in range(at, len(said)) if len(said[n]) > 1), at)
    old, new = pair.pairs[at]
    return (
        f"The translations diverge at {pair.unit} {at + 1}: {_becomes(old, new)}. The original’s "
        f"words are {change}."
    )


def _becomes(old: Word, new: Word) -> str:
    def emphasised(word: Word) -> str:
        return f"*{plain(shorten(word.text, 24))}*"

    if not old.text:
        return f"{emphasised(new)} is added"
    return (
        f"{emphasised(old)} becomes {emphasised(new)}" if new.text else f"{emphasised(old)} is gone"
    )
