"""Views of Compare about models: Numbers, and Heads matched.

Numbers are published scores and both translations' log-probabilities. Heads are matched by
similarity: the left model translates each example greedily, and the right model follows that
translation, so that both have the same rows. Similarities are cached per sentence for all sessions,
so stopping loses at most one sentence.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import streamlit as st

from figures.attention import LETTERS
from figures.exhibit import Exhibit, file_stem
from figures.labels import KIND_NAMES, count, plain, shorten, signed
from transformer.evaluation.records import TESTS, TEXTS, records
from transformer.measures.compare import (
    SIMILARITY_RULE,
    HeadAgreement,
    HeadPair,
    Matching,
    head_agreements,
    match,
)
from transformer.trace.records import Trace
from transformer.types import AttentionKind, InputError, Reals, Report
from transformer.worker.job import UNKNOWN, part, report
from ui.attention.against import draw_keys
from ui.compare.attention import PARAMS, Both, choose, draw_lens, open_maps
from ui.compare.choice import can_follow, compared
from ui.compare.exhibits import compared_numbers, crossed, likeness, matched_heads, matching_exhibit
from ui.compare.texts import text_of
from ui.components.match import head_name
from ui.components.mount import show
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.url_state import HEAD, LAYER
from ui.core.view import OTHER_HEAD, OTHER_LAYER, SearchChoice, View
from ui.core.widgets import filled
from ui.export.download import source_of, trace_for
from ui.frame.beside import Beside, Download, Pair, Setup, following
from ui.head.views import shared_kinds
from ui.work import desk
from ui.work.results import once, trace

Agreements = Mapping[AttentionKind, HeadAgreement]

#: Maximum rows shown from a metrics.json, which may come from any source.
_MOST_ROWS = 12

_MEASURES = (
    ("bleu", "sacreBLEU, cased"),
    ("lc_tok_bleu", "lc_tok_bleu"),
    ("chrf", "chrF"),
    ("exact_match", "exactly right"),
)


def _draw_numbers(pair: Pair) -> Download:
    setup, (left, right) = pair.setup, (side.trace for side in pair.sides)
    views = _following_views(setup, left, right)
    b_by_a, a_by_b = (None if view is None else desk.get_trace(view) for view in views)
    follower, by_place = a_by_b or right, setup.by_place
    work = ("agreements", *(view.request for view in setup.views), follower.forced, by_place)

    def make(report: Report) -> Agreements:
        return head_agreements(left, follower, by_place=by_place, report=lambda: report(*UNKNOWN))

    agreed = desk.run(work, make, desk.WORKING)
    first, second = st.columns(2, gap="large")
    with first.container():
        words = [len(text_of(trace).words) for trace in (left, right)]
        _draw_crossed(setup, crossed(left, right, b_by_a, a_by_b), words)
    with second.container():
        _draw_agreement(agreed, len(shared_kinds((left, right))))
    if setup.pairing == "models":
        _draw_published(setup)
    return Download(partial(_numbers_figure, setup), file_stem("compare numbers"))


def _numbers_figure(setup: Setup) -> Exhibit:
    left, right = trace_for(setup.left), trace_for(setup.right)
    views, both = _following_views(setup, left, right), compared(setup)
    one, other = (None if view is None else trace_for(view) for view in views)
    by_place, program = setup.by_place, "\n"
    for view, source, model, text in zip(views, both.sources, "ab", "ba", strict=True):
        name, arguments = f"{text}_by_{model}", dict(source.arguments)
        languages = {
            key: repr(arguments[key]) for key in ("src_lang", "tgt_lang") if key in arguments
        }
        traced = source.traced(f"model_{model}", name, target=f"{text}.text", **languages)
        program += f"{name} = None\n" if view is None else traced
    exhibit = compared_numbers(left, right, one, other, by_place=by_place)
    return both.figure(exhibit, compared_numbers, program, by_place=by_place)


def _following_views(setup: Setup, left: Trace, right: Trace) -> list[View | None]:
    """Return the views of A following B's text and B following A's; None if impossible."""
    sides = (setup.left, right.text), (setup.right, left.text)
    return [
        following(view, text) if text.strip() and can_follow(view) else None for view, text in sides
    ]


def _draw_crossed(setup: Setup, totals: Reals, words: Sequence[int]) -> None:
    st.markdown("**Scores of both translations under both models**")
    prefix = "given sentence " if setup.pairing == "sentences" else "by "
    names = f"{prefix}A", f"{prefix}B"
    rows: dict[str, list[str]] = {"log p of": [], names[0]: [], names[1]: []}
    for letter, row, n_words in zip(LETTERS, totals, words, strict=True):
        rows["log p of"].append(f"{letter}’s translation")
        for name, total in zip(names, row, strict=True):
            per_word = total / max(1, n_words)
            rows[name].append(
                "–" if math.isnan(total) else f"{signed(total)} ({signed(per_word)} per word)"
            )
    st.table(rows, border="horizontal", hide_index=True)
    text = "log p in nats, including `</s>`; each side also follows the other side's translation "
    text += "(teacher forcing)."
    if setup.pairing == "models":
        text += " Vocabularies split words differently, so compare sums or values per word."
    st.caption(linked(text, "log p", "nats", "teacher forcing"))


def _draw_agreement(agreed: Agreements, n_kinds: int) -> None:
    st.markdown("**Agreement of attention on this sentence**")
    if agreed:
        table = {
            "kind": [KIND_NAMES[kind] for kind in agreed],
            "mean of all heads": [f"{agreement.mean:.3f}" for agreement in agreed.values()],
            "heads, matched": [f"{agreement.matched:.3f}" for agreement in agreed.values()],
        }
        st.table(table, border="horizontal", hide_index=True)
    missing = n_kinds - len(agreed)
    left_out = "" if not missing else (
        f" {missing} of {n_kinds} kinds {'is' if missing == 1 else 'are'} left out, since A and B "
        "have different words."
    )  # fmt: skip
    st.caption(f"{SIMILARITY_RULE} Over whole words; B follows A's translation.{left_out}")


def _draw_published(setup: Setup) -> None:
    scores = [published(view.entry.metrics) for view in setup.views]
    st.markdown("**Published scores**")
    rows = list(dict.fromkeys((*scores[0], *scores[1])))[:_MOST_ROWS]
    if not rows:
        st.caption("Neither model has published scores (metrics.json).")
        return
    table = {
        "test set": [plain(TEXTS.get(test, test)) for test, _ in rows],
        "measure": [measure for _, measure in rows],
    }
    for letter, view, side in zip(LETTERS, setup.views, scores, strict=True):
        table[f"{letter} {plain(shorten(view.title, 40))}"] = [side.get(row, "–") for row in rows]
    st.table(table, border="horizontal", hide_index=True)
    st.caption(
        "From each model's metrics.json, with its setting. Compare only scores on the same test "
        "set by the same measure."
    )


def published(metrics: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Map (test set, measure) to score and setting, preferring the default decoding."""
    scores: dict[tuple[str, str], str] = {}
    for record in records(metrics) if isinstance(metrics, Mapping) else ():
        letters = record.name.startswith("reverse")
        for name, measure in _MEASURES if record.kind == TESTS else ():
            if letters == (name == "exact_match") and (words := record.words(name)):
                cell = f"{words[0].split()[0]} ({plain(shorten(record.setting, 40))})"
                scores.setdefault((shorten(record.name, 40), measure), cell)
    return scores


