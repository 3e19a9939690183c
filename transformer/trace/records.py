"""Frozen NumPy records of a model at work on one sentence.

These records are all that figures and pages know of the model. Nothing here
imports PyTorch. Shape letters: S source tokens, T decoder positions, H heads, V vocabulary,
K alternatives kept per step, Le and Ld encoder and decoder layers, B beam rows.
All log-probabilities are natural (nats). Indices are 0-based; screens show them 1-based.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transformer.search.records import SearchRecord
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Trace:
    """One sentence through the model: tokens, every attention map, and the predictions.

    Row t of the decoder's maps belongs to the position whose input is `tgt_tokens[t]` and whose
    prediction is `predicted_tokens[t]`. Rows are queries, columns are keys, and rows sum to 1.

    Attributes:
        src_tokens: [S], ends with `</s>`.
        tgt_tokens: [T], the decoder's input, starts with `<s>`.
        predicted_tokens: [T], what each input predicts: the translation and `</s>`.
        src_ids, tgt_ids, predicted_ids: their token ids.
        encoder_self: [Le, H, S, S].  decoder_self: [Ld, H, T, T].  cross: [Ld, H, T, S].
        log_probs: [T], log-probability of each predicted token.
        top_ids, top_log_probs: [T, K], the K most probable next tokens, best first.
        top_tokens: [T][K], their pieces.
        entropy: [T], entropy of the next-token distribution, in nats.
        source: the sentence as typed.  text: the translation, detokenised.
        src_unknown: positions in `src_tokens` that are `<unk>`.
        src_special, tgt_special: positions of `<s>`, `</s>` and padding.
        score: log P / length penalty of the translation.
        complete: False if the length limit cut the translation.
        forced: True if the target was given rather than searched for.
        search: the record of the search, if there was one.
        n_forced: number of first predicted tokens that were given: those of a prefix, or all T.
        allowed: [T, K], which of `top_ids` sampling could choose; None unless sampled.
        n_allowed: [T], how many tokens sampling could choose from; None unless sampled.
        forcing_gap: largest difference of any recorded attention weight to one pass over the whole
            translation (teacher forcing); None if it was not measured.
    """

    src_tokens: tuple[str, ...]
    tgt_tokens: tuple[str, ...]
    predicted_tokens: tuple[str, ...]
    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    predicted_ids: tuple[int, ...]
    encoder_self: Floats
    decoder_self: Floats
    cross: Floats
    log_probs: Floats
    top_ids: Ints
    top_log_probs: Floats
    top_tokens: tuple[tuple[str, ...], ...]
    entropy: Floats
    source: str
    text: str
    score: float
    src_unknown: tuple[int, ...] = ()
    src_special: tuple[int, ...] = ()
    tgt_special: tuple[int, ...] = ()
    complete: bool = True
    forced: bool = False
    search: SearchRecord | None = field(default=None, repr=False)
    n_forced: int = 0
    allowed: Bools | None = None
    n_allowed: Ints | None = None
    forcing_gap: float | None = None

    def attention(self, kind: AttentionKind) -> Floats:
        """Return the maps of one kind, [L, H, queries, keys]; `ValueError` for other names."""
        if kind not in ATTENTION_KINDS:
            raise ValueError(f"attention kind {kind!r} is not one of {', '.join(ATTENTION_KINDS)}")
        maps: Floats = getattr(self, kind)
        return maps

    def axis_tokens(self, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the (query tokens, key tokens) of one kind: labels of its rows and columns."""
        if kind == "encoder_self":
            return self.src_tokens, self.src_tokens
        if kind == "decoder_self":
            return self.tgt_tokens, self.tgt_tokens
        if kind == "cross":
            return self.tgt_tokens, self.src_tokens
        raise ValueError(f"attention kind {kind!r} is not one of {', '.join(ATTENTION_KINDS)}")


@dataclass(frozen=True, eq=False)
class Weighing:
    """One query's logits, their weights, and what follows from them.

    Attributes:
        logits: [m], input of the softmax before the mask.
        masked: [m], the same, with -inf at masked keys.
        weights: [m], their softmax; sums to 1.
        weighted: [m, d_v], each value times its weight.
        output: [d_v], their sum: the head's output for this query.
        contribution: [d_model], the output (times its gate) through W_O.
    """

    logits: Floats
    masked: Floats
    weights: Floats
    weighted: Floats
    output: Floats
    contribution: Floats


