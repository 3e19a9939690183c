import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.trees.symbols import is_symbol, rebuild, symbols
from transformer.trees.tree import Tree

WORDS = st.sampled_from(["cat", "sat", "(", "don't", "ß"])
LEAVES = st.builds(
    lambda tag, word: Tree(tag, word=word), st.sampled_from(["NN", "DT", ","]), WORDS
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda label, children: Tree(label, tuple(children)),
        st.sampled_from(["NP", "VP", "S"]),
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=12,
)
ITEMS = ["⟨NP", "⟨S", "⟩", "·NN", "·DT", "cat", "sat", "dog", "⟨", "·"]
SEQUENCES = st.lists(st.sampled_from(ITEMS), max_size=25)


@given(TREES)
def test_a_tree_is_its_sequence(tree: Tree) -> None:
    sequence = symbols(tree)
    rebuilt = rebuild(sequence, tree.words)
    assert rebuilt.tree == tree
    assert rebuilt.repairs == ()
    assert [item for item in sequence if not is_symbol(item)] == tree.words


@given(SEQUENCES, st.lists(WORDS, min_size=1, max_size=8))
def test_any_sequence_becomes_a_tree_over_all_the_words(
    sequence: list[str], words: list[str]
) -> None:
    rebuilt = rebuild(sequence, words)
    assert rebuilt.tree.words == words
    # Nothing was repaired exactly where the sequence is that of the tree.
    assert (symbols(rebuilt.tree) == sequence) == (not rebuilt.repairs)
    assert len(rebuilt.spans) == len(sequence)
    for item, span in zip(sequence, rebuilt.spans, strict=True):
        if span is not None:
            assert 0 <= span[0] < span[1] <= len(words)
            assert item[0] in "⟨⟩" or span[1] == span[0] + 1


@pytest.mark.parametrize(
    ("sequence", "tree", "repairs"),
    [
        ("⟨S ⟨NP ·DT the ·NN cat", "(S (NP (DT the) (NN cat) (X sat)))",
         ("1 words left out", "2 brackets never closed")),
        ("⟨S ·DT the ·NN cat ⟩", "(S (DT the) (NN cat) (X sat))", ("1 words left out",)),
        ("⟨S ·DT the ⟨VP ·VBD sat ⟩ ⟩", "(S (DT the) (VP (X cat) (VBD sat)))",
         ("1 words left out",)),
        ("⟩ ⟨S ·DT the ·NN dog ·VBD sat ·IN in ⟨PP ⟩ ⟩", "(S (DT the) (NN cat) (VBD sat))",
         ("1 words too many", "1 words copied wrongly", "1 brackets that closed nothing",
          "1 phrases without words")),
        ("·DT the ·NN cat ·VBD sat ·NN", "(S (DT the) (NN cat) (VBD sat))",
         ("1 tags without a word", "no single phrase over all words")),
    ],
)  # fmt: skip
def test_repairs_are_named(sequence: str, tree: str, repairs: tuple[str, ...]) -> None:
    rebuilt = rebuild(sequence.split(), ["the", "cat", "sat"])
    assert (str(rebuilt.tree), rebuilt.repairs) == (tree, repairs)


def test_words_of_each_item() -> None:
    sequence = ["⟨S", "⟨NP", "·DT", "the", "·NN", "cat", "⟩", "⟨VP", "·VBD", "sat", "⟩", "⟩"]
    assert rebuild(sequence, ["the", "cat", "sat"]).spans == (
        (0, 3), (0, 2), (0, 1), (0, 1), (1, 2), (1, 2), (0, 2), (2, 3), (2, 3), (2, 3), (2, 3),
        (0, 3),
    )  # fmt: skip
