import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.search.scoring import masked
from transformer.trees.grammar import MOST_OPENED, TreeGrammar, symbols_of
from transformer.trees.score import Pcfg, Score, right_branching, score
from transformer.trees.tree import (
    MAX_DEPTH,
    Tree,
    TreeError,
    agreeing_tag,
    is_symbol,
    read_tree,
    rebuild,
    simplified,
    split_words,
    symbols,
)


def test_trees_are_read_written_and_simplified() -> None:
    tree = read_tree("(S (NP (-LRB- -LRB-) (NN cat) (-RRB- -RRB-))\n (VP (VBZ sits)))")
    assert tree.words == ["(", "cat", ")", "sits"]
    assert read_tree(str(tree)) == tree
    gold = "(ROOT (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBD sat) (NP (-NONE- *-1))) (. .)))"
    assert str(simplified(read_tree(gold))) == "(S (NP (DT The) (NN cat)) (VP (VBD sat)) (. .))"
    assert str(simplified(read_tree("( (S=2 (UH Yes)) (. .))"))) == "(S (S (UH Yes)) (. .))"
    assert str(simplified(read_tree("(ROOT (UH Yes))"))) == "(UH Yes)"
    with pytest.raises(TreeError, match="no word"):
        simplified(Tree("S", (Tree("-NONE-", word="*"),)))


@pytest.mark.parametrize(("text", "reason"), [
    ("", "no tree"),
    ("(S (NN a)", "1 open brackets"),
    ("(S (NN a)))", "after the end"),
    ("(S)", "empty bracket"),
    ("(S (NN a) b)", "'b' has no tag"),
    ("cat", "before the first"),
    ("(S (NN a b))", "no tag"),
    ("(S " * 500 + "(NN a)" + ")" * 500, f"more than {MAX_DEPTH}"),
])  # fmt: skip
def test_says_why_text_is_no_tree(text: str, reason: str) -> None:
    with pytest.raises(TreeError, match=reason.replace("(", r"\(")):
        read_tree(text)


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
def test_any_sequence_becomes_a_tree(sequence: list[str], words: list[str]) -> None:
    rebuilt = rebuild(sequence, words)
    assert rebuilt.tree.words == words
    # Nothing was repaired exactly where the sequence is that of the tree.
    assert (symbols(rebuilt.tree) == sequence) == (not rebuilt.repairs)
    assert len(rebuilt.spans) == len(sequence)
    for item, span in zip(sequence, rebuilt.spans, strict=True):
        if span is not None:
            assert 0 <= span[0] < span[1] <= len(words)
            assert item[0] in "⟨⟩" or span[1] == span[0] + 1


@pytest.mark.parametrize(("sequence", "tree", "repairs"), [
    ("⟨S ⟨NP ·DT the ·NN cat", "(S (NP (DT the) (NN cat) (X sat)))",
     ("1 words left out", "2 brackets never closed")),
    ("⟨S ·DT the ·NN cat ⟩", "(S (DT the) (NN cat) (X sat))", ("1 words left out",)),
    ("⟨S ·DT the ⟨VP ·VBD sat ⟩ ⟩", "(S (DT the) (VP (X cat) (VBD sat)))",
     ("1 words left out",)),
    ("⟩ ⟨S ·DT the ·NN dog ·VBD sat ·IN in ⟨PP ⟩ ⟩", "(S (DT the) (NN cat) (VBD sat))",
     ("1 extra words", "1 words copied wrongly", "1 brackets that closed nothing",
      "1 phrases without words")),
    ("·DT the ·NN cat ·VBD sat ·NN", "(S (DT the) (NN cat) (VBD sat))",
     ("1 tags without a word", "no single phrase over all words")),
    ("⟨S ·DT ⟨NP the ⟩ ·NN cat ·VBD sat ⟩", "(S (NP (X the)) (NN cat) (VBD sat))",
     ("1 words without a tag", "1 tags without a word")),
])  # fmt: skip
def test_repairs_are_named(sequence: str, tree: str, repairs: tuple[str, ...]) -> None:
    rebuilt = rebuild(sequence.split(), ["the", "cat", "sat"])
    assert (str(rebuilt.tree), rebuilt.repairs) == (tree, repairs)


def test_words_of_each_item() -> None:
    sequence = ["⟨S", "⟨NP", "·DT", "the", "·NN", "cat", "⟩", "⟨VP", "·VBD", "sat", "⟩", "⟩"]
    assert rebuild(sequence, ["the", "cat", "sat"]).spans == (
        (0, 3), (0, 2), (0, 1), (0, 1), (1, 2), (1, 2), (0, 2), (2, 3), (2, 3), (2, 3), (2, 3),
        (0, 3),
    )  # fmt: skip


GOLD = read_tree(
    "(ROOT (S (NP (DT The) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT a) (NN mat)))) (. .)))"
)
#: The phrase "on a mat" is attached to the subject.
OTHER = read_tree(
    "(ROOT (S (NP (NP (DT The) (NN cat)) (VBD sat) (PP (IN on) (NP (DT a) (JJ mat)))) (. .)))"
)


