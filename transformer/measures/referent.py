"""Attention from a pronoun to the noun that it refers to.

Two kinds of attention may resolve a pronoun: encoder self-attention from the pronoun's position,
and cross-attention from the decoder row that predicts its translation. `find_referent` searches
both. `best_head` is chosen among many heads knowing the answer, so `preferred` counts how many
heads prefer each noun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer.measures.words import Groups, group_labels, merge, word_groups
from transformer.text.marks import unmarked
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Ints, literals

#: Kinds of attention searched.
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
    """A pronoun, its candidate nouns, and each head's weights."""

    words: Groups  # [W], positions of each source word's pieces
    pronoun: int  # index of the pronoun in `words`
    nouns: tuple[int, ...]  # [N], indices of the nouns in `words`
    step: int  # the decoder row that predicts the pronoun's translation
    weights: dict[AttentionKind, Floats]  # by kind, [L, H, W], from the pronoun to words
    elsewhere: dict[AttentionKind, Floats]  # by kind, [L, H, W, Q], from other queries

    @property
    def n_heads(self) -> int:
        """Number of heads searched."""
        return sum(maps.shape[0] * maps.shape[1] for maps in self.weights.values())

    @property
    def preferred(self) -> Ints:
        """Noun with the most weight for each head, [n_heads], 0 to N - 1; -1 for a tie."""
        shares = np.concatenate([
            maps[..., list(self.nouns)].reshape(-1, len(self.nouns))
            for maps in self.weights.values()
        ])  # fmt: skip
        ties = (shares == shares.max(axis=1, keepdims=True)).sum(axis=1) > 1
        return np.where(ties, -1, shares.argmax(axis=1))

    @literals
    def lead(self, kind: AttentionKind) -> Floats:
        """Return how clearly each head selects the first noun, [L, H].

        This is the weight on that noun minus the larger of the best other noun's weight and other
        queries' mean weight on it, or 0 if most queries look most at the same word.
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

    @literals
    def weights_of(self, kind: AttentionKind, layer: int, head: int) -> HeadWeights:
        """Return one head's weights."""
        return HeadWeights(kind, layer, head, self.weights[kind][layer, head])


def find_referent(trace: Trace, pronoun: str, nouns: Sequence[str]) -> Referent | None:
    """Find a pronoun, its translation and the nouns, or return None if any is missing.

    The pronoun is its last occurrence, and each noun the last occurrence before it. The decoder
    row that translates the pronoun has the largest weight on it, averaged over heads; if that row
    looks more at another word, the pronoun counts as untranslated.
    """
    words = word_groups(trace.src_tokens, trace.src_special)
    spoken = [_spoken(label) for label in group_labels(unmarked(trace.src_tokens), words)]
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
    """Return the head that best selects the first noun in every scene, or None if none does.

    All scenes have the same model.
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
    return max((i for i, word in enumerate(words) if word == name.casefold()), default=-1)
