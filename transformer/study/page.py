"""Studies in words: a page of Markdown with a table for each model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from transformer.study.records import Finding, Study
from transformer.study.roles import MIN_PAIRS
from transformer.types import AttentionKind

_KINDS: dict[AttentionKind, str] = {
    "encoder_self": "encoder", "decoder_self": "decoder", "cross": "cross-attention",
}  # fmt: skip
_HEADER = """# What the heads do

<!-- Written by `python -m transformer study checkpoints/NAME ... --page docs/heads.md` -->

Each table lists the heads of one model that have a named role. A *score* is the share of pairs in
which the head looks at the right word, with its 95% interval over documents. The *bar* is the
highest control on the same pairs: the best fixed distance, the nearest occurrence of one fixed
word, the word at which the head looks from all other words, and the best head of the same kind with
random weights; for a role that needs no annotation, one half and the random weights. A role is
named where the whole interval lies above the bar and the paired test against the best distance has
p < 0.05 after Holm's correction over all heads and roles. `transformer/study` defines every role,
control and test; `python -m transformer study` repeats them for any model and corpus.
"""


def percent(share: float) -> str:
    """Return a share as a whole number of percent."""
    return f"{100 * share:.0f}%"


def place(finding: Finding) -> str:
    """Return the name of a head, counted from 1."""
    head = finding.head
    return f"{_KINDS[head.kind]} {head.layer + 1}.{head.head + 1}"


def named(study: Study) -> list[list[Finding]]:
    """Return the named roles of every head that has one, the clearest first."""
    found = ([each for each in study.findings(head) if each.named] for head in study.heads)
    return [each for each in found if each]


def nearest(study: Study) -> list[Finding]:
    """Return, for each role that no head has, the head that came nearest to its bar."""
    found = []
    for role in study.roles:
        every = [each for head in study.heads if (each := study.finding(role, head))]
        if every and not any(each.named for each in every):
            found.append(max(every, key=lambda each: each.margin))
    return sorted(found, key=lambda each: each.margin, reverse=True)


def _unnamed(study: Study) -> str:
    counts = []
    for kind in study.kinds:
        heads = [head for head in study.heads if head.kind == kind]
        with_role = sum(any(each.named for each in study.findings(head)) for head in heads)
        counts.append(f"{with_role} of {len(heads)} in {_KINDS[kind]}")
    return f"Heads with a named role: {', '.join(counts)}."


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
    yield f"{_unnamed(study)}\n"
    if rows := named(study):
        yield "| head | role | score | interval | bar | pairs | p |"
        yield "|---|---|---|---|---|---|---|"
        for findings in rows:
            for each in findings:
                yield (
                    f"| {place(each)} | {each.role.title} | {percent(each.score)} "
                    f"| {100 * each.low:.0f} to {percent(each.high)} | {percent(each.bar)} "
                    f"| {each.pairs:,} | {_p(each.p)} |"
                )
        yield ""
    if missed := nearest(study):
        yield "No head has these roles. The head that comes nearest, its score, and its bar:\n"
        yield "| role | head | score | interval | bar |"
        yield "|---|---|---|---|---|"
        for each in missed:
            yield (
                f"| {each.role.title} | {place(each)} | {percent(each.score)} "
                f"| {100 * each.low:.0f} to {percent(each.high)} | {percent(each.bar)} |"
            )
        yield ""
    few = [role.title for role in study.roles
           if not any(study.finding(role, head) for head in study.heads)]  # fmt: skip
    if few:
        yield f"Fewer than {MIN_PAIRS} pairs: {', '.join(few)}.\n"


def _p(value: float) -> str:
    return f"{value:.0e}" if value < 0.001 else f"{value:.3f}"
