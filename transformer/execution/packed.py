"""The model packed for fast inference: few large operations instead of many small ones.

The results equal those of `Transformer` up to rounding, as tests check:

- One product computes a token's queries, keys and values; weights include 1 / sqrt(d_k).
- Matrix products from `transformer.execution.products` include the activation and the residual sum.
- Keys and values of the source are computed for all layers at once and stored once per sentence.
- Token by token computations skip the padding of a batch.

The key-value cache of a search is in `transformer.execution.steps`.
"""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.execution.products import Parts, Product, parts_of, stacked
from transformer.kernels import additive, causal_mask, padding_mask
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from transformer.model import Decoded, Encoded, Transformer

#: Share of real tokens in a batch up to which padding is skipped.
MOST_REAL = 0.9


class Connection:
    """The residual connection around a block (section 3.1), whose sum a product computes."""

    def __init__(self, around: Residual) -> None:
        norm = around.norm
        self.pre, self.shape, self.eps = around.pre, norm.normalized_shape, norm.eps
        self.weight, self.bias = norm.weight.detach(), norm.bias.detach()

    def enter(self, x: Tensor) -> Tensor:
        """Return the block's input, given the residual stream."""
        return self._norm(x) if self.pre else x

    def leave(self, joined: Tensor) -> Tensor:
        """Return the residual stream, given its sum with the block's output."""
        return joined if self.pre else self._norm(joined)

    def _norm(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class RealTokens:
    """The real tokens of a batch [B, S] as rows, so that products skip the rest.

    With little padding, moving rows would cost more than it saves, so all tokens are taken.
    """

    def __init__(self, mask: Tensor | None) -> None:
        """Args: mask: [B, 1, 1, S], True for real tokens; None if all are."""
        self.rows: Tensor | None = None
        self.n_all = 0 if mask is None else mask.numel()
        if mask is not None and mask.device.type == "cpu":  # would wait for a GPU
            rows = mask.flatten().nonzero()[:, 0]
            if len(rows) <= MOST_REAL * self.n_all:
                self.rows = rows

    def take(self, x: Tensor) -> Tensor:
        """Return the rows of real tokens of x [B S, n]: [R, n]."""
        return x if self.rows is None else x[self.rows]

    def put(self, x: Tensor) -> Tensor:
        """Put rows [R, n] in their places, with zeros for padding: [B S, n]."""
        if self.rows is None:
            return x
        return x.new_zeros(self.n_all, x.size(1)).index_copy_(0, self.rows, x)


EVERY_TOKEN = RealTokens(None)


class FeedForwardBlock:
    """The feed-forward network (section 3.3) and the connection around it."""

    def __init__(self, feed: FeedForward, around: Residual, *, many: bool) -> None:
        """Args: many: see `Product`."""
        self.inner = Product(*parts_of(feed.w_1), feed.activation, many=many)
        self.outer = Product(*parts_of(feed.w_2), many=many)
        self.around = Connection(around)

    def __call__(self, x: Tensor) -> Tensor:
        """Map [R, d_model]."""
        return self.around.leave(self.outer(self.inner(self.around.enter(x)), x))


def by_head(parts: Sequence[Parts], n_heads: int) -> list[Parts]:
    """Split products into heads: one head's part of every product, then the next head's."""
    heads = zip(*(weight.chunk(n_heads) for weight, _ in parts), strict=True)
    weights = [weight for head in heads for weight in head]
    if parts[0][1] is None:
        return [(weight, None) for weight in weights]
    heads = zip(*(bias.chunk(n_heads) for _, bias in parts if bias is not None), strict=True)
    return list(zip(weights, [bias for head in heads for bias in head], strict=True))


def weigh(
    q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, n_heads: int
) -> tuple[Tensor, Tensor]:
    """Section 3.2.1, eq. 1, with explicit weights, for scaled queries.

    Args:
        q: [B H, T, d_k].  keys: [B H, d_k, S].  values: [B H, S, d_v].
        mask: 0 and -inf, broadcastable to [B, H, T, S], or None.

    Returns: heads [B H, T, d_v] and weights [B H, T, S].
    """
    scores = torch.bmm(q, keys)
    if mask is not None:
        scores.view(-1, n_heads, *scores.shape[1:]).add_(mask)
    weights = scores.softmax(-1)
    return torch.bmm(weights, values), weights


class AttentionBlock:
    """One attention block and the connection around it.

    In self-attention, `project` computes each head's queries, keys and values side by side. In
    cross-attention, it computes only queries, and `sources` holds the weights for the source's
    keys and values.
    """

    def __init__(
        self, attention: MultiHeadAttention, around: Residual, *, cross: bool, many: bool
    ) -> None:
        """Args: many: see `Product`."""
        self.n_heads, self.d_k, self.d_v = attention.n_heads, attention.d_k, attention.d_v
        self.around, self.out = Connection(around), Product(*parts_of(attention.w_o), many=many)
        scale, (weight, bias) = 1 / math.sqrt(self.d_k), parts_of(attention.w_q)
        query = (weight * scale, None if bias is None else bias * scale)
        self.sources = [parts_of(attention.w_k), parts_of(attention.w_v)]
        parts = [query] if cross else by_head([query, *self.sources], self.n_heads)
        self.project = stacked(parts, many=many)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend with scaled queries among the tokens of each row.

        Args:
            q, k, v: [B, T, H, d_k], [B, S, H, d_k] and [B, S, H, d_v].
            mask: bool, broadcastable to [B, H, T, S]; True = may attend.

        Returns: heads side by side [B T, H d_v], and weights [B, H, T, S] if requested.
        """
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        shape, weights = q.shape[:3], None
        if need_weights:
            added = None if mask is None else additive(mask, q.dtype)
            q, k, v = (x.flatten(0, 1) for x in (q, k, v))
            heads, weights = weigh(q, k.mT, v, added, self.n_heads)
            heads, weights = heads.view(*shape, -1), weights.view(*shape, -1)
        else:
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
        return heads.transpose(1, 2).flatten(2).flatten(0, 1), weights

    def leave(self, joined: Tensor, x: Tensor) -> Tensor:
        """Map side-by-side heads [R, H d_v] and the stream x [R, d_model] to the new stream."""
        return self.around.leave(self.out(joined, x))


class PackedLayer:
    """One layer's blocks; `cross` is None in the encoder."""

    def __init__(self, layer: EncoderLayer | DecoderLayer) -> None:
        # A source is read once, with many tokens; a target is written token by token.
        many = isinstance(layer, EncoderLayer)
        self.own = AttentionBlock(layer.self_attention, layer.around_self, cross=False, many=many)
        self.cross: AttentionBlock | None = None
        if isinstance(layer, DecoderLayer):
            self.cross = AttentionBlock(
                layer.cross_attention, layer.around_cross, cross=True, many=False
            )
        self.feed = FeedForwardBlock(layer.feed_forward, layer.around_feed_forward, many=many)

    def self_attend(
        self, x: Tensor, shape: Sequence[int], mask: Tensor | None,
        real: RealTokens = EVERY_TOKEN, *, need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Run self-attention over x, the rows [R, d_model] of real tokens; shape is (B, T).

        Returns: the stream [R, d_model], and weights [B, H, T, T] or None.
        """
        projected = real.put(self.own.project(self.own.around.enter(x)))
        projected = projected.view(*shape, self.own.n_heads, -1)
        q, k, v = projected.split_with_sizes([self.own.d_k, self.own.d_k, self.own.d_v], dim=3)
        joined, weights = self.own.attend(q, k, v, mask, need_weights=need_weights)
        return self.own.leave(real.take(joined), x), weights


class PackedEncoder:
    """A model's encoder, with copied weights; after changing the model, create a new one."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.layers = [
            PackedLayer(layer) for layer in model.encoder if isinstance(layer, EncoderLayer)
        ]

    def encode(
        self, src: Tensor, *, need_weights: bool = False, begin: Callable[[], None] | None = None
    ) -> Encoded:
        """Encode like `Transformer.encode` without hooks; `begin` is called before each layer."""
        mask = padding_mask(src, self.model.config.pad_id)
        real = RealTokens(mask)
        x = real.take(self.model.embed_source(src).flatten(0, 1))  # [R, d_model]
        maps = []
        for layer in self.layers:
            if begin is not None:
                begin()
            x, weights = layer.self_attend(x, src.shape, mask, real, need_weights=need_weights)
            x = layer.feed(x)
            if weights is not None:
                maps.append(weights)
        memory = real.put(self.model.encoder_norm(x)).view(*src.shape, -1)
        return Encoded(memory, mask, torch.stack(maps) if need_weights else None)


class PackedDecoder:
    """A model's decoder, with copied weights; after changing the model, create a new one."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.layers = [
            PackedLayer(layer) for layer in model.decoder if isinstance(layer, DecoderLayer)
        ]
        self.crosses = [layer.cross for layer in self.layers if layer.cross is not None]
        # Keys and values of the source, for all layers at once: [L H (d_k + d_v), d_model].
        self.project = stacked(
            [parts for cross in self.crosses for parts in by_head(cross.sources, cross.n_heads)],
            many=True,
        )
        self.generator = Product(*parts_of(model.generator))

    def sources(self, encoded: Encoded) -> list[tuple[Tensor, Tensor]]:
        """Return the sources' keys [B, S, H, d_k] and values [B, S, H, d_v], layer by layer."""
        memory, cross = encoded.memory, self.crosses[0]
        shape = (*memory.shape[:2], len(self.crosses), cross.n_heads, -1)
        real = RealTokens(encoded.src_mask)
        projected = real.put(self.project(real.take(memory.flatten(0, 1)))).view(shape)
        keys, values = projected.split_with_sizes([cross.d_k, cross.d_v], dim=4)
        return list(zip(keys.unbind(2), values.unbind(2), strict=True))

    def read(
        self, tgt_in: Tensor, encoded: Encoded, begin: Callable[[], None] | None = None, *,
        need_weights: bool = True,
    ) -> tuple[Decoded, Tensor]:  # fmt: skip
        """Teacher forcing, like `Transformer.decode` without cache and hooks.

        Args: tgt_in: [B, T].  begin: called before each layer.

        Returns: the decoder's result, and logits [B, T, V].
        """
        sources, shape = self.sources(encoded), tgt_in.shape
        ahead = causal_mask(shape[1], shape[1], tgt_in.device)
        x = self.model.embed_target(tgt_in).flatten(0, 1)  # [B T, d_model]
        own_maps, cross_maps = [], []
        for layer, cross, (k, v) in zip(self.layers, self.crosses, sources, strict=True):
            if begin is not None:
                begin()
            x, own = layer.self_attend(x, shape, ahead, need_weights=need_weights)
            q = cross.project(cross.around.enter(x)).view(*shape, cross.n_heads, -1)
            joined, weights = cross.attend(q, k, v, encoded.src_mask, need_weights=need_weights)
            x = layer.feed(cross.leave(joined, x))
            if own is not None and weights is not None:
                own_maps.append(own)
                cross_maps.append(weights)
        hidden = self.model.decoder_norm(x)
        logits = self.generator(hidden).view(*shape, -1)
        maps = (torch.stack(stack) if need_weights else None for stack in (own_maps, cross_maps))
        return Decoded(hidden.view(*shape, -1), *maps), logits
