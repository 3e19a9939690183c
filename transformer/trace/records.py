"""Frozen NumPy records of a model at work on one sentence, without PyTorch.

Figures and pages know the model by these records only. Shape letters: S source tokens, T decoder
positions, H heads, V vocabulary, K alternatives per step, Le and Ld encoder and decoder layers,
B beam rows. Log-probabilities are in nats. Indices are 0-based; screens show them 1-based.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from transformer.search.records import SearchRecord, Translation
from transformer.text.marks import unmarked
from transformer.types import AttentionKind, Bools, Floats, Ints, checked_kind, literals


@dataclass(frozen=True, eq=False)
class Trace:
    """One sentence through the model: tokens, all attention maps, and predictions.

    Row t of the decoder's maps reads `tgt_tokens[t]` and predicts `predicted_tokens[t]`. Rows are
    queries and sum to 1, columns are keys.
    """

    src_tokens: tuple[str, ...]  # [S], ends with `</s>`
    tgt_tokens: tuple[str, ...]  # [T], the decoder's input, starts with `<s>`
    predicted_tokens: tuple[str, ...]  # [T], the translation and `</s>`
    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    predicted_ids: tuple[int, ...]
    encoder_self: Floats  # [Le, H, S, S]
    decoder_self: Floats  # [Ld, H, T, T]
    cross: Floats  # [Ld, H, T, S]
    log_probs: Floats  # [T], of the predicted tokens, as the search counts them
    top_ids: Ints  # [T, K], most probable next tokens, best first
    top_log_probs: Floats  # [T, K]
    top_tokens: tuple[tuple[str, ...], ...]  # [T][K], their pieces
    entropy: Floats  # [T], of the next-token distribution, in nats
    source: str  # the sentence as typed
    text: str  # the translation, detokenised
    score: float  # log P / length penalty of the translation
    src_unknown: tuple[int, ...] = ()  # positions of `<unk>` in `src_tokens`
    src_special: tuple[int, ...] = ()  # positions of `<s>`, `</s>` and padding
    tgt_special: tuple[int, ...] = ()  # positions of `<s>`, `</s>` and padding
    complete: bool = True  # False if the length limit cut the translation
    forced: bool = False  # True if a target replaced the search
    search: SearchRecord | None = field(default=None, repr=False)  # None with a target
    n_forced: int = 0  # number of forced first tokens: a prefix, or all T
    allowed: Bools | None = None  # [T, K], True for `top_ids` open to sampling
    n_allowed: Ints | None = None  # [T], number of tokens open to sampling
    # Largest weight difference from one pass over the whole translation, if measured.
    forcing_gap: float | None = None
    forced_end: bool = False  # True if the length limit forced `</s>`; `complete` is then False
    states: "States | None" = field(default=None, repr=False)  # None unless recorded
    # [T], length penalties by which the search divides log P of the first tokens; empty if unknown.
    penalties: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    cells: "Cells | None" = field(default=None, repr=False)  # None if the maps hold weights

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
            unmarked(self.src_tokens[at] for at in self.src_unknown),
        )  # fmt: skip

    def attention(self, kind: AttentionKind) -> Floats:
        """Return the maps of one kind, [L, H, queries, keys]. Raises `ValueError` for others."""
        maps: Floats = getattr(self, checked_kind(kind))
        return maps

    def axis_tokens(self, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the query tokens and key tokens of one kind: its row and column labels."""
        queries = self.src_tokens if checked_kind(kind) == "encoder_self" else self.tgt_tokens
        return queries, self.tgt_tokens if kind == "decoder_self" else self.src_tokens


#: Measures of an edge, see `transformer.attribution`.
CellMeasure = Literal["weight", "norm", "zeroing", "contribution", "effect"]
CELL_MEASURES: tuple[CellMeasure, ...] = get_args(CellMeasure)


@dataclass(frozen=True, eq=False)
class Cells:
    """A measure that a trace's maps hold in place of weights; see `transformer.attribution.cells`.

    Layers and heads have one more place, for all of them together, which is not always their mean.
    """

    measure: CellMeasure
    wide: dict[AttentionKind, Floats]  # [L + 1, H + 1, n, m]
    words_only: bool = False  # rows keep words alone
    #: largest difference of a number in a block's output from the sum of its parts
    gap: float = 0.0

    @literals
    def at(self, kind: AttentionKind, layer: int | None = None, head: int | None = None) -> Floats:
        """Return the map of a head, or of all layers or heads together, [n, m]."""
        places = (-1 if place is None else place for place in (layer, head))
        shown: Floats = self.wide[kind][tuple(places)]
        return shown

    def instead_of_weights(self, trace: Trace) -> Trace:
        """Return the trace with this measure in its maps, and without its search."""
        maps = {str(kind): wide[:-1, :-1] for kind, wide in self.wide.items()}
        return replace(trace, **maps, cells=self, search=None)  # type: ignore[arg-type]

    @property
    def signed(self) -> bool:
        """True for changes of a log-probability, in nats; other rows are shares."""
        return self.measure == "effect"


