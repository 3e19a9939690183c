import pytest

from transformer.trees.tree import MAX_DEPTH, Tree, TreeError, read_tree, simplified

GOLD = "(ROOT (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBD sat) (NP (-NONE- *-1))) (. .)))"


def test_reads_and_writes() -> None:
    tree = read_tree("(S (NP (-LRB- -LRB-) (NN cat) (-RRB- -RRB-))\n (VP (VBZ sits)))")
    assert tree.words == ["(", "cat", ")", "sits"]
    assert read_tree(str(tree)) == tree


def test_simplified_drops_traces_functions_indices_and_the_root() -> None:
    assert str(simplified(read_tree(GOLD))) == ("(S (NP (DT The) (NN cat)) (VP (VBD sat)) (. .))")
    assert str(simplified(read_tree("( (S=2 (UH Yes)) (. .))"))) == "(S (S (UH Yes)) (. .))"
    assert str(simplified(read_tree("(ROOT (UH Yes))"))) == "(UH Yes)"
    with pytest.raises(TreeError, match="no word"):
        simplified(Tree("S", (Tree("-NONE-", word="*"),)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no tree"),
        ("(S (NN a)", "1 open brackets"),
        ("(S (NN a)))", "after the end"),
        ("(S)", "empty bracket"),
        ("(S (NN a) b)", "'b' has no tag"),
        ("cat", "before the first"),
        ("(S (NN a b))", "no tag"),
        ("(S " * 500 + "(NN a)" + ")" * 500, f"more than {MAX_DEPTH}"),
    ],
)
def test_says_why_text_is_no_tree(text: str, reason: str) -> None:
    with pytest.raises(TreeError, match=reason.replace("(", r"\(")):
        read_tree(text)
