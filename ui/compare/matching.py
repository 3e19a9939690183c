"""Heads of two models matched by similarity, and a chosen pair side by side.

The left model translates each example greedily, and the right model follows that translation, so
that both have the same rows. Similarities are cached per sentence for all sessions, so stopping
loses at most one sentence.
"""

from dataclasses import replace
from functools import partial
from types import MappingProxyType

import streamlit as st

from figures.exhibit import Exhibit, file_stem
from figures.labels import KIND_NAMES, count
from transformer.errors import InputError
from transformer.measures.compare import SIMILARITY_RULE, HeadPair, Matching, head_agreements, match
from transformer.types import AttentionKind
from transformer.worker.job import UNKNOWN, part, report
from ui.compare.attention import PARAMS, Both, choose, draw_lens, open_maps
from ui.compare.choice import can_follow, compared
from ui.compare.exhibits import likeness, matched_heads, matching_exhibit
from ui.compare.numbers import Agreements
from ui.components.match import head_name
from ui.components.mount import show
from ui.core import url_state
from ui.core.side import OTHER_HEAD, OTHER_LAYER
from ui.core.url_state import HEAD, LAYER
from ui.core.view import SearchChoice, View
from ui.core.widgets import filled
from ui.export.download import source_of
from ui.frame.beside import Beside, Download, Pair, Setup, following
from ui.work.desk import Progress, attend, end_where_stopped, errors_on_page, get_tracer
from ui.work.results import once, trace


def sentences_for(setup: Setup) -> tuple[str, ...]:
    """Return the sentences to match over: both models' examples and their counterparts."""
    if "archive" in (setup.left.kind, setup.right.kind):  # with one sentence
        return tuple(dict.fromkeys((setup.left.sentence, setup.right.sentence)))
    items = (*setup.left.examples.items, *setup.right.examples.items)
    texts = (text for item in items for text in (item.sentence, item.beside) if text)
    return tuple(dict.fromkeys(texts))


def matching(setup: Setup, kind: AttentionKind) -> Matching | None:
    """Match two models' heads, or return None if no sentence can be compared.

    It needs no session, and reports (sentence, sentences).
    """
    sentences = sentences_for(setup)
    agreements = []
    for number, sentence in enumerate(sentences, start=1):
        with part(number, len(sentences)):
            agreements.append(_alike(setup, sentence).get(kind))
    return match(agreements)


def _alike(setup: Setup, sentence: str) -> Agreements:
    one, other = (_greedy(view, sentence) for view in setup.views)

    def make() -> Agreements:
        try:
            first = trace(one.request)
            follows = first.text.strip() and can_follow(other)
            followed = following(other, first.text) if follows else other
            second = trace(followed.request)
        except InputError:
            return MappingProxyType({})  # a model rejects the sentence
        return MappingProxyType(head_agreements(first, second, report=lambda: report(*UNKNOWN)))

    return once(("alike", one.request, other.request), make)


def _greedy(view: View, sentence: str) -> View:
    return replace(
        view, sentence=sentence, beam_size=1, alpha=SearchChoice().alpha, prefix=(), target=None,
        sampling=None,
    )  # fmt: skip


def _get_matching(setup: Setup, kind: AttentionKind) -> Matching | None:
    work = ("match", *(_greedy(view, "").request for view in setup.views))
    end_where_stopped(work, "Continue matching")
    for view in setup.views:
        get_tracer(view)
    progress = Progress(work, "Comparing sentence {step} of {most}")
    with errors_on_page():
        result = attend(lambda: matching(setup, kind), progress)
    if result is None:
        st.info("The models have the same words in no sentence, so heads cannot be compared.")
    return result


