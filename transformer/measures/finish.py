"""Comparison of finished translations by log-probability, length, and length penalty.

A translation Y with log-probability L scores L / lp(Y), lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al.
2016, eq. 14; section 6.1 of the paper sets alpha = 0.6). Since L is negative and lp grows with
length, a larger alpha favours longer translations. Translations of different lengths have equal
scores at exactly one alpha, where L1 / L2 = ((5 + |Y1|) / (5 + |Y2|))^alpha.

Only translations from one search are compared. A search with another alpha prunes the same way,
since all hypotheses at a step are equally long, but may stop at another step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from transformer.measures.beam import Node, Tree
from transformer.search.rules import PAPER, BeamRule

#: Minimum and maximum alpha in the app.
ALPHAS = (0.0, 2.0)

_APART = 1e-9  # alphas closer than this are treated as equal


def score_at(node: Node, alpha: float, rule: BeamRule = PAPER) -> float:
    """Return the score under another alpha of the translation that ends in a node."""
    return node.total / rule.penalty(node.length, alpha)


def crossing(first: Node, second: Node, rule: BeamRule = PAPER) -> float | None:
    """Return the alpha at which two translations have equal scores, any real number.

    Returns: None for translations of equal length, or if one has log P = 0.
    """
    if first.length == second.length or first.total >= 0 or second.total >= 0:
        return None
    ratio = math.log(first.total / second.total)
    # Under every rule, the penalty is its value at alpha = 1 raised to the power alpha.
    return ratio / math.log(rule.penalty(first.length, 1) / rule.penalty(second.length, 1))


def ranking(leaves: Sequence[Node], alpha: float, rule: BeamRule = PAPER) -> tuple[int, ...]:
    """Return indices into `leaves`, best first; ties keep their order."""
    return tuple(
        sorted(range(len(leaves)), key=lambda place: -score_at(leaves[place], alpha, rule))
    )


@dataclass(frozen=True)
class WinningRange:
    """Interval of alpha in which one translation wins."""

    low: float
    high: float
    place: int  # index of the translation


def winning_ranges(leaves: Sequence[Node], rule: BeamRule = PAPER) -> tuple[WinningRange, ...]:
    """Return the winner in each interval of alpha, in increasing order of alpha."""
    if not leaves:
        return ()
    low, high = ALPHAS
    crossings = (crossing(first, second, rule) for first, second in combinations(leaves, 2))
    inside = (a for a in crossings if a is not None and low + _APART < a < high - _APART)
    borders = [low, *sorted(inside), high]
    ranges: list[WinningRange] = []
    for start, end in pairwise(borders):
        if end - start < _APART and ranges:
            continue  # several crossings at one alpha, where rounding decides the order
        best = ranking(leaves, (start + end) / 2, rule)[0]
        since = ranges[-1].high if ranges else start
        if ranges and ranges[-1].place == best:
            ranges[-1] = WinningRange(ranges[-1].low, end, best)
        else:
            ranges.append(WinningRange(since, end, best))
    ranges[-1] = WinningRange(ranges[-1].low, high, ranges[-1].place)
    return tuple(ranges)


def could_reach(tree: Tree, node: Node) -> float:
    """Return the highest score that a live hypothesis could still reach.

    Log-probabilities only fall, and the maximum length has the largest divisor, or the current one
    if alpha is below 0.
    """
    length = tree.max_length if tree.alpha > 0 else node.length
    return node.total / tree.rule.penalty(length, tree.alpha)


def needed_then(tree: Tree, step: int) -> float | None:
    """Return the score to beat after a step: rank `beam_size` among finished hypotheses.

    Returns: None if fewer hypotheses had finished.
    """
    scores = sorted((n.score for n in map(tree.node, tree.leaves) if n.step <= step), reverse=True)
    return scores[tree.beam_size - 1] if len(scores) >= tree.beam_size else None
