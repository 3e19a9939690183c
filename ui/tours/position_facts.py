"""Facts of a study and of a checkpoint's positions, for their tours (section 3.5)."""

import math

import numpy as np

from figures.exhibit import Panel, Series
from figures.labels import decimal, percent
from transformer.study.records import Finding, Study
from transformer.trace import position_vectors
from ui.tours.stops import Scene, StopFacts, cell, fact, numbers, two
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


#: Notes before a question if the picture shows other positions than the checkpoint's.
_NOTES = {
    "learned": "This model learned its positions (table 3, row E); take the paper's sines. ",
    "stored": "This model keeps its positions as a table of numbers; take the paper's sines. ",
    "relative": "This model adds no positions to its embeddings; take the paper's sines. ",
}


def _width(scene: Scene) -> int:
    return scene.config.d_model + scene.config.d_model % 2


def _note(scene: Scene) -> dict[str, object]:
    unlike = position_vectors.unlike_the_paper(scene.config)
    return {"note": _NOTES.get(scene.config.positions, unlike and f"{unlike} ")}


def _waves(width: int, n: int, *pairs: int) -> tuple[Series]:
    """Return pairs of dimensions along n positions."""
    table = position_vectors.encoding(n, width, "interleaved")
    lines = {f"{wave}, dimension {2 * pair + at + 1}": table[:, 2 * pair + at]
             for pair in pairs for at, wave in enumerate(("sin", "cos"))}  # fmt: skip
    return (Series("Dimensions along the positions", np.arange(n), lines, "position"),)


def _about(period: float) -> str:
    return f"about {period:,.0f}"


@fact
def fastest(scene: Scene) -> StopFacts:
    """The period of the fastest dimensions."""
    period = float(position_vectors.wavelengths(_width(scene))[0])
    options = numbers(period, [2, 12, 100, 10_000], _about)
    waves = _waves(_width(scene), 20, 0)
    return StopFacts(*options, {**_note(scene), "period": period}, pictures=waves)


@fact
def slowest(scene: Scene) -> StopFacts:
    """The period of the slowest dimensions."""
    width = _width(scene)
    period = float(position_vectors.wavelengths(width)[-1])
    options = numbers(period, [period / 100, period / 10, 10 * period], _about)
    values = {**_note(scene), "period": period, "pairs": width // 2}
    return StopFacts(*options, values, pictures=_waves(width, 50, 0, width // 2 - 1))


@fact
def distance(scene: Scene) -> StopFacts:
    """The pair of positions with the dot product of 5 and 8."""
    width, pairs = _width(scene), ((40, 43), (5, 13), (3, 12), (8, 24))

    def product(i: int, j: int) -> float:
        table = position_vectors.encoding(2, width, "interleaved", i)
        other = position_vectors.encoding(1, width, "interleaved", j)
        return float(table[0] @ other[0])

    target = product(5, 8)
    gaps = [abs(product(i, j) - target) for i, j in pairs]
    i, j = pairs[gaps.index(min(gaps))]
    values = {**_note(scene), "target": target, "i": i, "j": j, "same": product(i, j), "gap": j - i}
    table, names = position_vectors.encoding(50, width, "interleaved"), tuple(map(str, range(50)))
    products = Panel("Dot products of positions", table @ table.T, names, names, "position",
                     "position", scale="diverging")  # fmt: skip
    options = tuple(f"{i} and {j}" for i, j in pairs)
    return StopFacts(options, gaps.index(min(gaps)), values, pictures=(products,))


@fact
def rotation(scene: Scene) -> StopFacts:
    """The angle by which 3 positions turn the fastest hand, in degrees."""
    shift = position_vectors.shift(5, 3, _width(scene), "interleaved")
    angle = math.degrees(float(shift.angles[0]))
    values = {**_note(scene), "angle": angle, "error": decimal(shift.largest_error)}
    options = numbers(angle, [30, 90, 360], "{:.0f}°".format)
    return StopFacts(*options, values, pictures=_waves(_width(scene), 20, 0))


@fact
def beyond(scene: Scene) -> StopFacts:
    """The number of pairs whose period is longer than the longest training sentence."""
    width, limit = _width(scene), scene.trained or 100
    slow, pairs = int((position_vectors.wavelengths(width) > limit).sum()), width // 2
    options = numbers(slow, [0, pairs // 4, pairs, pairs // 2], "{:.0f}".format)
    values = {**_note(scene), "limit": limit, "pairs": pairs}
    waves = _waves(width, limit, max(pairs - slow - 1, 0), pairs - 1)
    return StopFacts(*options, values, form="" if scene.trained else "unknown", pictures=waves)
