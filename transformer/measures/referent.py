"""The noun that a pronoun refers to, by attention: the head that looks most at it.

There are two places to look it up. The encoder reads the pronoun, and its self-attention asks with
the pronoun's position; the decoder writes a pronoun, and its cross-attention asks with the row that
predicts it. `find_referent` searches every head of both. The head that it returns is the best of
many for a known answer, so `preferred` counts how many heads lean to each noun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer.measures.words import Groups, group_labels, merge, word_groups
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Ints

#: Where a pronoun can be looked up.
PLACES: tuple[AttentionKind, ...] = ("encoder_self", "cross")


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """Weights of one head (0-based) from one query."""

    kind: AttentionKind
    layer: int
    head: int
    weights: Floats  # [W], the query's weight on each source word; sums to 1


@dataclass(frozen=True, eq=False)
class Referent:
    """A pronoun, the nouns it may stand for, and where the heads look."""

    words: Groups  # [W], positions of each source word's pieces
    pronoun: int  # index of the pronoun in `words`
    nouns: tuple[int, ...]  # [N], indices of the nouns in `words`
    step: int  # the decoder row that predicts the pronoun's translation
    # By kind, [L, H, W]: what every head looks at from the pronoun, over words.
    weights: dict[AttentionKind, Floats]

    @property
    def n_heads(self) -> int:
        """Number of heads searched."""
        return sum(each.shape[0] * each.shape[1] for each in self.weights.values())

    @property
    def preferred(self) -> Ints:
        """[n_heads], for each head the noun, 0 to N - 1, that holds most weight; -1 in a tie."""
        shares = np.concatenate([
            each[..., list(self.nouns)].reshape(-1, len(self.nouns))
            for each in self.weights.values()
        ])  # fmt: skip
        ties = (shares == shares.max(axis=1, keepdims=True)).sum(axis=1) > 1
        return np.where(ties, -1, shares.argmax(axis=1))

    def best(self, noun: int) -> HeadWeights | None:
        """Return the head with the most weight on a noun, of those that look at it most.

        None if every head looks as much at another noun.
        """
        found: HeadWeights | None = None
        for kind, weights in self.weights.items():
            shares = weights[..., list(self.nouns)]
            others = np.delete(shares, noun, axis=-1).max(axis=-1, initial=0)
            most = np.where(shares[..., noun] > others, shares[..., noun], -1)
            layer, head = (int(i) for i in np.unravel_index(most.argmax(), most.shape))
            if most[layer, head] >= 0 and (
                found is None or most[layer, head] > found.weights[self.nouns[noun]]
            ):
                found = self.weights_of(kind, layer, head)
        return found

    def weights_of(self, kind: AttentionKind, layer: int, head: int) -> HeadWeights:
        """Return the weights of one head."""
        return HeadWeights(kind, layer, head, self.weights[kind][layer, head])


def find_referent(trace: Trace, pronoun: str, nouns: Sequence[str]) -> Referent | None:
    """Find a pronoun, its translation and the nouns; None if one of them is missing.

    The pronoun is the last word of its name, and each noun the last of its own before that. The
    row that translates the pronoun is the one that looks most at it, averaged over all heads; it
    has to look at no other word more, or the pronoun counts as not translated.
    """
    words = word_groups(trace.src_tokens, trace.src_special)
    spoken = [_spoken(label) for label in group_labels(trace.src_tokens, words)]
    at = _last(spoken, pronoun)
    found = tuple(_last(spoken[:at], noun) for noun in nouns)
    maps = {kind: trace.attention(kind) for kind in PLACES}
    if at < 0 or not found or min(found) < 0 or not all(each.size for each in maps.values()):
        return None
    alone = [i for i, group in enumerate(words) if group[0] in trace.src_special]
    mean = merge(maps["cross"].mean(axis=(0, 1)), None, words)  # [T, W]
    mean[:, alone] = 0
    step = int(mean[:, at].argmax())
    if mean[step].argmax() != at or not _spoken(trace.predicted_tokens[step]).isalpha():
        return None
    asking = merge(maps["encoder_self"][:, :, list(words[at])], None, words).mean(axis=2)
    weights: dict[AttentionKind, Floats] = {
        "encoder_self": asking,
        "cross": merge(maps["cross"][:, :, step], None, words),
    }
    return Referent(words, at, found, step, weights)


def turned(one: Referent, other: Referent, first: int, second: int) -> int:
    """Return how many heads prefer noun `first` in one sentence and `second` in the other.

    Both sentences are of the same model and ask for the same nouns.
    """
    return int(((one.preferred == first) & (other.preferred == second)).sum())


def _spoken(label: str) -> str:
    return label.lstrip("\u2581").strip(".,;:!?\"'").casefold()


def _last(words: Sequence[str], wanted: str) -> int:
    """Return the last index of a word, -1 without it."""
    return max((i for i, word in enumerate(words) if word == wanted.casefold()), default=-1)
