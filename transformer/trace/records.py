"""Frozen NumPy records of a model at work on one sentence.

These records are all that figures and pages know of the model. Nothing here
imports PyTorch. Shape letters: S source tokens, T decoder positions, H heads, V vocabulary,
K alternatives kept per step, Le and Ld encoder and decoder layers, B beam rows.
All log-probabilities are natural (nats). Indices are 0-based; screens show them 1-based.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer.search.records import SearchRecord, Translation
from transformer.types import AttentionKind, Bools, Floats, Ints, checked_kind


@dataclass(frozen=True, eq=False)
class Trace:
    """One sentence through the model: tokens, every attention map, and the predictions.

    Row t of the decoder's maps belongs to the position whose input is `tgt_tokens[t]` and whose
    prediction is `predicted_tokens[t]`. Rows are queries, columns are keys, and rows sum to 1.
    """

    src_tokens: tuple[str, ...]  # [S], ends with `</s>`
    tgt_tokens: tuple[str, ...]  # [T], the decoder's input, starts with `<s>`
    predicted_tokens: tuple[str, ...]  # [T], what each input predicts: the translation and `</s>`
    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    predicted_ids: tuple[int, ...]
    encoder_self: Floats  # [Le, H, S, S]
    decoder_self: Floats  # [Ld, H, T, T]
    cross: Floats  # [Ld, H, T, S]
    log_probs: Floats  # [T], log-probability of each predicted token
    top_ids: Ints  # [T, K], the K most probable next tokens, best first
    top_log_probs: Floats  # [T, K]
    top_tokens: tuple[tuple[str, ...], ...]  # [T][K], their pieces
    entropy: Floats  # [T], entropy of the next-token distribution, in nats
    source: str  # the sentence as typed
    text: str  # the translation, detokenised
    score: float  # log P / length penalty of the translation
    src_unknown: tuple[int, ...] = ()  # positions in `src_tokens` that are `<unk>`
    src_special: tuple[int, ...] = ()  # positions of `<s>`, `</s>` and padding
    tgt_special: tuple[int, ...] = ()  # positions of `<s>`, `</s>` and padding
    complete: bool = True  # False if the length limit cut the translation
    forced: bool = False  # True if the target was given rather than searched for
    search: SearchRecord | None = field(default=None, repr=False)  # None if the target was given
    n_forced: int = 0  # first predicted tokens that were given: those of a prefix, or all T
    allowed: Bools | None = None  # [T, K], which of `top_ids` sampling could choose
    n_allowed: Ints | None = None  # [T], how many tokens sampling could choose from
    # Largest difference of a weight to one pass over the whole translation, if measured.
    forcing_gap: float | None = None
    forced_end: bool = False  # True if the length limit forced `</s>`; `complete` is then False
    states: States | None = field(default=None, repr=False)  # None unless asked for

    @property
    def n_words(self) -> int:
        """Number of predicted tokens without `</s>`."""
        return max(len(self.predicted_tokens) - (self.complete or self.forced_end), 0)

    @property
    def translation(self) -> Translation:
        """The translation alone."""
        n = self.n_words
        return Translation(
            self.text, self.predicted_tokens[:n], self.predicted_ids[:n], self.score,
            tuple(self.log_probs.tolist()), self.complete,
            tuple(self.src_tokens[at] for at in self.src_unknown),
        )  # fmt: skip

    def attention(self, kind: AttentionKind) -> Floats:
        """Return the maps of one kind, [L, H, queries, keys]; `ValueError` for other names."""
        maps: Floats = getattr(self, checked_kind(kind))
        return maps

    def axis_tokens(self, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the (query tokens, key tokens) of one kind: labels of its rows and columns."""
        queries = self.src_tokens if checked_kind(kind) == "encoder_self" else self.tgt_tokens
        return queries, self.tgt_tokens if kind == "decoder_self" else self.src_tokens


class Pair(NamedTuple):
    """A sentence and a translation for the decoder to follow, as ids; see `Trace`."""

    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    predicted_ids: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class States:
    """Values inside the model for one sentence; what was not asked for is empty."""

    #: [1 + L, n, d_model], the residual stream in front of the first layer and behind each
    hidden: dict[StackName, Floats] = field(default_factory=dict)
    #: [L, H, n, d_v], the outputs of heads, before W_O
    heads: dict[AttentionKind, Floats] = field(default_factory=dict)
    #: [L, H, m], the lengths of the keys' value vectors
    value_norms: dict[AttentionKind, Floats] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Weighing:
    """One query's logits, their weights, and what follows from them."""

    logits: Floats  # [m], input of the softmax before the mask
    masked: Floats  # [m], the same, with -inf at masked keys
    weights: Floats  # [m], their softmax; sums to 1
    weighted: Floats  # [m, d_v], each value times its weight
    output: Floats  # [d_v], their sum: the head's output for this query
    contribution: Floats  # [d_model], the output (times its gate) through W_O