NUMBERS = Beside(
    name="numbers", title="Numbers", below=_draw_numbers, settings=None, everywhere=True,
    follows=True,
)  # fmt: skip


def sentences_for(setup: Setup) -> tuple[str, ...]:
    """Return the sentences to match over: both models' examples and their counterparts."""
    if "archive" in (setup.left.kind, setup.right.kind):  # with one sentence
        return tuple(dict.fromkeys((setup.left.sentence, setup.right.sentence)))
    items = (*setup.left.examples.items, *setup.right.examples.items)
    texts = (text for item in items for text in (item.sentence, item.beside) if text)
    return tuple(dict.fromkeys(texts))


def matching(setup: Setup, kind: AttentionKind) -> Matching | None:
    """Match two models' heads, or return None if no sentence can be compared.

    Needs no session; reports (sentences done, all sentences).
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
    desk.end_where_stopped(work, "Continue matching")
    for view in setup.views:
        desk.get_tracer(view)
    progress = desk.Progress(work, "Comparing sentence {step} of {most}")
    with desk.errors_on_page():
        result = desk.attend(lambda: matching(setup, kind), progress)
    if result is None:
        st.info("No sentence has the same words in both models, so heads cannot be compared.")
    return result


def _draw_matching(pair: Pair) -> Download | None:
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
        pair.rows(
            lambda side: draw_lens(of_pair, side, side.key("compare_pair"), 380),
            lambda side: draw_keys(side.view, of_pair.of(side)[0], side.key("compare_pair_every")),
        )
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
    return Download(partial(_matching_figure, setup, both.kind, chosen), name)


def _matching_figure(setup: Setup, kind: AttentionKind, chosen: HeadPair) -> Exhibit:
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
    name="heads", title="Heads matched", below=_draw_matching, settings=None, params=PARAMS,
    everywhere=True, follows=True,
)  # fmt: skip