class Pair(NamedTuple):
    """A sentence and a translation for the decoder to follow, as ids; see `Trace`."""

    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    predicted_ids: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class States:
    """Values inside the model for one sentence; empty unless recorded."""

    #: [1 + L, n, d_model], the residual stream before the first layer and after every layer
    hidden: "dict[StackName, Floats]" = field(default_factory=dict)
    #: [L, H, n, d_v], head outputs before W_O
    heads: dict[AttentionKind, Floats] = field(default_factory=dict)
    #: [L, H, m], norms of the value vectors
    value_norms: dict[AttentionKind, Floats] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Weighing:
    """One query's logits, weights and output."""

    logits: Floats  # [m], input of the softmax before the mask
    masked: Floats  # [m], the same with -inf at masked keys
    weights: Floats  # [m], their softmax; sums to 1
    weighted: Floats  # [m, d_v], values times weights
    output: Floats  # [d_v], their sum: the head's output for this query
    contribution: Floats  # [d_model], the output times its gate, through W_O


@dataclass(frozen=True, eq=False)
class HeadStages:
    """One query in one head, from token vectors to the block's output (section 3.2).

    Decoder self-attention has m = T keys, of which later ones are masked.
    """

    kind: AttentionKind
    layer: int  # 0-based, as are head and query
    head: int
    query: int
    key_tokens: tuple[str, ...]  # [m]
    x_query: Floats  # [d_model], input of W_Q
    x_keys: Floats  # [m, d_model], input of W_K and W_V
    q: Floats  # [d_k]
    keys: Floats  # [m, d_k]
    values: Floats  # [m, d_v]
    products: Floats  # [m, d_k], q times the keys, element by element
    dots: Floats  # [m], their sums q . k
    mask: NDArray[np.bool_]  # [m] bool, True = may attend
    scaled: Weighing  # from the model's logits q . k / sqrt(d_k), plus relative positions
    unscaled: Weighing  # from logits q . k, plus relative positions
    gate: float  # factor on the head's output, 1 in the paper
    w_o: Floats  # [d_v, d_model], the head's slice of the output projection
    block_output: Floats  # [d_model], sum of all heads and the bias
    bias: Floats  # [d_model], bias of the output projection, or zeros
    has_bias: bool = False  # whether the four projections have biases, unlike the paper's
    relative: Floats | None = None  # [m], terms of relative positions in the logits


@dataclass(frozen=True, eq=False)
class LogitSplit:
    """The logits of a layer-1 head as a sum over the embeddings and positions of tokens.

    Maps are [n, n], rows are queries; values are divided by sqrt(d_k) like the logits.
    """

    kind: AttentionKind  # "encoder_self" or "decoder_self"
    head: int  # 0-based
    tokens: tuple[str, ...]  # [n]
    #: The maps that sum to the logits: "content_position", ..., the query's part first, and "bias",
    #: all products with a bias of W_Q or W_K, for a model with biases.
    parts: dict[str, Floats]
    logits: Floats  # the model's q . k / sqrt(d_k), before the mask
    mask: NDArray[np.bool_]  # [n, n] bool, True = may attend
    residual: float  # largest difference between logits and the sum of parts


StackName = Literal["encoder", "decoder"]
StreamBlock = Literal["self", "cross", "feed_forward"]


@dataclass(frozen=True, eq=False)
class StackStream:
    """The residual stream of one stack (section 3.1): L layers of K blocks that add to it."""

    tokens: tuple[str, ...]  # [n]
    blocks: tuple[StreamBlock, ...]  # [K], the blocks of a layer in order
    entering: Floats  # [n, d_model], embedding plus position
    outputs: Floats  # [L, K, n, d_model], block outputs, added to the stream
    hidden: Floats  # [L, K, n, d_model], the stream after blocks, and after a post-norm LayerNorm
    leaving: Floats  # [n, d_model], the stack's output
    inner: Floats  # [L, n, d_ff], activations of the feed-forward neurons

    @property
    def states(self) -> Floats:
        """The stream at the input and after the blocks, [1 + L K, n, d_model]."""
        return np.concatenate([self.entering[None], self.hidden.reshape(-1, *self.entering.shape)])

    @property
    def before(self) -> Floats:
        """The stream before the blocks, [L, K, n, d_model]."""
        return self.states[:-1].reshape(self.hidden.shape)

    @property
    def norms(self) -> Floats:
        """Norms of the stream at the input and after the blocks, [1 + L K, n]."""
        return _lengths(self.states)

    @property
    def added_norms(self) -> Floats:
        """Norms of block outputs, [L, K, n]."""
        return _lengths(self.outputs)

    @property
    def shares(self) -> Floats:
        """Block shares |output| / (|stream| + |output|), [L, K, n].

        0 for a block that changes nothing, 0.5 for an output as long as the stream before it.
        """
        return _shares(self.outputs, self.before)

    @property
    def layer_shares(self) -> Floats:
        """Layer shares, as `shares`, [L, n]: a layer adds the stream after it minus that before."""
        before = self.before[:, 0]
        return _shares(self.hidden[:, -1] - before, before)

    @property
    def n_firing(self) -> Ints:
        """Number of neurons with an activation above 0, [L, n]."""
        counts: Ints = (self.inner > 0).sum(axis=-1)
        return counts


