"""Facts of a study, for the tour of what heads do: three heads, and one that was thought to."""

from __future__ import annotations

import math
from functools import partial

from figures.labels import percent
from transformer.study.records import Finding, Study
from ui.tours.stops import Found, Scene, cell, numbers, two

#: Roles that readers of the paper speak of, and that heads seldom have.
_THOUGHT = ("antecedent", "agreement", "down:nsubj", "up:nsubj")

#: What is asked where there is no study: what a number means.
_WITHOUT = (
    ("what a fixed rule reaches on the same pairs", "how many layers the model has"),
    ("the same model with random weights", "the same model with more heads"),
    ("those where it fails, and some at random", "only those with the largest weights"),
    ("some are found by chance", "the largest of them is surely real"),
)


def thought_to(scene: Scene) -> Found:
    """The presence of a head in a role that many expect, and the best one beside its control."""
    found = None if scene.study is None else _expected(scene.study)
    if scene.study is None or found is None:
        return _unstudied(3)
    said = _said(scene.study, found)
    form = "named" if found.named else ""
    return Found(("yes", "no"), int(not found.named), said, _settings(found), form)


def clearest(study: Study) -> list[Finding]:
    """Return the clearest finding of each role, named ones first, the largest margin first."""
    found = [each for head in study.heads for each in study.findings(head)]
    found = [each for each in found if not math.isnan(each.margin)]
    found.sort(key=lambda each: (each.named, each.margin))
    best = {each.role: each for each in found}
    return sorted(best.values(), key=lambda each: (each.named, each.margin), reverse=True)


def _doing(scene: Scene, *, place: int) -> Found:
    """The score of a head that is farthest above every control, or of the second its role."""
    found = clearest(scene.study) if scene.study else []
    if scene.study is None or len(found) <= place:
        return _unstudied(place)
    finding = found[place]
    wrong = [each for each in (0.05, 0.25, 0.5, 0.75, 0.99) if abs(each - finding.score) > 0.1]
    options, answer = numbers(finding.score, wrong[:4], percent)
    if place == 1:
        right, least = finding.role.title, scene.study.findings(finding.head)[:-4:-1]
        options = two(sorted({right, *(each.role.title for each in least)}))
        answer = options.index(right)
    said = _said(scene.study, finding)
    form = "" if finding.named else "null"
    return Found(options, answer, said, _settings(finding), form)


first_head, second_head, third_head = (partial(_doing, place=place) for place in range(3))


def _expected(study: Study) -> Finding | None:
    found = [each for each in clearest(study) if each.role.name in _THOUGHT]
    found.sort(key=lambda each: (each.named, _THOUGHT.index(each.role.name)))
    return found[0] if found else None


def _said(study: Study, finding: Finding) -> dict[str, object]:
    return {
        "role": finding.role.title, "place": finding.head.off.place,
        "pairs": f"{finding.pairs:,}", "score": percent(finding.score),
        "low": percent(finding.low), "high": percent(finding.high), "bar": percent(finding.bar),
        "random": percent(finding.random), "sentences": f"{study.n_sentences:,}",
        "trials": "queries" if finding.role.needs == "text" else "pairs",
    }  # fmt: skip


def _settings(finding: Finding) -> dict[str, str]:
    head = finding.head
    return {"role": finding.role.name, "kind": head.kind, **cell(head.layer, head.head)}


def _unstudied(place: int) -> Found:
    right, wrong = _WITHOUT[place]
    options = (wrong, right) if place % 2 else (right, wrong)
    return Found(options, options.index(right), form="unstudied")
