"""Facts of a study for the tour "What heads do": three heads, and a famous role."""

import math

from figures.labels import percent
from transformer.study.records import Finding, Study
from ui.tours.stops import Scene, StopFacts, cell, fact, two
from ui.work.studies import best_rule

#: Roles that readers of the paper expect but heads seldom have.
_EXPECTED = ("antecedent", "agreement", "down:nsubj", "up:nsubj")

_YES_OR_NO = ("yes", "no")
_BESIDE = ("those where it fails, and some at random", "ten more with large weights")


def clearest(study: Study) -> list[Finding]:
    """Return the clearest finding of each role, named ones first, then by `choice`."""
    best = [findings[0] for role in study.roles if (findings := study.in_role(role))]
    best = [finding for finding in best if not math.isnan(finding.margin)]
    return sorted(best, key=lambda finding: (finding.named, finding.choice), reverse=True)


@fact
def where_it_looks(scene: Scene) -> StopFacts:
    """The role of the head that is farthest above every control."""
    study, finding = _clear(scene, 0)
    right, least = finding.role.title, study.findings(finding.head)[:-4:-1]
    options = two(sorted({right, *(finding.role.title for finding in least)}))
    return _facts(options, options.index(right), study, finding)


@fact
def without_training(scene: Scene) -> StopFacts:
    """A second role: do random weights reach the head's score?"""
    study, finding = _clear(scene, 1)
    return _facts(_YES_OR_NO, int(finding.random < finding.score), study, finding)


@fact
def what_belongs_beside(scene: Scene) -> StopFacts:
    """A third role: the sentences that belong beside its best ones."""
    return _facts(_BESIDE, 0, *_clear(scene, 2))


@fact
def thought_to(scene: Scene) -> StopFacts:
    """A role that many expect, its best head and its control."""
    study, finding = _clear(scene, 0)
    expected = [other for other in clearest(study) if other.role.name in _EXPECTED]
    expected.sort(key=lambda other: (other.named, _EXPECTED.index(other.role.name)))
    finding = (expected or [finding])[0]
    return _facts(_YES_OR_NO, int(not finding.named), study, finding)


def _clear(scene: Scene, place: int) -> tuple[Study, Finding]:
    """Return the study and its finding at `place`, clearest first, or its last one."""
    if scene.study is None or not (findings := clearest(scene.study)):
        raise ValueError("this scene has no study")
    return scene.study, findings[: place + 1][-1]


def _facts(options: tuple[str, ...], answer: int, study: Study, finding: Finding) -> StopFacts:
    head = finding.head
    values = {
        "role": finding.role.title, "place": head.off.place, "read": study.read,
        "pairs": f"{finding.pairs:,} {'tokens' if finding.role.needs == 'text' else 'pairs'}",
        "score": percent(finding.score), "low": percent(finding.low),
        "high": percent(finding.high), "rule": best_rule(finding), "bar": percent(finding.bar),
        "random": percent(finding.random),
    }  # fmt: skip
    settings = {"role": finding.role.name, "kind": head.kind, **cell(head.layer, head.head)}
    return StopFacts(options, answer, values, settings, "" if finding.named else "null")
