"""The noun that a pronoun refers to, by attention: the head that singles it out.

There are two places to look it up. The encoder reads the pronoun, and its self-attention asks with
the pronoun's position; the decoder writes a pronoun, and its cross-attention asks with the row that
predicts it. `find_referent` searches every head of both. `best_head` returns the best of
many for a known answer, so `preferred` counts how many heads lean to each noun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer.measures.words import Groups, group_labels, merge, word_groups
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Ints

#: Kinds of attention in which a pronoun is looked up.
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
    # By kind, [L, H, W, Q]: what every head looks at from the other queries.
    elsewhere: dict[AttentionKind, Floats]

    @property
    def n_heads(self) -> int:
        """Number of heads searched."""
        return sum(maps.shape[0] * maps.shape[1] for maps in self.weights.values())

    @property
    def preferred(self) -> Ints:
        """[n_heads], for each head the noun, 0 to N - 1, that holds most weight; -1 in a tie."""
        shares = np.concatenate([
            maps[..., list(self.nouns)].reshape(-1, len(self.nouns))
            for maps in self.weights.values()
        ])  # fmt: skip
        ties = (shares == shares.max(axis=1, keepdims=True)).sum(axis=1) > 1
        return np.where(ties, -1, shares.argmax(axis=1))

    def lead(self, kind: AttentionKind) -> Floats:
        """Return how clearly each head of a kind singles out the first noun, [L, H].

        That is its weight there, less the one on another noun or, if larger, the mean of other
        queries on it; 0 for a head most of whose queries look at one and the same word.
        """
        weights, elsewhere = self.weights[kind], self.elsewhere[kind]
        right, *others = self.nouns
        beside = np.maximum(
            elsewhere[..., right, :].mean(axis=-1), weights[..., others].max(axis=-1, initial=0)
        )
        busiest = elsewhere.argmax(axis=-2)[..., None] == np.arange(len(self.words))
        fixed = busiest.mean(axis=-2).max(axis=-1) > 0.5
        lead: Floats = np.where(fixed, 0, weights[..., right] - beside)
        return lead

    def weights_of(self, kind: AttentionKind, layer: int, head: int) -> HeadWeights:
        """Return the weights of one head."""
        return HeadWeights(kind, layer, head, self.weights[kind][layer, head])


def find_referent(trace: Trace, pronoun: str, nouns: Sequence[str]) -> Referent | None:
    """Find a pronoun, its translation and the nouns, or return None if any is missing.

    The pronoun is the last word of its name, and each noun the last of its own before that. The
    row that translates the pronoun is the one that looks most at it, averaged over all heads; it
    has to look at no other word more, or the pronoun counts as not translated.
    """
    words = word_groups(trace.src_tokens, trace.src_special)
    spoken = [_spoken(label) for label in group_labels(trace.src_tokens, words)]
    at = _last(spoken, pronoun)
    named = tuple(_last(spoken[:at], noun) for noun in nouns)
    maps = {kind: trace.attention(kind) for kind in PLACES}
    if at < 0 or not named or min(named) < 0 or not all(weights.size for weights in maps.values()):
        return None
    alone = [i for i, group in enumerate(words) if group[0] in trace.src_special]
    mean = merge(maps["cross"].mean(axis=(0, 1)), None, words)  # [T, W]
    mean[:, alone] = 0
    step = int(mean[:, at].argmax())
    if mean[step].argmax() != at or not _spoken(trace.predicted_tokens[step]).isalpha():
        return None
    weights: dict[AttentionKind, Floats] = {}
    elsewhere: dict[AttentionKind, Floats] = {}
    for kind, rows in zip(PLACES, (list(words[at]), [step]), strict=True):
        by_word = np.moveaxis(merge(maps[kind], None, words), -2, -1)  # [L, H, W, n]
        weights[kind] = by_word[..., rows].mean(axis=-1)
        elsewhere[kind] = np.delete(by_word, rows, axis=-1)
    return Referent(words, at, named, step, weights, elsewhere)


def best_head(scenes: Sequence[Referent]) -> tuple[AttentionKind, int, int] | None:
    """Return the head that best singles out the first noun of every scene, or None.

    All scenes are of the same model.
    """
    best, most = None, 0.0
    for kind in PLACES:
        lead = np.min([scene.lead(kind) for scene in scenes], axis=0)
        if (largest := float(lead.max())) > most:
            layer, head = divmod(int(lead.argmax()), lead.shape[1])
            best, most = (kind, layer, head), largest
    return best


def _spoken(label: str) -> str:
    return label.lstrip("\u2581").strip(".,;:!?\"'").casefold()


def _last(words: Sequence[str], name: str) -> int:
    """Return the last index of a word, or -1."""
    return max((i for i, word in enumerate(words) if word == name.casefold()), default=-1)