def test_scores_by_hand() -> None:
    """Gold: S NP VP PP NP; the other: S NP NP PP NP, with one wrong NP."""
    found = score(GOLD, OTHER)
    assert (found.matched, found.gold, found.found) == (4, 5, 5)
    assert found.precision == found.recall == found.f1 == 0.8
    assert (found.words, found.tags, found.exact, found.crossing) == (6, 5, 0, 0)
    gold = read_tree("(S (A (X a) (X b)) (PRT (X c)))")
    assert score(gold, read_tree("(S (X a) (B (X b) (X c)))")).crossing == 1
    assert score(gold, read_tree("(S (A (X a) (X b)) (ADVP (X c)))")).exact == 1
    # A comma inside a phrase or beside it makes no difference; brackets over commas do not count.
    inside = read_tree("(S (NP (NN a) (, ,)) (VP (VB b)))")
    beside = read_tree("(S (NP (NN a)) (PRN (, ,)) (VP (VB b)))")
    assert score(inside, beside) == Score(3, 3, 3, 0, 1, 1, 2, 2)


def test_a_bracket_twice_counts_twice_and_branches_go_right() -> None:
    twice, once = read_tree("(NP (NP (NN a) (NN b)))"), read_tree("(NP (NN a) (NN b))")
    assert (score(twice, once).matched, score(twice, once).gold) == (1, 2)
    assert score(once, twice).f1 == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="different sentences"):
        score(GOLD, read_tree("(S (NN dog))"))
    tree = right_branching(GOLD.words, [leaf.label for leaf in GOLD.leaves()])
    assert str(tree) == (
        "(S (DT The) (VP (NN cat) (VP (VBD sat) (VP (IN on) (NP (DT a) (NN mat))))) (. .))"
    )
    assert right_branching(["Yes"], ["UH"]).words == ["Yes"]
    assert right_branching(["Yes", "."], ["UH", "."]).words == ["Yes", "."]


@given(TREES)
def test_a_tree_agrees_with_itself(tree: Tree) -> None:
    found = score(tree, tree)
    assert found.matched == found.gold == found.found
    assert (found.exact, found.crossing, found.tags) == (1, 0, found.words)
    assert (found + found).gold == 2 * found.gold


PIECES = (
    "<pad>", "<s>", "</s>", "<unk>", "▁the", "▁c", "at", "▁(", "▁⟨S", "▁⟨NP", "▁⟩", "▁·NN", "▁·DT",
    "▁⟨", "▁·", "⟨S",
)  # fmt: skip
SYMBOLS = symbols_of(PIECES, 2)
assert SYMBOLS is not None


@given(st.lists(st.sampled_from([[4], [5, 6], [7], [3]]), min_size=1, max_size=6), st.randoms())
def test_every_way_through_the_grammar_is_a_tree(words: list[list[int]], draw: object) -> None:
    source = [token for word in words for token in word]
    if words[0] == [3]:
        source = [4, *source]  # an unknown piece joins the word before it
    grammar = TreeGrammar(SYMBOLS, source)  # type: ignore[arg-type]
    state, written = grammar.start(), []
    while True:
        may = np.flatnonzero(grammar.allowed(state))
        token = draw.choice(may.tolist())  # type: ignore[attr-defined]
        if token == 2:
            break
        written.append(token)
        following = grammar.follow(state, token)
        assert following is not None
        state = following
        # A close as often as not, or the walk would hardly end.
        assert state.depth <= (len(grammar.words) + 1) * MOST_OPENED
    text = "".join(PIECES[token] for token in written).split("▁")
    copied = ["".join(PIECES[token] for token in word).strip("▁") for word in grammar.words]
    rebuilt = rebuild([item for item in text if item], copied)
    assert rebuilt.repairs == ()
    assert rebuilt.tree.words == copied


def test_what_is_not_allowed_ends_the_rules_and_has_no_probability() -> None:
    grammar = TreeGrammar(SYMBOLS, [4])  # type: ignore[arg-type]
    assert grammar.follow(grammar.start(), 10) is None
    assert np.flatnonzero(grammar.allowed(grammar.start())).tolist() == [8, 9]
    assert symbols_of(PIECES[:8], 2) is None  # without brackets there is no grammar
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [5.0, 1.0, 1.0]])
    rows = [np.array([True, False, True]), None, np.array([False, True, False])]
    whole = torch.cat(list(masked(logits, rows)))
    assert torch.equal(whole, torch.cat(list(masked(iter(logits.split(2)), rows))))
    assert whole[0].tolist() == [1.0, -math.inf, 3.0]
    assert torch.equal(whole[1], logits[1])
    assert whole.softmax(1)[2].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(("text", "words"), [
    ("Don't (really).", "Do n't ( really ) ."),
    ("It's Mr. Smith's, isn't it?", "It 's Mr. Smith 's , is n't it ?"),
    ('"Well-known," she said...', '" Well - known , " she said ...'),
    ("It cost $5.50 in the U.S. in 1990.", "It cost $ 5.50 in the U.S. in 1990 ."),
    ("They 'll go .", "They 'll go ."),
    ("the dogs' house", "the dogs ' house"),
    ("(" * 3_000 + "So" + "!" * 3_000, "( " * 3_000 + "So" + " !" * 3_000),
])  # fmt: skip
def test_splits_as_the_treebank_does(text: str, words: str) -> None:
    assert split_words(text) == words.split()


