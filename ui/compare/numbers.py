"""Published scores of both models, and both translations' log-probabilities."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from figures.compare import LETTERS
from figures.exhibit import Exhibit, file_stem
from figures.labels import KIND_NAMES, plain, shorten, signed
from transformer.evaluation.records import TESTS, TEXTS, records
from transformer.measures.compare import SIMILARITY_RULE, HeadAgreement, head_agreements
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Reals, Report
from transformer.worker.job import UNKNOWN
from ui.compare.choice import can_follow, compared
from ui.compare.exhibits import compared_numbers, crossed
from ui.compare.texts import text_of
from ui.core.glossary import linked
from ui.core.view import View
from ui.export.download import trace_for
from ui.frame.beside import Beside, Download, Pair, Setup, following
from ui.head.choice import shared_kinds
from ui.work.desk import WORKING, get_trace, run

Agreements = Mapping[AttentionKind, HeadAgreement]

#: Maximum rows shown from a metrics.json, which may come from any source.
_MOST_ROWS = 12

_MEASURES = (
    ("bleu", "sacreBLEU, cased"),
    ("lc_tok_bleu", "lc_tok_bleu"),
    ("chrf", "chrF"),
    ("exact_match", "exactly right"),
)


def _draw(pair: Pair) -> Download:
    setup, (left, right) = pair.setup, (side.trace for side in pair.sides)
    views = _following_views(setup, left, right)
    b_by_a, a_by_b = (None if view is None else get_trace(view) for view in views)
    agreed = _get_agreements(setup, left, a_by_b or right)
    first, second = st.columns(2, gap="large")
    with first.container():
        words = [len(text_of(trace).words) for trace in (left, right)]
        _draw_crossed(setup, crossed(left, right, b_by_a, a_by_b), words)
    with second.container():
        _draw_agreement(agreed, len(shared_kinds((left, right))))
    if setup.pairing == "models":
        _draw_published(setup)
    return Download(partial(_figure, setup), file_stem("compare numbers"))


def _figure(setup: Setup) -> Exhibit:
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


def _get_agreements(setup: Setup, left: Trace, right: Trace) -> Agreements:
    by_place = setup.by_place
    work = ("agreements", *(view.request for view in setup.views), right.forced, by_place)

    def make(report: Report) -> Agreements:
        return head_agreements(left, right, by_place=by_place, report=lambda: report(*UNKNOWN))

    return run(work, make, WORKING)


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
    name="numbers", title="Numbers", below=_draw, settings=None, everywhere=True, follows=True
)
