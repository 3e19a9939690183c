"""The numbers of both sides: published scores, and each other's log-probabilities."""

from __future__ import annotations

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

#: A metrics.json may come from anywhere: so many rows of it are shown.
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
        name, known = f"{text}_by_{model}", dict(source.arguments)
        languages = {each: repr(known[each]) for each in ("src_lang", "tgt_lang") if each in known}
        following = source.traced(f"model_{model}", name, target=f"{text}.text", **languages)
        program += f"{name} = None\n" if view is None else following
    made = compared_numbers(left, right, one, other, by_place=by_place)
    return both.figure(made, compared_numbers, program, by_place=by_place)


def _get_agreements(setup: Setup, left: Trace, right: Trace) -> Agreements:
    """Return `head_agreements`, made once, with progress shown and a way to stop."""
    by_place = setup.by_place
    work = ("agreements", *(view.request for view in setup.views), right.forced, by_place)

    def make(report: Report) -> Agreements:
        return head_agreements(left, right, by_place=by_place, report=lambda: report(*UNKNOWN))

    return run(work, make, WORKING)


def _following_views(setup: Setup, left: Trace, right: Trace) -> list[View | None]:
    """Return the views of A over B's text and of B over A's; None without a text to follow."""
    sides = (setup.left, right.text), (setup.right, left.text)
    return [
        following(view, text) if text.strip() and can_follow(view) else None for view, text in sides
    ]


def _draw_crossed(setup: Setup, totals: Reals, words: Sequence[int]) -> None:
    st.markdown("**How each model scores the other's translation**")
    given = "given sentence " if setup.pairing == "sentences" else "by "
    names = f"{given}A", f"{given}B"
    rows: dict[str, list[str]] = {"log p of": [], names[0]: [], names[1]: []}
    for letter, row, n_words in zip(LETTERS, totals, words, strict=True):
        rows["log p of"].append(f"{letter}’s translation")
        for name, total in zip(names, row, strict=True):
            per_word = total / max(1, n_words)
            rows[name].append(
                "–" if math.isnan(total) else f"{signed(total)} ({signed(per_word)} a word)"
            )
    st.table(rows, border="horizontal", hide_index=True)
    said = "log p in nats, `</s>` included; each side also follows the other one's translation "
    said += "(teacher forcing)."
    if setup.pairing == "models":
        said += (
            " Vocabularies cut words into more or fewer pieces, so compare sums, or figures a word."
        )
    st.caption(linked(said, "log p", "nats", "teacher forcing"))


def _draw_agreement(agreed: Agreements, n_kinds: int) -> None:
    st.markdown("**Agreement of attention on this sentence**")
    if agreed:
        st.table(
            {
                "kind": [KIND_NAMES[kind] for kind in agreed],
                "mean of all heads": [f"{each.mean:.3f}" for each in agreed.values()],
                "heads, matched": [f"{each.matched:.3f}" for each in agreed.values()],
            },
            border="horizontal",
            hide_index=True,
        )
    missing = n_kinds - len(agreed)
    left_out = "" if not missing else (
        f" {missing} of {n_kinds} kinds {'is' if missing == 1 else 'are'} left out: the sides do "
        "not have the same words."
    )  # fmt: skip
    st.caption(f"{SIMILARITY_RULE} Over whole words; B follows A's translation.{left_out}")


def _draw_published(setup: Setup) -> None:
    figures = [published(view.entry.metrics) for view in setup.views]
    st.markdown("**Published scores**")
    rows = list(dict.fromkeys((*figures[0], *figures[1])))[:_MOST_ROWS]
    if not rows:
        st.caption("Neither model comes with scores (metrics.json).")
        return
    table = {
        "test set": [plain(TEXTS.get(test, test)) for test, _ in rows],
        "measure": [measure for _, measure in rows],
    }
    for letter, view, side in zip(LETTERS, setup.views, figures, strict=True):
        table[f"{letter} {plain(shorten(view.title, 40))}"] = [side.get(row, "–") for row in rows]
    st.table(table, border="horizontal", hide_index=True)
    st.caption(
        "From each model's metrics.json, with the setting of each. Only scores on the same "
        "test set by the same measure can be compared."
    )


def published(metrics: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Map (test set, measure) to figure and setting, of the default decoding if it has one."""
    found: dict[tuple[str, str], str] = {}
    for record in records(metrics) if isinstance(metrics, Mapping) else ():
        letters = record.name.startswith("reverse")
        for name, measure in _MEASURES if record.kind == TESTS else ():
            if letters == (name == "exact_match") and (words := record.words(name)):
                cell = f"{words[0].split()[0]} ({plain(shorten(record.setting, 40))})"
                found.setdefault((shorten(record.name, 40), measure), cell)
    return found


NUMBERS = Beside(
    name="numbers", title="Numbers", below=_draw, settings=None, everywhere=True, follows=True
)
