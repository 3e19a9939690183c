"""Studies in words: a page of Markdown with tables for each model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from transformer.study.importance import agreement
from transformer.study.records import Finding, Study
from transformer.study.roles import MIN_PAIRS
from transformer.types import AttentionKind

#: Roles listed that no head has, and words of the corpus for each of their trials at most.
_MOST, _RARE = 12, 100
_KINDS: dict[AttentionKind, str] = {
    "encoder_self": "encoder", "decoder_self": "decoder", "cross": "cross-attention",
}  # fmt: skip
_MEASURES = {
    "gradient": "slope of the loss", "removal": "single removal", "bleu": "BLEU lost",
    "order": "order of pruning", "sharpness": "sharpness",
}  # fmt: skip
_HEADER = """# What the heads do

<!-- Written by `python -m transformer study checkpoints/NAME ... --page docs/heads.md` -->

Each first table lists the heads of one model that have a named role. A *score* is the share of
pairs in which the head looks at the right word, with its 95% interval over documents. The *bar* is
the highest control on the same pairs: the best fixed distance, the nearest occurrence of one fixed
word, the word at which the head looks from all other words, and the best head of the same kind with
random weights; for a role that needs no annotation, one half and the random weights. A role is
named where the whole interval lies above the bar and the paired test against the best distance has
p < 0.05 after Holm's correction over all heads and roles. `transformer/study` defines every role,
control and test; `python -m transformer study` repeats them for any model and corpus.
"""


def percent(share: float) -> str:
    """Return a share as a whole number of percent."""
    return f"{100 * share:.0f}%"


def named(study: Study) -> list[Finding]:
    """Return the named roles of all heads, the clearest of each first."""
    every = (each for head in study.heads for each in study.findings(head))
    return [each for each in every if each.named]


def nearest(study: Study) -> list[Finding]:
    """Return, for roles that no head has, the head nearest to its bar; rare roles are left out."""
    found = []
    for role in study.roles:
        every = study.in_role(role)
        if every and not every[0].named and every[0].pairs * _RARE >= study.n_words:
            found.append(every[0])
    return sorted(found, key=lambda each: each.margin, reverse=True)


def markdown(studies: Sequence[Study]) -> str:
    """Return one page about several studies."""
    return _HEADER + "".join(section(study) for study in studies)


def section(study: Study) -> str:
    """Return what one study found, in tables."""
    return "\n".join(_section(study)) + "\n"


def _section(study: Study) -> Iterator[str]:
    skipped = f", {study.n_skipped:,} too long" if study.n_skipped else ""
    yield f"\n## {study.checkpoint}{f', edited: {study.edits}' if study.edits else ''}\n"
    yield (f"{study.n_sentences:,} sentences ({study.n_documents:,} documents{skipped}) of "
           f"{study.corpus}; control: {study.control}."
           f"{f' {study.source}.' if study.source else ''}\n")  # fmt: skip
    found, missed = named(study), nearest(study)
    counts = (
        f"{len({each.head for each in found if each.head.kind == kind})} of "
        f"{sum(head.kind == kind for head in study.heads)} in {_KINDS[kind]}"
        for kind in study.kinds
    )
    yield f"Heads with a named role: {', '.join(counts)}.\n"
    yield from _table(found)
    if missed:
        some = f"the {len(missed[:_MOST])} nearest to their bar of {len(missed)}"
        yield f"No head has these roles, {some} with a trial in {_RARE} words; the nearest head:\n"
    yield from _table(missed[:_MOST])
    if few := [role.title for role in study.roles if not study.in_role(role)]:
        yield f"Fewer than {MIN_PAIRS} pairs: {', '.join(few)}.\n"
    agree = agreement(study.importance).items()
    if said := [f"{_MEASURES[one]} and {_MEASURES[other]} {value:.2f}"
                for (one, other), value in agree if not math.isnan(value)]:  # fmt: skip
        about = study.notes.get("importance", {})
        yield (f"Importance, on {about.get('sentences')} {about.get('text')}; rank correlation of "
               f"the measures over all heads: {', '.join(said)}.\n")  # fmt: skip


def _table(findings: Iterable[Finding]) -> Iterator[str]:
    for number, each in enumerate(findings):
        if not number:
            yield "| head | role | score | interval | bar | pairs | p |"
            yield "|---|---|---|---|---|---|---|"
        (kind, layer, head), p = each.head, each.p
        yield (
            f"| {_KINDS[kind]} {layer + 1}.{head + 1} | {each.role.title} | {percent(each.score)} "
            f"| {100 * each.low:.0f} to {percent(each.high)} | {percent(each.bar)} "
            f"| {each.pairs:,} | {f'{p:.0e}' if 0 < p < 0.001 else f'{p:.3f}'} |"
        )
    if findings:
        yield ""
