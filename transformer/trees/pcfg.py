"""Baseline parser: the most probable tree of tags by a grammar counted from trees.

A rule's probability is its share of the phrases with its label (Charniak 1996). Longer rules are
read from the left, two children at a time, through states: NP -> DT JJ NN is NP -> [DT JJ] NN and
[DT JJ] -> DT JJ, which changes no probability. The search (CKY) is exact. Trees that use the same
rules in other places are equally probable: of those, the one with the longest last phrases counts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from transformer.trees.symbols import TAG
from transformer.trees.tree import ROOTS, Tree
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
            first = np.argmax(scores > scores.max() - 1e-9)
            at, which = np.unravel_index(first, scores.shape)
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
