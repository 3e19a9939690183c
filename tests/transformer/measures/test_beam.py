import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.factories import make_trace
from tests.searched import HEADS, LAYERS, PIECES, S, Table, searched
from transformer.measures import finish
from transformer.measures.beam import Node, Tree, attention_along, beam_tree, compare
from transformer.search.records import SearchRecord
from transformer.search.rules import PAPER, BeamRule, Sampling, hugging_face
from transformer.trace.records import Trace

searches = st.builds(
    searched, seed=st.integers(0, 10_000), beam_size=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.6, 2.0]), max_length=st.integers(1, 9),
    sharpness=st.sampled_from([0.3, 1.5, 6.0]), end=st.sampled_from([-8.0, 0.0, 2.0]),
)  # fmt: skip


def of(trace: Trace) -> tuple[Tree, SearchRecord]:
    return beam_tree(trace), trace.search


@given(searches, st.data())
@settings(max_examples=40)
def test_a_tree_is_what_the_search_did(trace: Trace, data: st.DataObject) -> None:
    tree, record = of(trace)
    check_steps(tree, record)
    check_winner(tree, record, trace)
    for node in tree.nodes:
        path = tree.prefix(node.index)
        assert [each.step for each in path] == list(range(node.length)) and path[-1] == node
        assert node.total == pytest.approx(sum(each.log_prob for each in path), abs=1e-6)
        penalty = PAPER.penalty(node.length, record.alpha)
        assert node.score == pytest.approx(node.total / penalty, abs=1e-6)
        check_outcome(tree, node)
        assert tree.find(node.step, node.rank) == node
    for step, rank in ((-1, 0), (len(tree.steps), 0), (0, 10_000)):
        assert tree.find(step, rank) is None
    a, b = (data.draw(st.integers(0, len(tree.nodes) - 1)) for _ in "ab")
    check_comparison(tree, a, b)
    seen = attention_along(record, tree, a)
    n = tree.node(a).length
    assert seen.cross.shape == (LAYERS, HEADS, n, S)
    assert seen.decoder_self.shape == (LAYERS, HEADS, n, n)
    for maps in seen:
        np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    with pytest.raises(ValueError, match="not in the tree"):
        attention_along(record, tree, -1)
    assert not np.triu(seen.decoder_self[0, 0], 1).any()


def check_steps(tree: Tree, record: SearchRecord) -> None:
    assert len(tree.steps) == len(record.steps)
    for t, indices in enumerate(tree.steps):
        nodes = [tree.node(index) for index in indices]
        assert {node.step for node in nodes} == {t}
        assert [node.rank for node in nodes] == list(range(len(nodes)))
        totals = [node.total for node in nodes]
        assert totals == sorted(totals, reverse=True)
        assert sum(node.fate != "dropped" for node in nodes) <= record.beam_size
        last = tree.last_in_beam(t)
        for node in nodes:
            if node.outcome == "outranked":
                assert node.total <= last.total and node.rank > last.rank
            if node.outcome == "stopped":
                assert t == len(tree.steps) - 1 and node.rank < record.beam_size
                ended = sorted((tree.node(leaf).score for leaf in tree.leaves), reverse=True)
                reach = node.total / PAPER.penalty(record.max_length, record.alpha)
                assert reach <= ended[record.beam_size - 1]


def check_winner(tree: Tree, record: SearchRecord, trace: Trace) -> None:
    winner = [tree.node(index) for index in tree.winner]
    assert tuple(node.token_id for node in winner) == trace.predicted_ids
    assert [node.log_prob for node in winner] == pytest.approx(trace.log_probs.tolist(), abs=1e-5)
    # The search reports the best of the finished, and of the cut where those compete.
    assert len(tree.leaves) >= len(record.hypotheses)
    for leaf, hypothesis in zip(tree.leaves, record.hypotheses, strict=False):
        path = tree.prefix(leaf)
        assert tuple(node.token_id for node in path) == hypothesis.ids
        assert tuple(node.row for node in path) == hypothesis.rows
        assert path[-1].score == hypothesis.score
        assert (path[-1].outcome == "finished") == hypothesis.complete
    scores = [tree.node(leaf).score for leaf in tree.leaves]
    assert scores == sorted(scores, reverse=True) and scores[0] == trace.score
    ended = {node.index for node in tree.nodes if node.outcome in ("finished", "cut")}
    assert set(tree.leaves) <= ended


