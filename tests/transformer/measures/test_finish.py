"""Length penalty: crossings of scores, and the winner of every alpha."""

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.searched import searched
from transformer.measures.beam import Node, beam_tree
from transformer.measures.finish import (
    could_reach,
    crossing,
    crossings,
    needed_then,
    ranking,
    score_at,
    winning_ranges,
)
from transformer.search.rules import PAPER, BeamRule, hugging_face, length_penalty


def leaf(total: float, length: int) -> Node:
    """Return the leaf of a translation of this log-probability and length."""
    return Node(0, -1, length - 1, 0, 0, 2, "</s>", total, total, total, "finished", "finished")


leaves = st.builds(leaf, st.floats(-60, -0.01), st.integers(1, 60))


@given(leaves, leaves, st.sampled_from([PAPER, hugging_face()]))
@settings(max_examples=100)
def test_at_the_crossing_both_score_the_same_and_the_longer_wins_above(
    a: Node, b: Node, rule: BeamRule
) -> None:
    alpha = crossing(a, b, rule)
    if a.length == b.length:
        assert alpha is None
        return
    assume(abs(alpha) < 50)  # beyond, the penalty leaves the range of floats
    longer, shorter = (a, b) if a.length > b.length else (b, a)
    assert score_at(a, alpha, rule) == pytest.approx(score_at(b, alpha, rule), rel=1e-6)
    assert score_at(longer, alpha + 0.1, rule) > score_at(shorter, alpha + 0.1, rule)
    assert score_at(longer, alpha - 0.1, rule) < score_at(shorter, alpha - 0.1, rule)
    assert crossing(b, a, rule) == pytest.approx(alpha)


def test_worked_by_hand() -> None:
    # -2 over 7 tokens against -1 over 1: 2 = ((5 + 7) / (5 + 1))^alpha, so alpha = 1.
    assert crossing(leaf(-2, 7), leaf(-1, 1)) == pytest.approx(1.0)
    short, long = leaf(-1, 1), leaf(-2, 7)
    assert [(r.low, pytest.approx(r.high), r.place) for r in winning_ranges([short, long])] == [
        (0.0, 1.0, 0),
        (pytest.approx(1.0), 2.0, 1),
    ]
    assert crossings([short, long]) == pytest.approx((1.0,))
    assert not crossings([short, long], 0.0, 0.9)
    assert crossing(leaf(0.0, 3), leaf(-1.0, 5)) is None
    assert [each.place for each in winning_ranges([leaf(-1.0, 5), leaf(-1.0, 5)])] == [0]


@given(st.lists(leaves, min_size=1, max_size=7), st.floats(0, 2))
@settings(max_examples=60)
def test_reigns_name_the_winner_of_every_alpha(ended: list[Node], alpha: float) -> None:
    rules = winning_ranges(ended)
    assert (rules[0].low, rules[-1].high) == (0.0, 2.0)
    for before, after in itertools.pairwise(rules):
        assert before.high == after.low and before.place != after.place
        # A larger alpha can only favour a longer one.
        assert ended[before.place].length < ended[after.place].length
    rule = next(each for each in rules if each.low <= alpha <= each.high)
    best = max(score_at(node, alpha) for node in ended)
    assert score_at(ended[rule.place], alpha) == pytest.approx(best, rel=1e-6)


@given(st.lists(leaves, min_size=2, max_size=6))
@settings(max_examples=40)
def test_the_order_changes_at_crossings_only(ended: list[Node]) -> None:
    borders = [0.0, *crossings(ended), 2.0]
    for low, high in itertools.pairwise(borders):
        if high - low > 1e-3:
            inside = [low + share * (high - low) for share in (0.2, 0.5, 0.8)]
            assert len({ranking(ended, alpha) for alpha in inside}) == 1


@given(st.integers(0, 2_000), st.sampled_from([0.0, 0.6, 1.5]), st.integers(2, 5))
@settings(max_examples=20)
def test_with_the_search_s_own_alpha_the_order_is_the_search_s(
    seed: int, alpha: float, beam: int
) -> None:
    tree = beam_tree(searched(seed, beam, alpha, end=1.0))
    ended = [tree.node(index) for index in tree.leaves]
    assert ranking(ended, alpha) == tuple(range(len(ended)))
    for node in ended:
        assert score_at(node, alpha) == pytest.approx(node.score)
        assert score_at(node, 0.0) == pytest.approx(node.total)
        assert node.total / length_penalty(node.length, alpha) == pytest.approx(node.score)
    for node in tree.nodes:
        assert could_reach(tree, node) >= node.score
    scores = sorted((node.score for node in ended), reverse=True)
    needed = needed_then(tree, len(tree.steps) - 1)
    assert needed == (scores[beam - 1] if len(scores) >= beam else None)
    assert needed_then(tree, -1) is None