@dataclass(frozen=True, eq=False)
class HeadStages:
    """One query in one head, from the tokens' vectors to what the block adds (section 3.2).

    There are m keys; in decoder self-attention all T positions, later ones masked.

    Attributes:
        kind, layer, head, query: layer, head and position are 0-based.
        query_token: the query's token.  key_tokens: [m].
        x_query: [d_model], what W_Q reads.  x_keys: [m, d_model], what W_K and W_V read.
        q: [d_k].  keys: [m, d_k].  values: [m, d_v].
        products: [m, d_k], q times each key, element by element.
        dots: [m], their sums q . k.
        mask: [m] bool, True = may attend.
        scaled: from the logits q . k / sqrt(d_k), as in the model.
        unscaled: from the logits q . k. Both with what relative positions add.
        gate: factor on the head's output, 1 in the paper.
        w_o: [d_v, d_model], the head's slice of the output projection.
        block_output: [d_model], of all heads together and the bias.
        bias: [d_model], of the output projection; zeros if it has none.
        has_bias: whether the four projections have biases; the paper's have none.
        relative: [m], what relative positions add to the logits; None in models without them.
    """

    kind: AttentionKind
    layer: int
    head: int
    query: int
    query_token: str
    key_tokens: tuple[str, ...]
    x_query: Floats
    x_keys: Floats
    q: Floats
    keys: Floats
    values: Floats
    products: Floats
    dots: Floats
    mask: NDArray[np.bool_]
    scaled: Weighing
    unscaled: Weighing
    gate: float
    w_o: Floats
    block_output: Floats
    bias: Floats
    has_bias: bool = False
    relative: Floats | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The head's slices of the projections, as (in, out): W_Q, W_K, W_V, W_O."""
        d_model, d_k, d_v = len(self.x_query), len(self.q), self.values.shape[1]
        return {
            "W_Q": (d_model, d_k), "W_K": (d_model, d_k),
            "W_V": (d_model, d_v), "W_O": (d_v, d_model),
        }  # fmt: skip


SPLIT_PARTS = ("content_content", "content_position", "position_content", "position_position")


@dataclass(frozen=True, eq=False)
class LogitSplit:
    """The logits of a layer-1 head as a sum: each token is its embedding plus its position.

    Rows are queries and columns keys, [n, n]; values are divided by sqrt(d_k) like the logits.

    Attributes:
        kind: "encoder_self" or "decoder_self".  head: 0-based.
        tokens: [n].
        content_content, content_position, position_content, position_position: the four parts,
            the query's side first.
        bias: all products with a bias of W_Q or W_K; None without biases.
        logits: the model's own q . k / sqrt(d_k), before the mask.
        mask: [n, n] bool, True = may attend.
        residual: largest difference between the parts' sum and the logits.
    """

    kind: AttentionKind
    head: int
    tokens: tuple[str, ...]
    content_content: Floats
    content_position: Floats
    position_content: Floats
    position_position: Floats
    bias: Floats | None
    logits: Floats
    mask: NDArray[np.bool_]
    residual: float

    @property
    def parts(self) -> dict[str, Floats]:
        """The maps that sum to the logits, by name."""
        named: dict[str, Floats] = {name: getattr(self, name) for name in SPLIT_PARTS}
        return named if self.bias is None else named | {"bias": self.bias}


StackName = Literal["encoder", "decoder"]
StreamBlock = Literal["self", "cross", "feed_forward"]


@dataclass(frozen=True, eq=False)
class StackStream:
    """The residual stream of one stack (section 3.1): L layers of K blocks that each add to it.

    Attributes:
        tokens: [n].
        blocks: [K], the blocks of a layer in their order.
        entering: [n, d_model], embedding plus position.
        outputs: [L, K, n, d_model], what each block adds.
        hidden: [L, K, n, d_model], the stream behind each block, in a post-norm model after its
            LayerNorm.
        leaving: [n, d_model], what leaves the stack.
        inner: [L, n, d_ff], the activations of the feed-forward networks' neurons.
    """

    tokens: tuple[str, ...]
    blocks: tuple[StreamBlock, ...]
    entering: Floats
    outputs: Floats
    hidden: Floats
    leaving: Floats
    inner: Floats

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
    """The residual stream of both stacks for one sentence.

    Attributes:
        pre_norm: whether blocks read a normalised copy of the stream, which is then a plain sum.
    """

    encoder: StackStream
    decoder: StackStream
    pre_norm: bool

    def stack(self, name: StackName) -> StackStream:
        """Return the stream of one stack."""
        return self.encoder if name == "encoder" else self.decoder


@dataclass(frozen=True, eq=False)
class Promoted:
    """The tokens whose logits a vector raises most.

    Attributes:
        ids, tokens, logits: [m], best first.
    """

    ids: Ints
    tokens: tuple[str, ...]
    logits: Floats


@dataclass(frozen=True, eq=False)
class FeedForwardReading:
    """One feed-forward network applied to one token.

    Attributes:
        stack, layer, position, token: where; indices are 0-based.
        added: [d_model], what it adds to the stream.
        inner: [d_ff], its neurons' activations.
        neurons: [k], those with the largest activations, largest first.
        sizes: [k], length of what each of them adds: its activation times its row of W_2.
        promoted: what `added` does to the logits, or None in the encoder.
        lowered: the same for the tokens that it lowers most, lowest first.
        neuron_promoted: the tokens that each of the neurons raises; empty in the encoder.
        exact: whether these logits are exactly what the network adds to the model's own, and no
            later layer reads it on the way.
    """

    stack: StackName
    layer: int
    position: int
    token: str
    added: Floats
    inner: Floats
    neurons: Ints
    sizes: Floats
    promoted: Promoted | None = None
    lowered: Promoted | None = None
    neuron_promoted: tuple[Promoted, ...] = ()
    exact: bool = False
