"""Scaled dot-product and multi-head attention (section 3.2)."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config import ModelConfig
from transformer.hooks import NO_TAP, Tap
from transformer.machinery.cache import BlockCache, KeysValues
from transformer.machinery.kernels import causal_mask, fused_attention, outside_autocast


@outside_autocast
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    tap: Tap = NO_TAP,
) -> Tensor:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (section 3.2.1, eq. 1).

    Args:
        q: [B, H, T, d_k].  k: [B, H, S, d_k].  v: [B, H, S, d_v].
        mask: bool, broadcastable to [B, H, T, S]; True = may attend. Every row needs one True.
        causal: the queries are the last T of the S positions, and each sees itself and those
            before it; joined with `mask`.
        bias: added to the logits before the mask, broadcastable to [B, H, T, S]. Departure:
            relative positions (`transformer.positions.RelativePositions`), not in the paper.
        dropout: probability of dropping a weight (training only). Departure: not in the paper.
        tap: offers "scores" (with the bias, before the mask) and "weights" (rows sum to 1, masked
            entries exactly 0, before dropout). If hooks want neither, a fused kernel computes the
            same output.

    Returns: [B, H, T, d_v].
    """
    if not tap.wants("scores", "weights"):
        return fused_attention(q, k, v, mask, causal=causal, bias=bias, dropout=dropout)
    logits = q @ k.mT / math.sqrt(q.size(-1))  # [B, H, T, S]
    scores = tap("scores", logits if bias is None else logits + bias)
    if causal:
        scores = scores.masked_fill(~causal_mask(q.size(-2), k.size(-2), q.device), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = tap("weights", scores.softmax(-1))
    return F.dropout(weights, dropout) @ v


class MultiHeadAttention(nn.Module):
    """Concat(head_1 .. head_h) W_O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (3.2.2).

    The projections of all heads lie in one matrix each; head i owns rows i d_k .. (i+1) d_k.
    """

    def __init__(self, config: ModelConfig, n_heads: int | None = None) -> None:
        """Args: n_heads: None is `config.n_heads`."""
        super().__init__()
        self.n_heads = n_heads or config.n_heads
        self.d_k = config.d_k or config.d_model // self.n_heads
        self.d_v = config.d_v or config.d_model // self.n_heads
        self.dropout = config.attention_dropout
        bias = config.attention_bias
        self.w_q = nn.Linear(config.d_model, self.n_heads * self.d_k, bias=bias)
        self.w_k = nn.Linear(config.d_model, self.n_heads * self.d_k, bias=bias)
        self.w_v = nn.Linear(config.d_model, self.n_heads * self.d_v, bias=bias)
        self.w_o = nn.Linear(self.n_heads * self.d_v, config.d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
        cache: BlockCache | None = None,
        tap: Tap = NO_TAP,
    ) -> Tensor:
        """Let every position of x [B, T, d_model] attend to `source` [B, S, d_model].

        Args:
            source: x itself in self-attention, the encoder's output in cross-attention.
            mask, causal, bias: see `attend`.
            cache: keys and values of earlier calls, which are joined with those of `source`.

        Returns: [B, T, d_model].
        """
        project = self.keys_values
        k, v = project(source) if cache is None else cache.update(project, source)
        q, k, v = tap("q", self.queries(x)), tap("k", k), tap("v", v)
        dropout = self.dropout if self.training else 0.0
        heads = attend(q, k, v, mask, causal=causal, bias=bias, dropout=dropout, tap=tap)
        heads = tap("heads", heads)
        output: Tensor = self.w_o(heads.transpose(1, 2).flatten(2))  # from [B, H, T, d_v]
        return output

    def queries(self, x: Tensor) -> Tensor:
        """Project [B, T, d_model] to queries [B, H, T, d_k]."""
        return self._split(self.w_q(x), self.d_k)

    def keys_values(self, x: Tensor) -> KeysValues:
        """Project what is attended to, [B, S, d_model], to keys and values."""
        return KeysValues(self._split(self.w_k(x), self.d_k), self._split(self.w_v(x), self.d_v))

    def _split(self, x: Tensor, width: int) -> Tensor:
        return x.reshape(*x.shape[:2], self.n_heads, width).transpose(1, 2)  # [B, H, T, width]