def _draw(pair: Pair) -> Download | None:
    both, setup = open_maps(pair, "matrix", displays=False), pair.setup
    if both is None:
        return None
    if setup.pairing == "sentences":
        st.info("Matching requires two models. Choose “Two models” above.", icon=":material/info:")
        return None
    result = _get_matching(setup, both.kind)
    if result is None:
        return None
    chosen = _chosen_pair(both, result)
    table, maps = st.columns([0.33, 0.67], gap="large")
    with table.container():
        text = f"**{len(result.pairs)} pairs of heads, mean similarity {result.mean:.2f}**"
        if result.in_place is not None:
            text += f"; heads in the same place: {result.in_place:.2f}."
        st.markdown(text)
        matches = likeness(result, both.kind, setup.names).component(chosen)
        show(matches, key="compare_match", on_choose=lambda pair: _choose_pair(pair, result))
    with maps.container():
        _pair_box(result, chosen)
        choices = [
            replace(choice, cell=divmod(at, shape[1]))
            for choice, at, shape in zip(both.choices, chosen, result.shapes, strict=True)
        ]
        of_pair = replace(both, choices=(choices[0], choices[1]))
        pair.rows(lambda side: draw_lens(of_pair, side, side.key("compare_pair"), 380))
    left_out = (
        f" {result.left_out} more were left out, because the two models have different words."
        if result.left_out else ""
    )  # fmt: skip
    st.caption(
        f"{SIMILARITY_RULE} Over whole words of {count(result.sentences, 'example sentence')}, "
        "with equal weight for each row; B follows A's greedy translations. The matching has the "
        f"largest sum of similarities.{left_out}"
    )
    name = file_stem("heads matched", KIND_NAMES[both.kind])
    return Download(partial(_figure, setup, both.kind, chosen), name)


def _figure(setup: Setup, kind: AttentionKind, chosen: HeadPair) -> Exhibit:
    left, right = (
        [source_of(_greedy(view, sentence)) for sentence in sentences_for(setup)]
        for view in setup.views
    )
    return compared(setup).figure(
        matching_exhibit(matching(setup, kind), kind, setup.names, chosen), matched_heads,
        kind=kind, names=setup.names, chosen=chosen, follow=can_follow(setup.right),
        sentences=[(one.sentence, two.sentence) for one, two in zip(left, right, strict=True)],
        arguments=(dict(left[0].arguments), dict(right[0].arguments)),
    )  # fmt: skip


def _chosen_pair(both: Both, result: Matching) -> HeadPair:
    at = [
        cell[0] * shape[1] + cell[1] if cell[0] is not None and cell[1] is not None else None
        for cell, shape in zip((side.cell for side in both.choices), result.shapes, strict=True)
    ]
    if at[0] is not None and at[1] is not None and url_state.get(OTHER_LAYER) != "same":
        return at[0], at[1]
    best = max(result.pairs, key=lambda pair: result.values[pair])
    return next((pair for pair in result.pairs if pair[0] == at[0]), best)


def _choose_pair(pair: HeadPair, result: Matching) -> None:
    one, other = (divmod(at, shape[1]) for at, shape in zip(pair, result.shapes, strict=True))
    choose((LAYER, HEAD), one)
    choose((OTHER_LAYER, OTHER_HEAD), other)


def _pair_box(result: Matching, pair: HeadPair) -> None:
    """Draw a box of pairs, most similar first, for the keyboard and for small screens."""
    ordered = sorted(result.pairs, key=lambda listed: -result.values[listed])

    def named(listed: HeadPair) -> str:
        one, other = (head_name(at, shape) for at, shape in zip(listed, result.shapes, strict=True))
        matched = "" if listed in ordered else ", not matched"
        return f"A {one} and B {other}: {result.values[listed]:.3f}{matched}"

    st.selectbox(
        "Pair of heads, most similar first", ordered if pair in ordered else [pair, *ordered],
        format_func=named, label_visibility="collapsed",
        **filled("compare_pair_box", pair, lambda listed: _choose_pair(listed, result)),
    )  # fmt: skip


MATCHING = Beside(
    name="heads", title="Heads matched", below=_draw, settings=None, params=PARAMS,
    everywhere=True, follows=True,
)  # fmt: skip
