"""Facts of a study, for the tour of what heads do: three heads, and one that was thought to."""

from __future__ import annotations

import math

from figures.labels import percent
from transformer.study.records import Finding, Study
from ui.tours.stops import Found, Scene, cell, fact, two
from ui.work.studies import best_rule

#: Roles that readers of the paper speak of, and that heads seldom have.
_THOUGHT = ("antecedent", "agreement", "down:nsubj", "up:nsubj")

_YES_OR_NO = ("yes", "no")
_BESIDE = ("those where it fails, and some at random", "ten more with large weights")


def clearest(study: Study) -> list[Finding]:
    """Return the clearest finding of each role, named ones first, the largest margin first."""
    best = [found[0] for role in study.roles if (found := study.in_role(role))]
    best = [each for each in best if not math.isnan(each.margin)]
    return sorted(best, key=lambda each: (each.named, each.margin), reverse=True)


@fact
def where_it_looks(scene: Scene) -> Found:
    """The role of the head that is farthest above every control."""
    study, finding = _clear(scene, 0)
    right, least = finding.role.title, study.findings(finding.head)[:-4:-1]
    options = two(sorted({right, *(each.role.title for each in least)}))
    return _found(options, options.index(right), study, finding)


@fact
def without_training(scene: Scene) -> Found:
    """The score of random weights in a second role, at or above that of the head or not."""
    study, finding = _clear(scene, 1)
    return _found(_YES_OR_NO, int(finding.random < finding.score), study, finding)


@fact
def what_belongs_beside(scene: Scene) -> Found:
    """The sentences that show more of a head in a third role than its best ones."""
    return _found(_BESIDE, 0, *_clear(scene, 2))


@fact
def thought_to(scene: Scene) -> Found:
    """The presence of a head in a role that many expect, and the best one beside its control."""
    study, finding = _clear(scene, 0)
    expected = [each for each in clearest(study) if each.role.name in _THOUGHT]
    expected.sort(key=lambda each: (each.named, _THOUGHT.index(each.role.name)))
    finding = (expected or [finding])[0]
    return _found(_YES_OR_NO, int(not finding.named), study, finding)


def _clear(scene: Scene, place: int) -> tuple[Study, Finding]:
    """Return the study and its clearest finding but `place`, or the last one."""
    if scene.study is None or not (found := clearest(scene.study)):
        raise ValueError("this scene has no study")
    return scene.study, found[: place + 1][-1]


def _found(options: tuple[str, ...], answer: int, study: Study, finding: Finding) -> Found:
    head = finding.head
    said = {
        "role": finding.role.title, "place": head.off.place, "read": study.read,
        "pairs": f"{finding.pairs:,} {'tokens' if finding.role.needs == 'text' else 'pairs'}",
        "score": percent(finding.score), "low": percent(finding.low),
        "high": percent(finding.high), "rule": best_rule(finding), "bar": percent(finding.bar),
        "random": percent(finding.random),
    }  # fmt: skip
    settings = {"role": finding.role.name, "kind": head.kind, **cell(head.layer, head.head)}
    return Found(options, answer, said, settings, "" if finding.named else "null")
