"""The layers of encoder and decoder (sections 3.1, 3.3 and 5.4), and what passes between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.attention import KeysValues, MultiHeadAttention, causal_mask
from transformer.config import ModelConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
}


@dataclass(frozen=True, eq=False)
class Encoded:
    """The encoder's result: memory [B, S, d_model], src_mask [B, 1, 1, S], attention per layer.

    `attention` is [Le, B, H, S, S] where weights were asked for, else None.
    """

    memory: Tensor
    src_mask: Tensor | None
    attention: Tensor | None = None


@dataclass(eq=False)
class DecoderCache:
    """Keys and values of the decoder so far, one entry a layer: prefix and source.

    Attributes:
        prefix: self-attention keys and values, [B, H, t, d_k] and [B, H, t, d_v].
        source: cross-attention keys and values, [B, H, S, d_k] and [B, H, S, d_v].
    """

    prefix: list[KeysValues] = field(default_factory=list)
    source: list[KeysValues] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Number of decoder positions held."""
        return self.prefix[0].k.size(2) if self.prefix else 0

    def select(self, rows: Tensor) -> None:
        """Keep `rows` [B'] (indices into the batch, repeats allowed), in that order."""
        for entries in (self.prefix, self.source):
            entries[:] = [KeysValues(k[rows], v[rows]) for k, v in entries]


class Dropout(nn.Module):
    """Zero a share `p` of the values while training and scale up the rest (section 5.4)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Same shape and type as x."""
        if not self.training or not self.p:
            return x
        if not torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        # Compiled for a CPU, a mask of bools costs more than the rest of the layer's small
        # operations together, so keep or drop is computed as the number 1 or 0.
        kept = (torch.rand(x.shape, device=x.device) + (1 - self.p)).floor()
        return x * (kept / (1 - self.p)).to(x.dtype)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, the same at every position (section 3.3, eq. 2)."""

    def __init__(self, config: ModelConfig, d_ff: int | None = None) -> None:
        """Args: d_ff: None is `config.d_ff`."""
        super().__init__()
        self.w_1 = nn.Linear(config.d_model, d_ff or config.d_ff)
        self.w_2 = nn.Linear(d_ff or config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, T, d_model] to [B, T, d_model]."""
        inner = self.activation(self.w_1(x))  # [B, T, d_ff]
        output: Tensor = self.w_2(inner)
        return output


class Residual(nn.Module):
    """The connection around every sub-layer: LayerNorm(x + Dropout(Sublayer(x))) (section 3.1).

    With norm="pre" it is x + Dropout(Sublayer(LayerNorm(x))). Departure: not in the paper, but how
    most later models are built. The sub-layer runs between `enter` and `leave`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What the sub-layer sees."""
        if self.pre:
            x = self.norm(x)
        return x

    def leave(self, x: Tensor, output: Tensor) -> Tensor:
        """Join the residual stream `x` and the sub-layer's `output`."""
        joined: Tensor = x + self.dropout(output)
        if not self.pre:
            joined = self.norm(joined)
        return joined


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config)
        self.around_self = Residual(config)
        self.feed_forward = FeedForward(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self, x: Tensor, src_mask: Tensor | None, gates: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Map x [B, S, d_model]; also the weights [B, H, S, S] where asked for."""
        seen = self.around_self.enter(x)
        output, weights = self.self_attention(
            seen,
            self.self_attention.keys_values(seen),
            src_mask,
            gates=gates,
            need_weights=need_weights,
        )
        x = self.around_self.leave(x, output)
        seen = self.around_feed_forward.enter(x)
        return self.around_feed_forward.leave(x, self.feed_forward(seen)), weights


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, config.decoder_heads)
        self.around_self = Residual(config)
        self.cross_attention = MultiHeadAttention(config, config.decoder_heads)
        self.around_cross = Residual(config)
        self.feed_forward = FeedForward(config, config.decoder_inner)
        self.around_feed_forward = Residual(config)

    def forward(
        self,
        x: Tensor,
        encoded: Encoded,
        layer: int,
        cache: DecoderCache | None,
        self_gates: Tensor | None,
        cross_gates: Tensor | None,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Map x [B, T, d_model]; also the self [B, H, T, T'] and cross [B, H, T, S] weights."""
        seen = self.around_self.enter(x)
        prefix = self.self_attention.keys_values(seen)
        from_start, mask = True, None
        if cache is not None:
            if layer < len(cache.prefix):
                from_start = False
                k, v = cache.prefix[layer]
                prefix = KeysValues(torch.cat([k, prefix.k], 2), torch.cat([v, prefix.v], 2))
                cache.prefix[layer] = prefix
            else:
                cache.prefix.append(prefix)
        if not from_start and x.size(1) > 1:
            # One new position may see everything before it; several need the mask cut to size.
            mask = causal_mask(x.size(1), prefix.k.size(2), x.device)
        output, self_weights = self.self_attention(
            seen,
            prefix,
            mask,
            causal=from_start,
            gates=self_gates,
            need_weights=need_weights,
        )
        x = self.around_self.leave(x, output)

        seen = self.around_cross.enter(x)
        if cache is not None and layer < len(cache.source):
            source = cache.source[layer]
        else:
            source = self.cross_attention.keys_values(encoded.memory)
            if cache is not None:
                cache.source.append(source)
        output, cross_weights = self.cross_attention(
            seen,
            source,
            encoded.src_mask,
            gates=cross_gates,
            need_weights=need_weights,
        )
        x = self.around_cross.leave(x, output)
        seen = self.around_feed_forward.enter(x)
        x = self.around_feed_forward.leave(x, self.feed_forward(seen))
        return x, self_weights, cross_weights
