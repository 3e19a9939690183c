"""Why one finished translation beat another: log-probability, length, and the penalty between them.

A translation Y of log-probability L scores L / lp(Y) with lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al.
2016, eq. 14; section 6.1 of the paper sets alpha = 0.6). Since L is negative and lp grows with the
length, a larger alpha favours longer translations. Two of different lengths score the same at
exactly one alpha, where L1 / L2 = ((5 + |Y1|) / (5 + |Y2|))^alpha.

All this compares what one search has finished. A search with another alpha prunes the same way,
since all hypotheses of a step are equally long, but may end at another step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from transformer.measures.beam import Node, Tree
from transformer.search.rules import PAPER, BeamRule

#: The alphas that the app lets one choose.
ALPHAS = (0.0, 2.0)

_APART = 1e-9  # alphas closer than this are one

__all__ = [
    "ALPHAS", "Crossing", "Reign", "could_reach", "crossing", "crossings", "needed_then",
    "ranking", "reigns", "score_at",
]  # fmt: skip


def score_at(node: Node, alpha: float, rule: BeamRule = PAPER) -> float:
    """What the translation that ends in a node would score with another alpha."""
    return node.total / rule.penalty(node.length, alpha)


def crossing(first: Node, second: Node, rule: BeamRule = PAPER) -> float | None:
    """The alpha at which two translations score the same; any real number.

    Returns: None where there is none (equal lengths) or every alpha is one (certain translations,
        log P = 0).
    """
    if first.length == second.length or first.total >= 0 or second.total >= 0:
        return None
    ratio = math.log(first.total / second.total)
    # Every rule's penalty is its value at alpha = 1 to the power of alpha.
    return ratio / math.log(rule.penalty(first.length, 1) / rule.penalty(second.length, 1))


def ranking(leaves: Sequence[Node], alpha: float, rule: BeamRule = PAPER) -> tuple[int, ...]:
    """Places of the translations in `leaves`, best first; equal ones in the given order."""
    return tuple(
        sorted(range(len(leaves)), key=lambda place: -score_at(leaves[place], alpha, rule))
    )


@dataclass(frozen=True)
class Crossing:
    """Two translations change places.

    Attributes:
        alpha: where.
        shorter, longer: their places in the list; the longer one is better above `alpha`.
    """

    alpha: float
    shorter: int
    longer: int


def crossings(
    leaves: Sequence[Node],
    low: float = ALPHAS[0],
    high: float = ALPHAS[1],
    rule: BeamRule = PAPER,
) -> tuple[Crossing, ...]:
    """Every change of order among translations strictly between two alphas, smallest first."""
    found = []
    for first, second in combinations(range(len(leaves)), 2):
        alpha = crossing(leaves[first], leaves[second], rule)
        if alpha is None or not low < alpha < high:
            continue
        by_length = sorted((first, second), key=lambda place: leaves[place].length)
        found.append(Crossing(alpha, *by_length))
    return tuple(sorted(found, key=lambda each: each.alpha))


@dataclass(frozen=True)
class Reign:
    """The alphas for which one translation wins.

    Attributes:
        low, high: from and to.
        place: which translation of the list.
    """

    low: float
    high: float
    place: int


def reigns(
    leaves: Sequence[Node],
    low: float = ALPHAS[0],
    high: float = ALPHAS[1],
    rule: BeamRule = PAPER,
) -> tuple[Reign, ...]:
    """Who wins for which alpha, from the lowest alpha to the highest; neighbours differ."""
    if not leaves:
        return ()
    changes = [each.alpha for each in crossings(leaves, low, high, rule)]
    borders = [low, *(alpha for alpha in changes if low + _APART < alpha < high - _APART), high]
    found: list[Reign] = []
    for start, end in pairwise(borders):
        if end - start < _APART and found:
            continue  # several change places at one alpha; rounding decides the order inside
        best = ranking(leaves, (start + end) / 2, rule)[0]
        since = found[-1].high if found else start
        if found and found[-1].place == best:
            found[-1] = Reign(found[-1].low, end, best)
        else:
            found.append(Reign(since, end, best))
    found[-1] = Reign(found[-1].low, high, found[-1].place)
    return tuple(found)


def could_reach(tree: Tree, node: Node) -> float:
    """The best score that a live hypothesis could still end with.

    Log-probabilities only fall, and no penalty is milder than that of the longest length.
    """
    return node.total / tree.penalty(tree.max_length)


def needed_then(tree: Tree, step: int) -> float | None:
    """The score to beat after a step: the last of the best `beam_size` finished by then.

    Returns: None where fewer had finished.
    """
    scores = sorted((n.score for n in map(tree.node, tree.leaves) if n.step <= step), reverse=True)
    return scores[tree.beam_size - 1] if len(scores) >= tree.beam_size else None