def check_outcome(tree: Tree, node: Node) -> None:
    children = [tree.node(index) for index in tree.children[node.index]]
    assert all(child.parent == node.index for child in children)
    if node.outcome not in ("continued", "exhausted"):
        assert not children
    else:
        followed = [c for c in children if c.outcome not in ("outranked", "passed")]
        assert bool(followed) == (node.outcome == "continued")
    alive = any(node.index in tree.path(leaf) for leaf in tree.leaves)
    assert (node.index in tree.alive) == alive == (tree.best_leaf(node.index) is not None)


def check_comparison(tree: Tree, a: int, b: int) -> None:
    both = compare(tree, a, b)
    assert (both.a[-1].index, both.b[-1].index) == (a, b)
    shared = both.shared
    assert both.a[:shared] == both.b[:shared]
    assert {n.index for n in both.a[shared:]}.isdisjoint(n.index for n in both.b[shared:])
    assert both.same == (shared == min(len(both.a), len(both.b)))
    if not both.same:
        one, other = both.a[shared], both.b[shared]
        assert one.parent == other.parent and one.token_id != other.token_id
    assert (compare(tree, b, a).a, compare(tree, a, a).shared) == (both.b, len(both.a))


def test_attention_belongs_to_the_path_and_not_to_a_neighbour() -> None:
    tree, record = of(searched(seed=3, beam_size=3))
    table = Table(seed=3)
    for node in tree.nodes:
        ids = [1, *(each.token_id for each in tree.prefix(node.index))]
        seen = attention_along(record, tree, node.index)
        for t in range(node.length):
            _, own, cross = table.look((0, *ids[: t + 1]))
            np.testing.assert_allclose(seen.cross[:, :, t], cross, atol=1e-6)
            np.testing.assert_allclose(seen.decoder_self[:, :, t, : t + 1], own, atol=1e-6)


@given(st.integers(0, 500))
@settings(max_examples=25)
def test_a_beam_of_one_is_a_chain_with_its_runners_up(seed: int) -> None:
    trace = searched(seed, beam_size=1)
    tree, _ = of(trace)
    for t, indices in enumerate(tree.steps):
        nodes = [tree.node(index) for index in indices]
        taken = [node for node in nodes if node.fate != "dropped"]
        assert len(taken) == 1 and taken[0].token_id == trace.predicted_ids[t]
        assert {node.outcome for node in nodes if node not in taken} == {"passed"}
        # The model's most probable tokens, including suppressed ones.
        known = dict(zip(trace.top_ids[t].tolist(), trace.top_log_probs[t].tolist(), strict=True))
        for node in nodes:
            if node.token_id in known:
                assert node.log_prob == pytest.approx(known[node.token_id], abs=1e-6)
        assert set(known) <= {node.token_id for node in nodes}
        assert tree.last_in_beam(t) == taken[0]


def test_what_was_drawn_need_not_be_the_best() -> None:
    trace = searched(5, beam_size=1, sampling=Sampling(temperature=2.0, seed=4), max_length=8)
    tree, _ = of(trace)
    winner = [tree.node(index) for index in tree.winner]
    assert tuple(node.token_id for node in winner) == trace.predicted_ids
    assert tree.sampled and any(node.rank > 0 for node in winner)
    assert not beam_tree(searched(5, beam_size=1)).sampled


def test_a_prefix_leaves_no_choice_and_the_length_limit_cuts_all_that_is_alive() -> None:
    for beam_size in (1, 3):
        tree, _ = of(searched(2, beam_size=beam_size, prefix=(6, 10, 4)))
        assert tree.n_forced == 3
        for t, token_id in enumerate((6, 10, 4)):
            taken = [tree.node(i) for i in tree.steps[t] if tree.node(i).fate != "dropped"]
            assert [node.token_id for node in taken] == [token_id]
            assert tree.winner[t] == taken[0].index
    tree, record = of(searched(1, beam_size=3, max_length=4, end=-30.0))
    leaves = [tree.node(leaf) for leaf in tree.leaves]
    assert [(node.outcome, node.length) for node in leaves] == [("cut", 4)] * 3
    assert len(record.hypotheses) == 3
    tree, record = of(searched(0, beam_size=8, max_length=3, end=-1.0))
    outcomes = [tree.node(leaf).outcome for leaf in tree.leaves]
    assert outcomes[0] == "cut" and "finished" in outcomes and not record.hypotheses[0].complete


def with_last_of_step(trace: Trace, t: int, log_prob: float) -> Trace:
    """Return the trace with another log-probability for a step's last candidate."""
    steps = list(trace.search.steps)
    *others, last = steps[t].candidates
    changed = dataclasses.replace(last, log_prob=log_prob, total=log_prob, score=log_prob)
    steps[t] = dataclasses.replace(steps[t], candidates=(*others, changed))
    return dataclasses.replace(trace, search=dataclasses.replace(trace.search, steps=tuple(steps)))