@dataclass(frozen=True, eq=False)
class HeadStages:
    """One query in one head, from the tokens' vectors to what the block adds (section 3.2).

    There are m keys; in decoder self-attention all T positions, later ones masked.
    """

    kind: AttentionKind
    layer: int  # 0-based, as are head and query
    head: int
    query: int
    query_token: str
    key_tokens: tuple[str, ...]  # [m]
    x_query: Floats  # [d_model], what W_Q reads
    x_keys: Floats  # [m, d_model], what W_K and W_V read
    q: Floats  # [d_k]
    keys: Floats  # [m, d_k]
    values: Floats  # [m, d_v]
    products: Floats  # [m, d_k], q times each key, element by element
    dots: Floats  # [m], their sums q . k.
    mask: NDArray[np.bool_]  # [m] bool, True = may attend
    scaled: Weighing  # from the logits q . k / sqrt(d_k), as in the model.
    unscaled: Weighing  # from the logits q . k. Both with what relative positions add.
    gate: float  # factor on the head's output, 1 in the paper
    w_o: Floats  # [d_v, d_model], the head's slice of the output projection
    block_output: Floats  # [d_model], of all heads together and the bias
    bias: Floats  # [d_model], of the output projection; zeros if it has none
    has_bias: bool = False  # whether the four projections have biases; the paper's have none
    relative: Floats | None = None  # [m], what relative positions add to the logits


SPLIT_PARTS = ("content_content", "content_position", "position_content", "position_position")


@dataclass(frozen=True, eq=False)
class LogitSplit:
    """The logits of a layer-1 head as a sum: each token is its embedding plus its position.

    Rows are queries and columns keys, [n, n]; values are divided by sqrt(d_k) like the logits.
    """

    kind: AttentionKind  # "encoder_self" or "decoder_self"
    head: int  # 0-based
    tokens: tuple[str, ...]  # [n]
    content_content: Floats  # the four parts, the query's side first
    content_position: Floats
    position_content: Floats
    position_position: Floats
    bias: Floats | None  # all products with a bias of W_Q or W_K, or None
    logits: Floats  # the model's own q . k / sqrt(d_k), before the mask.
    mask: NDArray[np.bool_]  # [n, n] bool, True = may attend
    residual: float  # largest difference between the parts' sum and the logits

    @property
    def parts(self) -> dict[str, Floats]:
        """The maps that sum to the logits, by name."""
        named: dict[str, Floats] = {name: getattr(self, name) for name in SPLIT_PARTS}
        return named if self.bias is None else named | {"bias": self.bias}


StackName = Literal["encoder", "decoder"]
StreamBlock = Literal["self", "cross", "feed_forward"]


@dataclass(frozen=True, eq=False)
class StackStream:
    """The residual stream of one stack (section 3.1): L layers of K blocks that each add to it."""

    tokens: tuple[str, ...]  # [n]
    blocks: tuple[StreamBlock, ...]  # [K], the blocks of a layer in their order
    entering: Floats  # [n, d_model], embedding plus position
    outputs: Floats  # [L, K, n, d_model], what each block adds
    # [L, K, n, d_model], the stream behind each block, in a post-norm model after its LayerNorm.
    hidden: Floats
    leaving: Floats  # [n, d_model], what leaves the stack
    inner: Floats  # [L, n, d_ff], the activations of the feed-forward networks' neurons

    @property
    def before(self) -> Floats:
        """The stream in front of each block, [L, K, n, d_model]."""
        behind = self.hidden.reshape(-1, *self.entering.shape)
        return np.concatenate([self.entering[None], behind[:-1]]).reshape(self.hidden.shape)

    @property
    def norms(self) -> Floats:
        """Lengths of the stream at the input and behind each block, [1 + L K, n]."""
        behind = self.hidden.reshape(-1, *self.entering.shape)
        return _lengths(np.concatenate([self.entering[None], behind]))

    @property
    def added_norms(self) -> Floats:
        """Lengths of what each block adds, [L, K, n]."""
        return _lengths(self.outputs)

    @property
    def shares(self) -> Floats:
        """Share of each block in the sum of the stream and what it adds, [L, K, n].

        It is |added| / (|stream| + |added|): 0 for a block that changes nothing, 0.5 for one that
        adds a vector as long as the stream in front of it.
        """
        added, before = self.added_norms, _lengths(self.before)
        total = added + before
        shares: Floats = np.divide(added, total, out=np.zeros_like(added), where=total > 0)
        return shares

    @property
    def n_firing(self) -> Ints:
        """Number of neurons with an activation above 0, [L, n]."""
        counts: Ints = (self.inner > 0).sum(axis=-1)
        return counts


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(vectors, axis=-1).astype(np.float32)
    return lengths