def _shares(added: Floats, before: Floats) -> Floats:
    length, total = _lengths(added), _lengths(added) + _lengths(before)
    shares: Floats = np.divide(length, total, out=np.zeros_like(length), where=total > 0)
    return shares


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(vectors, axis=-1).astype(np.float32)
    return lengths


@dataclass(frozen=True, eq=False)
class Stream:
    """The residual stream of both stacks for one sentence."""

    encoder: StackStream
    decoder: StackStream
    pre_norm: bool  # True if blocks read a normalised copy and the stream is a plain sum

    @literals
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

    token: str
    added: Floats  # [d_model], its output
    inner: Floats  # [d_ff], activations of its neurons
    neurons: Ints  # [k], the most active neurons, most active first
    sizes: Floats  # [k], norms of their outputs: activation times row of W_2
    promoted: Promoted | None = None  # tokens with the largest added logits; decoder only
    neuron_promoted: tuple[Promoted, ...] = ()  # [k], for `neurons`; decoder only
    exact: bool = False  # True in the last layer, whose logits add up to the model's


@dataclass(frozen=True, eq=False)
class Lens:
    """The decoder's distribution after every layer, without the later layers.

    Row 0 is the input of the first layer; the last row is the model's distribution.
    """

    top_ids: Ints  # [1 + Ld, T], the most probable token
    top_log_probs: Floats  # [1 + Ld, T], in nats
    ranks: Ints  # [1 + Ld, T], rank of the model's prediction, from 1
    log_probs: Floats  # [1 + Ld, T], its log-probability


@dataclass(frozen=True, eq=False)
class Needs:
    """Changes of a translation's T log-probabilities without single parts of the model, in nats.

    Negative where a token becomes less likely.
    """

    log_probs: Floats  # [T], with all parts
    heads: dict[AttentionKind, Floats]  # [L, H, T]
    words: Floats  # [S, T], without all edges to a source token
    networks: dict[StackName, Floats]  # [L, T], without a feed-forward network
    layers: dict[StackName, Floats]  # [L, T], without a layer

    def of(self, changes: Floats, step: int | None) -> Floats:
        """Return changes [..., T] of one step, or of the whole translation for None: [...]."""
        chosen: Floats = changes.sum(-1) if step is None else changes[..., step]
        return chosen


@dataclass(frozen=True, eq=False)
class Whole:
    """Values of every block of the model for one sentence: all that a picture of it needs.

    n and m are the queries and keys of a kind of attention.
    """

    stream: Stream
    q: dict[AttentionKind, Floats]  # [L, H, n, d_k]
    k: dict[AttentionKind, Floats]  # [L, H, m, d_k]
    v: dict[AttentionKind, Floats]  # [L, H, m, d_v]
    #: [L, H, n, m], terms of relative positions in the logits; empty without them
    relative: dict[AttentionKind, Floats]
    #: [L, H, n], lengths of the heads' parts of the block output, after W_O
    head_norms: dict[AttentionKind, Floats]
    #: [L, H], True for heads whose output an edit replaced: it is not their values' weighted sum
    held: dict[AttentionKind, Bools]
    content: dict[StackName, Floats]  # [n, d_model], embeddings before positions are added
    neurons: dict[StackName, Ints]  # [L, n, k], the most active neurons, most active first
    lens: Lens
    lens_tokens: tuple[tuple[str, ...], ...]  # [1 + L][T], the lens's first tokens
    #: [L, T, P, c], the tokens that the decoder's parts raise most, best first, as indices of
    #: `tokens`, and the logits that they add. Parts are the heads of self-attention and
    #: cross-attention, the network, and its `neurons`. P is 0 if reading takes too long.
    words: Ints
    logits: Floats
    own: Floats  # [L, T, K], logits that blocks add to the predicted token; K is 0 as well as P
    tokens: tuple[str, ...]