def test_what_is_impossible_is_left_out_unless_it_was_given() -> None:
    trace = searched(0, beam_size=2)
    whole, less = beam_tree(trace), beam_tree(with_last_of_step(trace, 1, -math.inf))
    assert whole.node(whole.steps[1][-1]).fate == "dropped"
    assert len(less.steps[1]) == len(whole.steps[1]) - 1
    tree = beam_tree(with_last_of_step(searched(0, beam_size=2, prefix=(6,)), 0, -math.inf))
    assert [tree.node(index).token_id for index in tree.steps[0]] == [6]
    tokens = {node.token for seed in range(6) for node in beam_tree(searched(seed)).nodes}
    assert "▁<b>x</b>" in tokens and tokens <= set(PIECES)  # as they are
    with pytest.raises(ValueError, match="no search record"):
        beam_tree(make_trace())


def leaf(total: float, length: int) -> Node:
    return Node(0, -1, length - 1, 0, 0, 2, "</s>", total, total, total, "finished", "finished")


leaves = st.builds(leaf, st.floats(-60, -0.01), st.integers(1, 60))


@given(leaves, leaves, st.sampled_from([PAPER, hugging_face()]))
@settings(max_examples=100)
def test_above_the_crossing_the_longer_wins(a: Node, b: Node, rule: BeamRule) -> None:
    alpha = finish.crossing(a, b, rule)
    if a.length == b.length:
        assert alpha is None
        return
    assume(abs(alpha) < 50)  # beyond, the penalty leaves the range of floats
    longer, shorter = (a, b) if a.length > b.length else (b, a)
    assert finish.score_at(a, alpha, rule) == pytest.approx(
        finish.score_at(b, alpha, rule), rel=1e-6
    )
    assert finish.score_at(longer, alpha + 0.1, rule) > finish.score_at(shorter, alpha + 0.1, rule)
    assert finish.score_at(longer, alpha - 0.1, rule) < finish.score_at(shorter, alpha - 0.1, rule)
    assert finish.crossing(b, a, rule) == pytest.approx(alpha)


def test_worked_by_hand_and_without_a_crossing() -> None:
    # -2 over 7 tokens against -1 over 1: 2 = ((5 + 7) / (5 + 1))^alpha, so alpha = 1.
    short, long = leaf(-1, 1), leaf(-2, 7)
    assert finish.crossing(long, short) == pytest.approx(1.0)
    assert finish.crossing(leaf(0.0, 3), leaf(-1.0, 5)) is None
    assert [each.place for each in finish.winning_ranges([leaf(-1.0, 5), leaf(-1.0, 5)])] == [0]


@given(st.lists(leaves, min_size=1, max_size=7), st.floats(0, 2))
@settings(max_examples=60)
def test_reigns_name_the_winner_of_every_alpha(ended: list[Node], alpha: float) -> None:
    rules = finish.winning_ranges(ended)
    assert (rules[0].low, rules[-1].high) == (0.0, 2.0)
    for before, after in itertools.pairwise(rules):
        assert before.high == after.low and before.place != after.place
        # A larger alpha can only favour a longer one.
        assert ended[before.place].length < ended[after.place].length
    rule = next(each for each in rules if each.low <= alpha <= each.high)
    best = max(finish.score_at(node, alpha) for node in ended)
    assert finish.score_at(ended[rule.place], alpha) == pytest.approx(best, rel=1e-6)


@given(st.integers(0, 2_000), st.sampled_from([0.0, 0.6, 1.5]), st.integers(2, 5))
@settings(max_examples=20)
def test_the_own_alpha_gives_the_order_of_the_search(seed: int, alpha: float, beam: int) -> None:
    tree = beam_tree(searched(seed, beam, alpha, end=1.0))
    ended = [tree.node(index) for index in tree.leaves]
    assert finish.ranking(ended, alpha) == tuple(range(len(ended)))
    for node in ended:
        assert finish.score_at(node, alpha) == pytest.approx(node.score)
        assert finish.score_at(node, 0.0) == pytest.approx(node.total)
    for node in tree.nodes:
        assert finish.could_reach(tree, node) >= node.score
    scores = sorted((node.score for node in ended), reverse=True)
    needed = finish.needed_then(tree, len(tree.steps) - 1)
    assert needed == (scores[beam - 1] if len(scores) >= beam else None)
    assert finish.needed_then(tree, -1) is None
