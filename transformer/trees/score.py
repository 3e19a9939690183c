"""Labelled bracket scores by the rules of EVALB with Collins' parameters, and a baseline parser.

Sekine and Collins' EVALB deletes punctuation before it counts positions, ignores the node above the
sentence and takes PRT for ADVP; a bracket that occurs twice counts twice. PYEVALB (0.1.3 of 2016)
does none of this: it keeps punctuation and compares sets.

A rule's probability is its share of the phrases with its label (Charniak 1996). Longer rules are
read from the left, two children at a time, through states: NP -> DT JJ NN is NP -> [DT JJ] NN and
[DT JJ] -> DT JJ, which changes no probability. The search (CKY) is exact. Trees that use the same
rules in other places are equally probable: of those, the one with the longest last phrases counts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from transformer.trees.tree import PUNCTUATION, ROOTS, TAG, TRACE_TAG, Tree
from transformer.types import Ints, Reals

Span = tuple[int, int]


class Pcfg:
    """A grammar of labels, tags prefixed with `TAG`, and states."""

    def __init__(self, trees: Iterable[Tree]) -> None:
        """Args: trees: as `read_treebank` returns them."""
        rules = Counter(rule for tree in trees for rule in _rules(Tree(ROOTS[1], (tree,))))
        totals = Counter(rule[0] for rule in rules.elements())
        # States come last. Their names contain spaces, and no rule has a state as its only child.
        self.names = sorted({name for rule in rules for name in rule}, key=lambda n: (" " in n, n))
        self.index = {name: place for place, name in enumerate(self.names)}
        self.n_labels = sum(" " not in name for name in self.names)
        self.steps = np.full((self.n_labels, self.n_labels), -np.inf)  # to an only child
        pairs = []
        for rule, count in rules.items():
            places, log_prob = [self.index[name] for name in rule], np.log(count / totals[rule[0]])
            if len(rule) == 3:
                pairs.append((*places, log_prob))
            elif places[0] != places[1]:
                self.steps[places[0], places[1]] = log_prob
        table = np.array(sorted(pairs)).reshape(-1, 4)
        self.parents, self.lefts, self.rights = table[:, :3].astype(np.int64).T
        self.log_probs = table[:, 3]
        self.chains = np.where(np.eye(self.n_labels), 0, self.steps)  # the best of any length
        for via in range(self.n_labels):
            self.chains = np.maximum(self.chains, self.chains[:, [via]] + self.chains[via])

    def parse(self, words: Sequence[str], tags: Sequence[str]) -> Tree | None:
        """Return the most probable tree over tagged words, or None if there is none."""
        if not all(TAG + tag in self.index for tag in tags):
            return None
        n, best = self.n_labels, dict[Span, Reals]()  # [symbols], log-probabilities
        begun: dict[Span, tuple[Ints, Reals]] = {}  # the rules whose left symbol a span can have
        parents, starts = np.unique(self.parents, return_index=True)
        for width in range(1, len(words) + 1):
            for start in range(len(words) - width + 1):
                span, cell = (start, start + width), np.full(len(self.names), -np.inf)
                log_probs = np.full(len(self.parents), -np.inf)
                for cut in range(start + 1, start + width):
                    rules, left = begun[start, cut]
                    right = best[cut, start + width][self.rights[rules]]
                    log_probs[rules] = np.maximum(log_probs[rules], left + right)
                cell[parents] = np.maximum.reduceat(log_probs, starts)
                if width == 1:
                    cell[self.index[TAG + tags[start]]] = 0
                cell[:n] = (self.chains + cell[:n]).max(axis=1)
                best[span] = cell
                rules = np.flatnonzero(cell[self.lefts] > -np.inf)
                begun[span] = rules, cell[self.lefts[rules]] + self.log_probs[rules]

        def grow(symbol: int, span: Span) -> tuple[Tree, ...]:
            """Return the tree of a label, or the trees of a state."""
            name, (start, end) = self.names[symbol], span
            if end == start + 1 and name == TAG + tags[start]:
                return (Tree(tags[start], word=words[start]),)
            rules = np.flatnonzero(self.parents == symbol)
            lefts, rights = self.lefts[rules], self.rights[rules]
            both = [best[start, c][lefts] + best[c, end][rights] for c in range(start + 1, end)]
            scores = np.array(both).reshape(len(both), len(rules)) + self.log_probs[rules]
            if symbol < n:
                single = self.steps[symbol] + best[span][:n]
                if single.max() > scores.max(initial=-np.inf) + 1e-9:
                    return (Tree(name, grow(int(single.argmax()), span)),)
            at, which = np.unravel_index(np.argmax(scores > scores.max() - 1e-9), scores.shape)
            cut = start + 1 + int(at)
            children = grow(int(lefts[which]), (start, cut)) + grow(int(rights[which]), (cut, end))
            return (Tree(name, children),) if symbol < n else children

        top, whole = self.index[ROOTS[1]], (0, len(words))
        return grow(top, whole)[0].children[0] if best[whole][top] > -np.inf else None


def _rules(tree: Tree) -> Iterator[tuple[str, ...]]:
    """Yield the rules of a tree: a parent, and one child or two."""
    if tree.word is None:
        left, *rest = ((TAG if child.word else "") + child.label for child in tree.children)
        for name in rest[:-1]:
            yield f"{left} {name}", left, name
            left = f"{left} {name}"
        yield (tree.label, left, *rest[-1:])
        for child in tree.children:
            yield from _rules(child)


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