@given(st.text(alphabet="abS.,'’\"()-! n't", max_size=30))
def test_nothing_is_lost_and_split_text_stays(text: str) -> None:
    words = split_words(text)
    assert "".join(words) == "".join(text.split())
    assert split_words(" ".join(words)) == words


def test_tags_agree_with_punctuation() -> None:
    assert agreeing_tag("NN", ",") == "," and agreeing_tag("NN", "(") == "-LRB-"
    assert agreeing_tag(",", "cat") == "NN" and agreeing_tag(":", "-") == ":"
    assert agreeing_tag("VB", "cat") == "VB"


Rules = dict[str, dict[tuple[str, ...], float]]


def some_tree(draw: random.Random, depth: int = 0) -> Tree:
    """Return a random tree with one to four children per phrase, including recursive labels."""
    if depth == 3 or (depth and draw.random() < 0.55):
        return Tree(draw.choice("xyz"), word="w")
    n = draw.choice((1, 1, 2, 2, 3, 4))
    return Tree(draw.choice("ABC"), tuple(some_tree(draw, depth + 1) for _ in range(n)))


def walked(tree: Tree) -> list[tuple[str, tuple[str, ...]]]:
    """Yield a tree's rules, with phrases in capitals and tags in lower case."""
    if tree.word is not None:
        return []
    rule = tree.label, tuple(child.label for child in tree.children)
    return [rule, *itertools.chain.from_iterable(map(walked, tree.children))]


def shares(trees: list[Tree]) -> Rules:
    found: Rules = {}
    counts = Counter(rule for tree in trees for rule in walked(Tree("TOP", (tree,))))
    for (label, children), count in counts.items():
        every = sum(other for (name, _), other in counts.items() if name == label)
        found.setdefault(label, {})[children] = count / every
    return found


def highest(rules: Rules, label: str, tags: str, above: tuple[str, ...] = ()) -> float:
    """Return the probability of the best derivation of `tags` from `label` by enumeration."""
    if label not in rules:
        return float(label == tags)
    best = 0.0
    for children, share in rules[label].items():
        if len(children) == 1:
            # A chain that comes back to a label is less likely than one without the detour.
            (child,) = children
            inside = 0 if child in above else highest(rules, child, tags, (*above, label))
            best = max(best, share * inside)
            continue
        for cuts in itertools.combinations(range(1, len(tags)), len(children) - 1):
            parts = zip(children, itertools.pairwise((0, *cuts, len(tags))), strict=True)
            inside = math.prod(highest(rules, child, tags[a:b]) for child, (a, b) in parts)
            best = max(best, share * inside)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_tree_is_the_likeliest_of_all(seed: int) -> None:
    draw = random.Random(seed)
    trees = [some_tree(draw) for _ in range(draw.randint(2, 9))]
    grammar, rules, parsed = Pcfg(trees), shares(trees), 0
    for n in range(1, 5):
        for tags in map("".join, itertools.product("xyz", repeat=n)):
            words = [f"w{place}" for place in range(n)]
            tree, best = grammar.parse(words, list(tags)), highest(rules, "TOP", tags)
            assert (tree is None) == (best == 0), tags
            if tree is not None:
                parsed += 1
                assert [leaf.label for leaf in tree.leaves()] == list(tags) and tree.words == words
                used = walked(Tree("TOP", (tree,)))
                found = math.prod(rules[label][children] for label, children in used)
                assert found == pytest.approx(best, rel=1e-9), tags
    assert parsed


def test_a_phrase_and_a_tag_of_one_name_differ() -> None:
    grammar = Pcfg([read_tree("(S (NP (NN a)) (VB b))"), read_tree("(VB (NN a))")])
    assert str(grammar.parse(["c"], ["NN"])) == "(VB (NN c))"
    assert grammar.parse(["c"], ["VB"]) is None and grammar.parse(["c"], ["JJ"]) is None


def test_of_equally_probable_trees_the_last_phrases_are_longest() -> None:
    """A tree with both phrases at the first noun has equal rules; rounding must not decide."""
    nouns = [read_tree(f"(NP (NN {word}))") for word in "abc"]
    around = read_tree("(NP (NP (NN a)) (PP (IN of) (NP (NN b))))")
    grammar = Pcfg([*nouns, around, *[read_tree("(NP (DT the) (NN a))")] * 5])
    found = grammar.parse(list("aobocod"), ["NN", *["IN", "NN"] * 3])
    end = "(PP (IN o) (NP (NN d)))"
    for word in "cb":
        end = f"(PP (IN o) (NP (NP (NN {word})) {end}))"
    assert str(found) == f"(NP (NP (NN a)) {end})"
