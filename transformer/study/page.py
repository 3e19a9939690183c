"""Study results as a Markdown page with tables for each model."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from transformer.study.corpus import NAMES
from transformer.study.records import Finding, Study
from transformer.study.roles import MIN_PAIRS
from transformer.study.statistics import agreement

#: Maximum roles listed without a head, and maximum corpus words per trial for them.
_MOST, _RARE = 12, 100
_KINDS, _MEASURES, _CONTROLS = (NAMES[name] for name in ("kinds", "measures", "controls"))


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
    return "".join([NAMES["header"], *map(section, studies)])


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