@dataclass(frozen=True, eq=False)
class Stream:
    """The residual stream of both stacks for one sentence."""

    encoder: StackStream
    decoder: StackStream
    pre_norm: bool  # whether blocks read a normalised copy of the stream, which is then a plain sum

    def stack(self, name: StackName) -> StackStream:
        """Return the stream of one stack."""
        return self.encoder if name == "encoder" else self.decoder


@dataclass(frozen=True, eq=False)
class Promoted:
    """The tokens whose logits a vector raises most."""

    ids: Ints  # [m], best first
    tokens: tuple[str, ...]
    logits: Floats


@dataclass(frozen=True, eq=False)
class FeedForwardReading:
    """One feed-forward network applied to one token."""

    stack: StackName
    layer: int  # 0-based, as is the position
    position: int
    token: str
    added: Floats  # [d_model], what it adds to the stream
    inner: Floats  # [d_ff], its neurons' activations
    neurons: Ints  # [k], those with the largest activations, largest first
    sizes: Floats  # [k], length of what each of them adds: its activation times its row of W_2
    promoted: Promoted | None = None  # what `added` does to the logits, or None in the encoder
    lowered: Promoted | None = None  # the same for the tokens that it lowers most, lowest first
    # By each of the neurons; empty in the encoder.
    neuron_promoted: tuple[Promoted, ...] = ()
    exact: bool = False  # no later layer reads it, so these logits are what it adds to the model's


@dataclass(frozen=True, eq=False)
class Lens:
    """The decoder's distribution after every layer, as if the rest of the stack were left out.

    Row 0 is what enters the first layer; the last row is the model's own distribution.
    """

    top_ids: Ints  # [1 + Ld, T], the most probable token
    top_log_probs: Floats  # [1 + Ld, T], in nats
    ranks: Ints  # [1 + Ld, T], of the token that the model predicts in the end, 1 for the first
    log_probs: Floats  # [1 + Ld, T], of that token


@dataclass(frozen=True, eq=False)
class LogitShares:
    """Shares of the decoder's parts in the difference of two tokens' logits at one step.

    The scale of every LayerNorm is kept as it is, which makes the rest of the decoder linear in
    what heads and networks put out. All shares add up to the difference.
    """

    step: int  # 0-based
    ids: tuple[int, int]  # the difference is of the first token's logit and the second's
    difference: float
    heads: dict[AttentionKind, Floats]  # [Ld, H] of "decoder_self" and "cross"
    feed_forward: Floats  # [Ld], their biases included
    embedding: float  # of the input token
    position: float  # of its position
    bias: float  # of all other biases, including LayerNorms

    @property
    def total(self) -> float:
        """The sum of all shares."""
        arrays = (*self.heads.values(), self.feed_forward)
        parts = sum(float(shares.sum(dtype=np.float64)) for shares in arrays)
        return parts + self.embedding + self.position + self.bias


@dataclass(frozen=True, eq=False)
class Needs:
    """The change of a translation's log-probabilities without single parts of the model.

    Values are in nats for each of the T tokens, negative where a token becomes less likely.
    """

    log_probs: Floats  # [T], with all parts
    heads: dict[AttentionKind, Floats]  # [L, H, T]
    words: Floats  # [S, T], without the edges from any step to a source token
    networks: dict[StackName, Floats]  # [L, T], without a feed-forward network
    layers: dict[StackName, Floats]  # [L, T], without a whole layer

    def of(self, changes: Floats, step: int | None) -> Floats:
        """Return changes [..., T] of one step, or of the whole translation for None: [...]."""
        chosen: Floats = changes.sum(-1) if step is None else changes[..., step]
        return chosen
