"""The numbers of both sides: published scores, and each other's log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from figures.markdown import code, plain, shorten
from figures.numbers import signed
from transformer.measures.compare import SIMILARITY_RULE, assign, similarity
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.maps import KIND_TEXTS
from ui.compare.choice import Setup, can_follow, following, shared_kinds
from ui.compare.maps.matching import by_words, compared
from ui.compare.texts import text_of
from ui.core.view import View
from ui.work import results
from ui.work.cache import end_where_stopped, get_trace
from ui.work.lru import acquired
from ui.work.progress import WORKING, Progress, Report, attended

#: A metrics.json may come from anywhere: so many rows of it are shown.
_MOST_ROWS = 12

_MEASURES = (
    ("bleu", "sacreBLEU, cased"),
    ("lc_tok_bleu", "lc_tok_bleu"),
    ("chrf", "chrF"),
    ("exact_match", "exactly right"),
)


@dataclass(frozen=True)
class Crossed:
    """log P of each side's translation under each side's model, in nats.

    Attributes:
        totals: [text of A, text of B] x [A, B]; NaN if a side cannot follow a text.
        words: number of words of each text.
    """

    totals: tuple[tuple[float, float], tuple[float, float]]
    words: tuple[int, int]


@dataclass(frozen=True)
class Agreement:
    """Similarity of the maps of one kind on this sentence.

    Attributes:
        kind: of attention.
        mean: similarity of the two means over all heads.
        matched: mean similarity of heads paired by assignment.
    """

    kind: AttentionKind
    mean: float
    matched: float


def crossed_views(setup: Setup, left: Trace, right: Trace) -> tuple[View, View]:
    """Return the views of A following B's text, and of B following A's."""
    return following(setup.left, right.text), following(setup.right, left.text)


def cross(left: Trace, right: Trace, b_by_a: Trace | None, a_by_b: Trace | None) -> Crossed:
    """The table of log-probabilities, from the sides' own traces and each other's followed."""
    nothing = math.nan
    return Crossed(
        (
            (_total(left), nothing if a_by_b is None else _total(a_by_b)),
            (nothing if b_by_a is None else _total(b_by_a), _total(right)),
        ),
        (len(text_of(left).words), len(text_of(right).words)),
    )


def agreements(
    left: Trace,
    right: Trace,
    *,
    by_place: bool = False,
    report: Report = lambda step, most: None,
) -> list[Agreement]:
    """For each kind whose words line up (see `fit_of`). `right` follows the left's translation.

    `report` is called now and then; it may raise to stop.
    """
    found = []
    for kind, alike in compared(left, right, by_place=by_place, report=report).items():
        one, other = by_words(left, kind), by_words(right, kind)
        assert one is not None and other is not None
        means = [maps.mean(axis=(0, 1), dtype="f8").astype("f4")[None] for maps in (one, other)]
        pairs = assign(alike.values)
        matched = sum(float(alike.values[pair]) for pair in pairs) / len(pairs)
        found.append(Agreement(kind, float(similarity(means[0], means[1])[0, 0]), matched))
    return found


def draw_numbers(setup: Setup, left: Trace, right: Trace) -> None:
    """All tables."""
    b_by_a, a_by_b = _followed(setup, left, right)
    crossed = cross(left, right, b_by_a, a_by_b)
    agreed = _get_agreements(setup, left, right if a_by_b is None else a_by_b)
    first, second = st.columns(2, gap="large")
    with first.container():
        _draw_crossed(setup, crossed)
    with second.container():
        _draw_agreement(setup, agreed, len(shared_kinds(left, right)))
    if setup.pairing == "models":
        _draw_published(setup)


def _get_agreements(setup: Setup, left: Trace, right: Trace) -> list[Agreement]:
    """`agreements`, made once, with progress shown and a way to stop."""
    by_place = setup.pairing == "sentences"
    work = ("agreements", setup.left.request, setup.right.request, right.forced, by_place)
    end_where_stopped(work, "Go on")
    found: list[Agreement] | None = results.CACHE.get(work)
    if found is not None:
        return found

    def make(report: Report) -> list[Agreement]:
        with acquired(results.PERMITS, lambda: report(0, 0)):
            return agreements(left, right, by_place=by_place, report=report)

    return attended(
        lambda report: results.once(work, lambda: make(report), report), Progress(work, WORKING)
    )


def _followed(setup: Setup, left: Trace, right: Trace) -> tuple[Trace | None, Trace | None]:
    """Return the traces of A over B's text and of B over A's; None without a text to follow."""
    texts = right.text, left.text
    found = [
        get_trace(view) if text.strip() and can_follow(view) else None
        for view, text in zip(crossed_views(setup, left, right), texts, strict=True)
    ]
    return found[0], found[1]


def _draw_crossed(setup: Setup, crossed: Crossed) -> None:
    st.markdown("**Each other's translation**")
    given = "given sentence " if setup.pairing == "sentences" else "by "
    names = f"{given}A", f"{given}B"
    rows: dict[str, list[str]] = {"log P of": [], names[0]: [], names[1]: []}
    for index, totals in enumerate(crossed.totals):
        rows["log P of"].append(f"{'AB'[index]}’s translation")
        for name, total in zip(names, totals, strict=True):
            per_word = total / max(1, crossed.words[index])
            rows[name].append(
                "–" if math.isnan(total) else f"{signed(total)} ({signed(per_word)} a word)"
            )
    st.table(rows, border="horizontal", hide_index=True)
    said = "In nats, `</s>` included; each side also follows the other one's translation (teacher "
    said += "forcing)."
    if setup.pairing == "models":
        said += (
            " Vocabularies cut words into more or fewer pieces, so compare sums, or figures a word."
        )
    st.caption(said)


def _draw_agreement(setup: Setup, agreed: Sequence[Agreement], n_kinds: int) -> None:
    st.markdown("**Agreement of attention on this sentence**")
    if agreed:
        st.table(
            {
                "kind": [KIND_TEXTS[each.kind].name for each in agreed],
                "mean of all heads": [f"{each.mean:.3f}" for each in agreed],
                "heads, matched": [f"{each.matched:.3f}" for each in agreed],
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
    """Draw the test scores in each side's metrics.json, if there are any."""
    views = (setup.left, setup.right)
    figures = [published(view.entry.metrics) for view in views]
    st.markdown("**Measured by their makers**")
    rows = list(dict.fromkeys((*figures[0], *figures[1])))
    if not rows:
        st.caption("Neither checkpoint brings figures of its own (metrics.json).")
        return
    names = _headings(setup)
    st.table(
        {
            "test set": [plain(test) for test, _ in rows[:_MOST_ROWS]],
            "measure": [measure for _, measure in rows[:_MOST_ROWS]],
            **{
                name: [side.get(row, "–") for row in rows[:_MOST_ROWS]]
                for name, side in zip(names, figures, strict=True)
            },
        },
        border="horizontal",
        hide_index=True,
    )
    st.caption(
        "From each checkpoint's metrics.json, decoded as its card says; only figures of the same "
        "test set and measure compare."
    )


def published(metrics: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """(test set, measure) to the figure, as far as a metrics.json says it as ours do."""
    tests = metrics.get("tests") if isinstance(metrics, Mapping) else None
    found: dict[tuple[str, str], str] = {}
    for test, values in tests.items() if isinstance(tests, Mapping) else ():
        if not isinstance(values, Mapping):
            continue
        letters = str(test).startswith("reverse")
        for name, measure in _MEASURES:
            value = values.get(name)
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if not math.isfinite(value) or letters != (name == "exact_match"):
                continue
            shown = f"{100 * value:.1f}%" if name == "exact_match" else f"{value:.1f}"
            found[shorten(str(test), 40), measure] = shown
    return found


def _headings(setup: Setup) -> tuple[str, str]:
    """Column titles, different ones."""
    return f"A {code(setup.left.checkpoint, 30)}", f"B {code(setup.right.checkpoint, 30)}"


def _total(trace: Trace) -> float:
    return text_of(trace).total
