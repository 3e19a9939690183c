"""Study results as a Markdown page with tables for each model."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from transformer.study.records import Finding, Study
from transformer.study.roles import MIN_PAIRS
from transformer.study.statistics import agreement
from transformer.types import AttentionKind

#: Maximum roles listed without a head, and maximum corpus words per trial for them.
_MOST, _RARE = 12, 100
_KINDS: dict[AttentionKind, str] = {
    "encoder_self": "encoder", "decoder_self": "decoder", "cross": "cross-attention",
}  # fmt: skip
_MEASURES = {
    "gradient": "slope of the loss", "removal": "single removal", "bleu": "BLEU lost",
    "order": "order of pruning", "sharpness": "sharpness",
}  # fmt: skip
_CONTROLS = {"offset": "distance", "word": "same word", "blind": "any query", "random": "random"}
_HEADER = """# What the heads do

<!-- Written by `python -m transformer study checkpoints/NAME ... --page docs/heads.md` -->

A *score* is the share of trials in which a head looks at the right word, with its 95% interval over
documents. Heads are chosen in every other document of the corpus, and all numbers here are of the
remaining documents, so the best of many heads is measured like any other. There are two kinds of
role, and they are tested differently:

- **Roles of annotation** (subject to verb, pronoun to antecedent) must beat four controls on the
  same pairs: the best fixed *distance*, the nearest occurrence of the *same word*, the word at
  which the head looks from *any query*, and the best head of its kind with *random* weights. The
  tables give each control's score and the p-value of the paired test against it.
- **Roles of a text** (first token, previous token) are defined by a majority: the whole interval
  lies above one half. One half is a definition, not chance, so the test is against the random
  weights. The role must also hold on a *second text*: majority, and p < 0.05.

- **Roles of word links** (the word it translates) are tested on 240 sentences of the training text
  that know their links. Their distance is the diagonal, their same word the most frequent link.

*p* is the largest of a head's paired tests, after Holm's correction over all heads chosen for any
role; a dash marks a head that was not chosen, as it did not lie above its bar in the first half of
the documents. A role is named where p < 0.05. That no head was shown to have a role does not mean
that none has it.
`transformer/study` defines every role, control and test; `python -m transformer study` repeats them
for any model and corpus.
"""


def percent(share: float) -> str:
    """Return a share in percent, without decimals."""
    return f"{100 * share:.0f}%"


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "<1e-15" if value < 1e-15 else f"{value:.0e}" if value < 0.001 else f"{value:.3f}"


def named(study: Study) -> list[Finding]:
    """Return named roles by head, each head's clearest role first."""
    findings = (finding for head in study.heads for finding in study.findings(head))
    return [finding for finding in findings if finding.named]


def nearest(study: Study) -> list[Finding]:
    """Return the chosen head of each role without a named head, largest margin first.

    Roles with few trials are left out, except coreference.
    """
    chosen = (study.in_role(role)[:1] for role in study.roles)
    missed = [
        finding
        for finding in itertools.chain(*chosen)
        if not finding.named
        and (2 * finding.pairs * _RARE >= study.n_words or finding.role.needs == "coreference")
    ]
    return sorted(missed, key=lambda finding: finding.margin, reverse=True)


def markdown(studies: Sequence[Study]) -> str:
    """Return one page about several studies."""
    return _HEADER + "".join(map(section, studies))


def section(study: Study) -> str:
    """Return one study's results as tables."""
    return "\n".join(_section(study)) + "\n"


def _section(study: Study) -> Iterator[str]:
    text = f"{study.n_sentences:,} sentences"
    if study.n_skipped:
        text = f"{study.n_sentences - study.n_skipped:,} of {text} (the rest are too long)"
    yield f"\n## {study.checkpoint}{f', edited: {study.edits}' if study.edits else ''}\n"
    yield (f"{text} of {study.corpus}, {study.n_documents:,} documents; control: {study.control}; "
           f"second text: {study.second or 'none'}."
           f"{f' {study.source}.' if study.source else ''}\n")  # fmt: skip
    if study.n_cut:
        yield (f"Decoder and cross-attention leave out {study.n_cut:,} translations, which reached "
               "the length limit.\n")  # fmt: skip
    with_role, missed = named(study), nearest(study)
    counts = (
        f"{len({finding.head for finding in with_role if finding.head.kind == kind})} of "
        f"{sum(head.kind == kind for head in study.heads)} in {_KINDS[kind]}"
        for kind in study.kinds
    )
    yield f"Heads with a named role: {', '.join(counts)}.\n"
    yield from _table(with_role)
    if missed:
        yield (
            f"No head was shown to have these roles, the {len(missed[:_MOST])} nearest to their "
            f"bar of {len(missed)} with a trial in {_RARE} words; the head chosen for each:\n"
        )
    yield from _table(missed[:_MOST])
    for finding in missed:
        if finding.role.needs == "coreference":
            others = ", ".join(
                f"{title} {percent(_share(finding, name))} (p {_p(getattr(finding, f'{name}_p'))})"
                for name, title in _CONTROLS.items()
            )
            yield (f"The head chosen for *{finding.role.title}*, {_name(finding)}, looks there in "
                   f"{percent(finding.score)} of {finding.pairs:,} pairs: {others}.\n")  # fmt: skip
    if few := [role.title for role in study.roles if not study.in_role(role)]:
        yield f"Fewer than {MIN_PAIRS} pairs: {', '.join(few)}.\n"
    about = study.notes.get("importance", {})
    reliability = about.get("reliability", {})
    agree = agreement(study.importance, reliability)
    if pairs := [
        f"| {_MEASURES[one]} and {_MEASURES[other]} | {both.r:.2f} | {both.low:.2f} to "
        f"{both.high:.2f} | {'–' if math.isnan(both.corrected) else f'{both.corrected:.2f}'} |"
        for (one, other), both in agree.items()
        if not math.isnan(both.r)
    ]:
        reliabilities = ", ".join(f"{_MEASURES[name]} {r:.2f}" for name, r in reliability.items())
        yield (
            f"Importance, on {about.get('sentences')} {about.get('text')}: rank correlation of "
            "two measures over all heads, its 95% interval over heads, and its value corrected "
            f"for their reliabilities (from halves of the text: {reliabilities or 'unknown'}).\n"
        )
        yield from (
            "| measures | correlation | interval | corrected |",
            "|---|---|---|---|",
            *pairs,
            "",
        )


def _share(finding: Finding, control: str) -> float:
    name = f"{control}_score" if control in ("offset", "word") else control
    share: float = getattr(finding, name)
    return share


def _name(finding: Finding) -> str:
    kind, layer, head = finding.head
    return f"{_KINDS[kind]} {layer + 1}.{head + 1}"


def _table(findings: Iterable[Finding]) -> Iterator[str]:
    for number, finding in enumerate(findings):
        if not number:
            controls = " | ".join(_CONTROLS.values())
            yield f"| head | role | score | interval | {controls} | trials | p | second text |"
            yield "|---|---|---|---|---|---|---|---|---|---|---|"
        shares = (
            "–" if math.isnan(share := _share(finding, name))
            else f"{percent(share)} ({_p(getattr(finding, f'{name}_p'))})"
            for name in _CONTROLS
        )  # fmt: skip
        again = finding.again_score
        yield (
            f"| {_name(finding)} | {finding.role.title} | {percent(finding.score)} "
            f"| {100 * finding.low:.0f} to {percent(finding.high)} | {' | '.join(shares)} "
            f"| {finding.pairs:,} | {_p(finding.p)} "
            f"| {'–' if math.isnan(again) else percent(again)} |"
        )
    if findings:
        yield ""
