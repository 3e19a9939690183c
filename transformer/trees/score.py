"""Labelled bracket scores by the rules of EVALB with Collins' parameters.

Sekine and Collins' EVALB deletes punctuation before it counts positions, ignores the node above the
sentence and takes PRT for ADVP; a bracket that occurs twice counts twice. PYEVALB (0.1.3 of 2016)
does none of this: it keeps punctuation and compares sets.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from transformer.trees.tree import PUNCTUATION, ROOTS, TRACE_TAG, Tree

#: Labels that count as another.
SAME = {"PRT": "ADVP"}

#: Label, first word, one past the last.
Bracket = tuple[str, int, int]


@dataclass(frozen=True)
class Score:
    """Counts over sentences; add scores to join them."""

    #: matched, gold, found: brackets in both trees, in the gold tree, in the tree judged
    matched: int = 0
    gold: int = 0
    found: int = 0
    #: brackets of the tree judged that overlap one of the gold tree, neither inside
    crossing: int = 0
    exact: int = 0  # sentences whose brackets all match
    #: sentences, words, tags: sentences, words that count, and words with the right tag
    sentences: int = 0
    words: int = 0
    tags: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(*map(int.__add__, astuple(self), astuple(other)))

    @property
    def recall(self) -> float:
        """Share of gold brackets in the parses, 0 to 1."""
        return self.matched / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """Share of the parses' brackets in the gold trees, 0 to 1."""
        return self.matched / self.found if self.found else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 0 to 1."""
        both = self.gold + self.found
        return 2 * self.matched / both if both else 0.0


def brackets(tree: Tree, counts: Sequence[bool]) -> list[Bracket]:
    """Return the brackets of a tree over the words that count, without those over none.

    Args: counts: for every word, whether it counts.
    """
    result: list[Bracket] = []
    _collect(tree, 0, counts, 0, result, top=True)
    return result


def _collect(
    tree: Tree, at: int, counts: Sequence[bool], place: int, result: list[Bracket], *, top: bool
) -> tuple[int, int]:
    """Append the brackets from word `at`, number `place`; return both after the tree."""
    if tree.word is not None:
        return at + 1, place + counts[at]
    start, index = place, len(result)
    for child in tree.children:
        at, place = _collect(child, at, counts, place, result, top=False)
    if place > start and not (top and tree.label in ROOTS):
        result.insert(index, (SAME.get(tree.label, tree.label), start, place))
    return at, place


def score(gold: Tree, tree: Tree) -> Score:
    """Compare a tree with the gold tree of the same words.

    The gold tree's tags say which words count. Raises `ValueError` if the words differ.
    """
    if gold.words != tree.words:
        raise ValueError(f"the trees are of different sentences: {gold.words} and {tree.words}")
    tags = [leaf.label for leaf in gold.leaves()]
    counts = [tag not in PUNCTUATION and tag != TRACE_TAG for tag in tags]
    theirs, ours = brackets(gold, counts), brackets(tree, counts)
    matched = (Counter(theirs) & Counter(ours)).total()
    pairs = zip(tags, tree.leaves(), counts, strict=True)
    return Score(
        matched=matched,
        gold=len(theirs),
        found=len(ours),
        crossing=sum(any(crosses(bracket, other) for other in theirs) for bracket in ours),
        exact=int(matched == len(theirs) == len(ours)),
        sentences=1,
        words=sum(counts),
        tags=sum(counted and tag == leaf.label for tag, leaf, counted in pairs),
    )


def crosses(one: Bracket, other: Bracket) -> bool:
    """Return True if two brackets overlap and neither is inside the other."""
    (_, a, b), (_, c, d) = one, other
    return a < c < b < d or c < a < d < b


def total(scores: Iterable[Score]) -> Score:
    """Return the sum of scores."""
    return sum(scores, Score())


def right_branching(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """Return the tree in which every word is followed by a phrase of all later words.

    A baseline: it takes no labels but the commonest, an S around VPs and a last NP, and
    leaves a full stop at the top.
    """
    leaves = [Tree(tag, word=word) for word, tag in zip(words, tags, strict=True)]
    end = leaves.pop() if len(leaves) > 1 and leaves[-1].label in PUNCTUATION else None
    tree = Tree("NP", tuple(leaves[-2:]))
    for leaf in reversed(leaves[:-2]):
        tree = Tree("VP", (leaf, tree))
    if len(leaves) > 2:
        tree = Tree("S", tree.children)
    return tree if end is None else Tree("S", (*tree.children, end))
