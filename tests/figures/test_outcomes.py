"""The sentences on the page of the search tree hold the search's own numbers."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures import outcomes
from figures.labels import probability, signed
from tests.searched import PIECES, searched
from transformer.measures.beam import Tree, beam_tree
from transformer.measures.finish import ranking, winning_ranges
from transformer.search.rules import hugging_face
from transformer.search.sampling import Sampling


def decode(ids: Sequence[int]) -> str:
    return "".join(PIECES[token] for token in ids if token > 2).replace("▁", " ").strip()


def explained(tree: Tree) -> str:
    return outcomes.why_the_winner_won(tree, decode)


@given(st.integers(0, 3_000), st.sampled_from([0.0, 0.6, 2.0]), st.integers(2, 5))
def test_the_winner_s_sentence_has_its_numbers(seed: int, alpha: float, beam: int) -> None:
    tree = beam_tree(searched(seed, beam, alpha, end=1.0, max_length=7))
    winner, text = tree.node(tree.leaves[0]), explained(tree)
    sums = outcomes.score_arithmetic(tree, decode)
    assert f"**{signed(winner.score)}**" in text and "log p" not in text
    for place, leaf in enumerate(map(tree.node, tree.leaves[:2]), 1):
        lp = ((5 + leaf.length) / 6) ** alpha
        assert f"((5 + {leaf.length}) / 6)^{alpha:g} = {lp:.3f} gives" in sums
        assert f"- #{place}: {signed(leaf.total)} / " in sums
        assert f"**{signed(leaf.score)}** ({leaf.length} token" in sums
    if winner.outcome == "finished" and len(tree.leaves) > 1:
        assert f"with {signed(tree.node(tree.leaves[1]).score)}." in text


@given(st.integers(0, 3_000))
def test_a_rival_is_quoted_from_a_word_s_start_and_can_be_told_apart(
    seed: int,
) -> None:
    tree = beam_tree(searched(seed, 4, 0.6, end=1.0))
    for quoted, rest in re.findall(r"#(\d+) `… ([^`]*)`", explained(tree)):
        whole = decode([node.token_id for node in tree.prefix(tree.leaves[int(quoted) - 1])])
        said = rest.removesuffix("…")
        starts = [i + 1 for i, letter in enumerate(whole) if letter == " "]
        assert any(whole[i:].startswith(said) and len(whole) - i >= 14 for i in starts), whole


@given(st.integers(0, 3_000), st.sampled_from([0.0, 0.6, 2.0]))
def test_what_it_says_of_other_alphas_is_true(seed: int, alpha: float) -> None:
    tree = beam_tree(searched(seed, 4, alpha, end=1.0))
    leaves = [tree.node(index) for index in tree.leaves]
    if leaves[0].outcome != "finished" or len(leaves) < 2:
        return
    text, rules = outcomes.score_arithmetic(tree, decode), winning_ranges(leaves)
    likeliest = ranking(leaves, 0.0)[0]
    assert ("most probable of them" in text) == (likeliest == 0)
    if likeliest:
        assert f"(α = 0) #{likeliest + 1} " in text
    assert ("every α from 0 to 2" in text) == (len(rules) == 1)
    for border in re.findall(r"α = (\d\.\d{3})", text):
        below, above = float(border) - 2e-3, float(border) + 2e-3
        assert ranking(leaves, below)[0] != ranking(leaves, above)[0]


def test_greedy_names_its_closest_call() -> None:
    tree = beam_tree(searched(11, beam_size=1, max_length=6))
    close = outcomes.closest_call(tree)
    assert close is not None
    taken, other = close
    assert taken.step == other.step
    assert (taken.fate != "dropped", other.outcome) == (True, "passed")
    leads = []
    for index in tree.winner:
        node = tree.node(index)
        rest = [tree.node(i) for i in tree.steps[node.step] if i != index]
        leads.append(node.log_prob - max(each.log_prob for each in rest))
    assert taken.log_prob - other.log_prob == pytest.approx(min(leads))
    assert f"step {taken.step + 1}" in explained(tree)
    assert probability(taken.log_prob) in explained(tree)


def test_sampled_given_cut_and_lonely_ones_are_told_apart() -> None:
    assert outcomes.score_arithmetic(beam_tree(searched(5, 1)), decode) == ""
    drawn = explained(beam_tree(searched(5, 1, sampling=Sampling(temperature=2.0, seed=4))))
    assert "drawn at random" in drawn
    cut = explained(beam_tree(searched(1, 3, max_length=4, end=-30.0)))
    assert cut.startswith("**No hypothesis finished within 4 tokens.**")
    lonely = beam_tree(searched(0, 1, max_length=1, end=30.0))
    assert "A beam of one" in explained(lonely)


@given(st.integers(0, 2_000), st.integers(1, 4), st.sampled_from([-30.0, 0.0, 2.0]))
def test_every_node_has_a_reason_with_true_numbers(seed: int, beam: int, end: float) -> None:
    tree = beam_tree(searched(seed, beam, end=end, max_length=8))
    texts = [explained(tree)]
    for node in tree.nodes:
        text = outcomes.why_it_went(tree, node)
        texts.append(text)
        assert text.startswith("**") and text.endswith(".")
        if node.outcome == "outranked":
            lack = tree.last_in_beam(node.step).total - node.total
            assert lack >= 0 and f"this one has {signed(lack)} less" in text
        if node.outcome == "finished":
            assert f"place {tree.leaves.index(node.index) + 1} of the {len(tree.leaves)}" in text
    outside = re.sub(r"`[^`]*`", "", " ".join(texts))
    assert "<b>" not in outside and "*a*" not in outside.replace("**", "")


def test_places_penalties_and_counts() -> None:
    tree = beam_tree(searched(4, 4, end=1.0))
    leaves = [tree.node(index) for index in tree.leaves]
    for place, node in enumerate(leaves):
        assert outcomes.place_at(tree, place, tree.alpha) == (place + 1, pytest.approx(node.score))
        rank = 1 + sum(other.total > node.total for other in leaves)
        assert outcomes.place_at(tree, place, 0.0) == (rank, node.total)
    assert outcomes.penalty_of(7, 1.0) == "((5 + 7) / 6)^1 = 2.000"
    assert outcomes.penalty_of(4, 0.5, hugging_face()) == "4^0.5 = 2.000"
    kept = sum(node.fate != "dropped" for node in tree.nodes)
    assert f"{len(tree.steps)} steps, beam 4, {kept} nodes kept" in outcomes.summary(tree, decode)
