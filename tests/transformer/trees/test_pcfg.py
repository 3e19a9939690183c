"""The grammar of trees, against one that tries every derivation."""

import itertools
import math
import random
from collections import Counter

import pytest

from transformer.trees.pcfg import Pcfg
from transformer.trees.tree import Tree, read_tree

Rules = dict[str, dict[tuple[str, ...], float]]


def some_tree(draw: random.Random, depth: int = 0) -> Tree:
    """A random tree; phrases of one, two, three and four children, of themselves too."""
    if depth == 3 or (depth and draw.random() < 0.55):
        return Tree(draw.choice("xyz"), word="w")
    n = draw.choice((1, 1, 2, 2, 3, 4))
    return Tree(draw.choice("ABC"), tuple(some_tree(draw, depth + 1) for _ in range(n)))


def walked(tree: Tree) -> list[tuple[str, tuple[str, ...]]]:
    """The rules of a tree, a phrase in capitals and a tag in small letters."""
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
    """The probability of the likeliest derivation of `tags` from `label`; tries every one."""
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
            ends = itertools.pairwise((0, *cuts, len(tags)))
            parts = zip(children, ends, strict=True)
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
    """One with both phrases at the first noun uses the same rules, and rounding does not decide."""
    nouns = [read_tree(f"(NP (NN {word}))") for word in "abc"]
    around = read_tree("(NP (NP (NN a)) (PP (IN of) (NP (NN b))))")
    grammar = Pcfg([*nouns, around, *[read_tree("(NP (DT the) (NN a))")] * 5])
    found = grammar.parse(list("aobocod"), ["NN", *["IN", "NN"] * 3])
    end = "(PP (IN o) (NP (NN d)))"
    for word in "cb":
        end = f"(PP (IN o) (NP (NP (NN {word})) {end}))"
    assert str(found) == f"(NP (NP (NN a)) {end})"
