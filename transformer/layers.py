"""Encoder and decoder layers, as in figure 1 (sections 3.1, 3.3 and 5.4)."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.hooks import PLAIN, Context
from transformer.kernels import Dropout, relu

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, the same at every position (section 3.3, eq. 2)."""

    def __init__(self, config: ModelConfig, d_ff: int | None = None) -> None:
        """Args: d_ff: default `config.d_ff`."""
        super().__init__()
        d_ff = config.d_ff if d_ff is None else d_ff
        self.w_1 = nn.Linear(config.d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor, at: Context = PLAIN) -> Tensor:
        """Map [B, T, d_model] to [B, T, d_model]."""
        inner = at("inner", self.activation(self.w_1(x)))  # [B, T, d_ff]
        output: Tensor = self.w_2(inner)
        return output


class Residual(nn.Module):
    """The connection around every sub-layer: LayerNorm(x + Dropout(Sublayer(x))) (section 3.1).

    With norm="pre" it is x + Dropout(Sublayer(LayerNorm(x))). Departure: as in most later models.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor, Context], Tensor], at: Context = PLAIN
    ) -> Tensor:
        """Map the residual stream [B, T, d_model]."""
        read = at("input", self.norm(x).to(x.dtype) if self.pre else x)
        x = x + self.dropout(at("output", sublayer(read, at)))
        return at("hidden", x if self.pre else self.norm(x).to(x.dtype))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config)
        self.around_self = Residual(config)
        self.feed_forward = FeedForward(config)
        self.around_feed_forward = Residual(config)

    def forward(self, x: Tensor, mask: Tensor | None = None, at: Context = PLAIN) -> Tensor:
        """Map x [B, S, d_model]."""
        attend = self.self_attention
        x = self.around_self(x, lambda x, at: attend(x, x, mask, at), at.block("self"))
        output: Tensor = self.around_feed_forward(x, self.feed_forward, at.block("feed_forward"))
        return output


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the encoder's output, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, config.decoder_heads)
        self.around_self = Residual(config)
        self.cross_attention = MultiHeadAttention(config, config.decoder_heads)
        self.around_cross = Residual(config)
        self.feed_forward = FeedForward(config, config.decoder_inner)
        self.around_feed_forward = Residual(config)

    def forward(
        self, x: Tensor, memory: Tensor, src_mask: Tensor | None = None, at: Context = PLAIN
    ) -> Tensor:
        """Map x [B, T, d_model], attending to memory [B, S, d_model]."""
        attend, attend_source = self.self_attention, self.cross_attention
        x = self.around_self(x, lambda x, at: attend(x, x, at=at, causal=True), at.block("self"))
        x = self.around_cross(
            x, lambda x, at: attend_source(x, memory, src_mask, at), at.block("cross")
        )
        output: Tensor = self.around_feed_forward(x, self.feed_forward, at.block("feed_forward"))
        return output
