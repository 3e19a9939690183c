"""Heads of one model matched to the most alike of another, over a set of sentences.

The left model translates every sentence greedily and the right one follows the same translation, so
that rows mean the same in both. Each sentence's similarities are kept for every session, and the
traces in the one cache of traces, so that stopping loses one sentence at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import streamlit as st

from transformer.errors import InputError
from transformer.measures.compare import HeadPair, Reals, assign, similarity
from transformer.measures.words import maps_by_words
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats
from ui.compare.choice import Setup, can_follow, following
from ui.compare.maps.pairing import labels, partners
from ui.core.search_settings import ALPHA
from ui.core.view import View
from ui.work.cache import errors_on_page, get_tracer
from ui.work.progress import UNKNOWN, Progress, Report, attended, resume, stopped, unreported
from ui.work.results import once, trace

_Shape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Alike:
    """Similarities of the heads of two models on one sentence, for one kind of attention.

    Attributes:
        values: [A, B], similarity of every pair; heads are counted through all layers.
        rows: number of query words.
        shapes: (layers, heads) of the left and of the right.
    """

    values: Reals
    rows: int
    shapes: tuple[_Shape, _Shape]


_Kinds = Mapping[AttentionKind, Alike]


@dataclass(frozen=True, eq=False)
class Matching:
    """The assignment of the left model's heads to the right model's.

    Attributes:
        values: [A, B], mean similarity over all rows of all sentences; heads are counted through
            all layers.
        shapes: (layers, heads) of the left and of the right.
        pairs: the assignment with the largest sum; the side with more heads keeps some alone.
        sentences: number compared.
        left_out: number left out because the words of both models differ.
    """

    values: Reals
    shapes: tuple[_Shape, _Shape]
    pairs: tuple[HeadPair, ...]
    sentences: int
    left_out: int

    @property
    def mean(self) -> float:
        """Mean similarity of the matched pairs."""
        return float(np.mean([self.values[pair] for pair in self.pairs]))

    @property
    def in_place(self) -> float | None:
        """Mean similarity of heads of the same layer and number; None if there are none."""
        (layers, heads), (other_layers, other_heads) = self.shapes
        both = [
            self.values[layer * heads + head, layer * other_heads + head]
            for layer in range(min(layers, other_layers))
            for head in range(min(heads, other_heads))
        ]
        return float(np.mean(both)) if both else None


def sentences_for(setup: Setup) -> tuple[str, ...]:
    """Return the sentences to match over: both models' examples, each with its counterpart."""
    items = (*setup.left.examples.items, *setup.right.examples.items)
    every = (text for item in items for text in (item.sentence, item.beside) if text)
    return tuple(dict.fromkeys(every))


def work_of(setup: Setup) -> tuple[object, ...]:
    """Return the key of the work of matching these two models."""
    return ("match", _greedy(setup.left, "").request, _greedy(setup.right, "").request)


def get_matching(setup: Setup, kind: AttentionKind) -> Matching | None:
    """Return the matching, showing progress and a way to stop; None if nothing can be compared.

    If the user has stopped it, the page says so and None is returned.
    """
    work = work_of(setup)
    if stopped(work):
        st.info("Stopped. What was compared so far is kept.", icon=":material/stop_circle:")
        st.button("Go on matching", on_click=resume, key="compare_resume")
        return None
    get_tracer(setup.left)
    get_tracer(setup.right)
    progress = Progress(work, "Comparing sentence {step} of {most}")
    with errors_on_page():
        return attended(lambda report: matching(setup, kind, report), progress)


def matching(setup: Setup, kind: AttentionKind, report: Report = unreported) -> Matching | None:
    """`get_matching` without a session; None if no sentence can be compared.

    Args:
        report: called with (sentence, sentences) while it works; may raise to stop.
    """
    sentences = sentences_for(setup)
    found = []
    for number, sentence in enumerate(sentences, start=1):

        def at(step: int, most: int, number: int = number) -> None:
            report(number, len(sentences))

        found.append(alike(setup.left, setup.right, sentence, at).get(kind))
    if not any(found):  # a file of arrays holds one sentence, which is the one on screen
        found = [alike(setup.left, setup.right, setup.left.sentence, report).get(kind)]
    known = [each for each in found if each is not None]
    if not known:
        return None
    rows = sum(each.rows for each in known)
    values: Reals = np.sum([each.values * each.rows for each in known], axis=0) / rows
    pairs = assign(values)
    return Matching(values, known[0].shapes, pairs, len(known), len(found) - len(known))


def alike(left: View, right: View, sentence: str, report: Report) -> _Kinds:
    """The similarities of all heads on one sentence, of each kind that can be compared."""
    one, other = _greedy(left, sentence), _greedy(right, sentence)

    def make() -> _Kinds:
        try:
            first = trace(one.request, report)
            report(*UNKNOWN)
            followed = (
                following(other, first.text) if first.text.strip() and can_follow(other) else other
            )
            second = trace(followed.request, report)
        except InputError:
            return MappingProxyType({})  # a sentence that one of them does not take
        report(*UNKNOWN)
        return MappingProxyType(compared(first, second, report=report))

    return once(("alike", one.request, other.request), make, report)


def compared(
    left: Trace,
    right: Trace,
    *,
    by_place: bool = False,
    report: Report = unreported,
) -> dict[AttentionKind, Alike]:
    """How alike all heads are, for each kind whose words line up (see `compare_maps.fit_of`).

    `report` is called after every layer of the left; it may raise to stop.
    """
    found = {}
    for kind in ATTENTION_KINDS:
        if not (left.attention(kind).size and right.attention(kind).size):
            continue
        one, other = by_words(left, kind), by_words(right, kind)
        sides = zip(axes(left, kind), axes(right, kind), strict=True)
        if one is None or other is None or not all(partners(*both, by_place) for both in sides):
            continue
        heads, layers = other.reshape(-1, *other.shape[2:]), []
        for layer in one:
            layers.append(similarity(layer, heads))
            report(*UNKNOWN)
        shapes = (one.shape[0], one.shape[1]), (other.shape[0], other.shape[1])
        found[kind] = Alike(np.concatenate(layers), one.shape[-2], shapes)
    return found


def by_words(trace: Trace, kind: AttentionKind) -> Floats | None:
    """The maps of one kind between words, [L, H, n, m]; None if there are none."""
    if not trace.attention(kind).size:
        return None
    return maps_by_words(trace, kind).weights


def axes(trace: Trace, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of rows and of columns."""
    queries = "source" if kind == "encoder_self" else "target"
    keys = "target" if kind == "decoder_self" else "source"
    return labels(trace, queries, "words"), labels(trace, keys, "words")


def _greedy(view: View, sentence: str) -> View:
    """Return the view of a sentence translated greedily by its model alone."""
    return replace(
        view, sentence=sentence, beam_size=1, alpha=ALPHA.default, prefix=(), target=None,
        sampling=None,
    )  # fmt: skip
