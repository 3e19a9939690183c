import pytest
from hypothesis import given

from tests.transformer.trees.test_symbols import TREES
from transformer.trees.score import Score, right_branching, score, total
from transformer.trees.tree import Tree, read_tree

GOLD = read_tree(
    "(ROOT (S (NP (DT The) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT a) (NN mat)))) (. .)))"
)
#: The phrase "on a mat" is attached to the subject.
OTHER = read_tree(
    "(ROOT (S (NP (NP (DT The) (NN cat)) (VBD sat) (PP (IN on) (NP (DT a) (JJ mat)))) (. .)))"
)


def test_by_hand() -> None:
    """Gold: S NP VP PP NP; the other: S NP NP PP NP, of which one NP is wrong."""
    found = score(GOLD, OTHER)
    assert (found.matched, found.gold, found.found) == (4, 5, 5)
    assert found.precision == found.recall == found.f1 == 0.8
    assert (found.words, found.tags, found.exact, found.crossing) == (6, 5, 0, 0)


def test_crossing_punctuation_and_prt() -> None:
    gold = read_tree("(S (A (X a) (X b)) (PRT (X c)))")
    assert score(gold, read_tree("(S (X a) (B (X b) (X c)))")).crossing == 1
    assert score(gold, read_tree("(S (A (X a) (X b)) (ADVP (X c)))")).exact == 1
    # A comma inside a phrase or beside it makes no difference; brackets over commas do not count.
    inside = read_tree("(S (NP (NN a) (, ,)) (VP (VB b)))")
    beside = read_tree("(S (NP (NN a)) (PRN (, ,)) (VP (VB b)))")
    assert score(inside, beside) == Score(3, 3, 3, 0, 1, 1, 2, 2)


def test_a_bracket_that_occurs_twice_counts_twice_and_words_have_to_be_the_same() -> None:
    twice, once = read_tree("(NP (NP (NN a) (NN b)))"), read_tree("(NP (NN a) (NN b))")
    assert (score(twice, once).matched, score(twice, once).gold) == (1, 2)
    assert score(once, twice).f1 == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="different sentences"):
        score(GOLD, read_tree("(S (NN dog))"))


@given(TREES)
def test_a_tree_agrees_with_itself(tree: Tree) -> None:
    found = score(tree, tree)
    assert found.matched == found.gold == found.found
    assert (found.exact, found.crossing, found.tags) == (1, 0, found.words)
    assert total([found, found]).gold == 2 * found.gold


def test_right_branching() -> None:
    tree = right_branching(GOLD.words, [leaf.label for leaf in GOLD.leaves()])
    assert str(tree) == (
        "(S (DT The) (VP (NN cat) (VP (VBD sat) (VP (IN on) (NP (DT a) (NN mat))))) (. .))"
    )
    assert right_branching(["Yes"], ["UH"]).words == ["Yes"]
    assert right_branching(["Yes", "."], ["UH", "."]).words == ["Yes", "."]
