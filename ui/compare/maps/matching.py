"""Heads of one model matched to the most alike of another, over a set of sentences.

The left model translates every sentence greedily and the right one follows the same translation, so
that rows mean the same in both. Each sentence's similarities are kept for every session, and the
traces in the one cache of traces, so that stopping loses one sentence at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import streamlit as st

from transformer.errors import InputError
from transformer.measures.agreement import HeadAgreement, Matching, head_agreements, match
from transformer.types import AttentionKind
from ui.compare.choice import Setup, can_follow, following
from ui.core.search_settings import ALPHA
from ui.core.view import View
from ui.export.download import source_of
from ui.export.programs import Source
from ui.work.cache import errors_on_page, get_tracer
from ui.work.progress import UNKNOWN, Progress, Report, attended, resume, stopped, unreported
from ui.work.results import once, trace

_Kinds = Mapping[AttentionKind, HeadAgreement]


def sentences_for(setup: Setup) -> tuple[str, ...]:
    """Return the sentences to match over: both models' examples, each with its counterpart.

    A file of arrays holds one sentence only.
    """
    if "archive" in (setup.left.kind, setup.right.kind):
        return tuple(dict.fromkeys((setup.left.sentence, setup.right.sentence)))
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

        found.append(_alike(setup.left, setup.right, sentence, at).get(kind))
    return match(found)


def greedy_sources(setup: Setup) -> tuple[list[Source], list[Source]]:
    """Return what both models are asked for in `matching`, for its program."""
    left, right = (
        [source_of(_greedy(view, sentence)) for sentence in sentences_for(setup)]
        for view in (setup.left, setup.right)
    )
    return left, right


def _alike(left: View, right: View, sentence: str, report: Report) -> _Kinds:
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
        found = head_agreements(first, second, report=lambda: report(*UNKNOWN))
        return MappingProxyType(found)

    return once(("alike", one.request, other.request), make, report)


def _greedy(view: View, sentence: str) -> View:
    """Return the view of a sentence translated greedily by its model alone."""
    return replace(
        view, sentence=sentence, beam_size=1, alpha=ALPHA.default, prefix=(), target=None,
        sampling=None,
    )  # fmt: skip
