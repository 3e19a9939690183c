"""Scaled dot-product and multi-head attention (section 3.2)."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config import ModelConfig
from transformer.hooks import PLAIN, Context
from transformer.kernels import causal_mask, fused_attention, outside_autocast
from transformer.steps import KeysValues


@outside_autocast
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, at: Context = PLAIN, *,
    causal: bool = False, dropout: float = 0.0,
) -> Tensor:  # fmt: skip
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (section 3.2.1, eq. 1).

    Args:
        q: [B, H, T, d_k].  k: [B, H, S, d_k].  v: [B, H, S, d_v].
        mask: bool, broadcastable to [B, H, T, S]; True = may attend. Every row needs one True.
        at: adds relative positions to the logits (departure: not in the paper), and offers hooks
            "scores" (before the mask) and "weights" (rows sum to 1, masked entries exactly 0,
            before dropout). Without such hooks, a fused kernel computes the same output.
        causal: the queries are the last T of the S positions, and see only themselves and earlier
            positions; combined with `mask`.
        dropout: probability of dropping a weight in training. Departure: not in the paper.

    Returns: [B, H, T, d_v].
    """
    if not at.wants("scores", "weights"):
        return fused_attention(q, k, v, mask, at.relative, causal=causal, dropout=dropout)
    scores = q @ k.mT / math.sqrt(q.size(-1))  # [B, H, T, S]
    scores = at("scores", scores if at.relative is None else scores + at.relative)
    if causal:
        scores = scores.masked_fill(~causal_mask(q.size(-2), k.size(-2), q.device), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = at("weights", scores.softmax(-1))
    return F.dropout(weights, dropout) @ v


class MultiHeadAttention(nn.Module):
    """Concat(head_1 .. head_h) W_O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (3.2.2).

    Each matrix has the projections of all heads; head i owns rows i d_k .. (i+1) d_k.
    """

    def __init__(self, config: ModelConfig, n_heads: int | None = None) -> None:
        """Args: n_heads: default `config.n_heads`."""
        super().__init__()
        self.n_heads = config.n_heads if n_heads is None else n_heads
        self.d_k = config.d_k or config.d_model // self.n_heads
        self.d_v = config.d_v or config.d_model // self.n_heads
        self.dropout = config.attention_dropout
        bias = config.attention_bias
        self.w_q = nn.Linear(config.d_model, self.n_heads * self.d_k, bias=bias)
        self.w_k = nn.Linear(config.d_model, self.n_heads * self.d_k, bias=bias)
        self.w_v = nn.Linear(config.d_model, self.n_heads * self.d_v, bias=bias)
        self.w_o = nn.Linear(self.n_heads * self.d_v, config.d_model, bias=bias)

    def forward(
        self, x: Tensor, source: Tensor, mask: Tensor | None = None, at: Context = PLAIN, *,
        causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attend from every position of x [B, T, d_model] to `source` [B, S, d_model].

        Args:
            source: x itself in self-attention, the encoder's output in cross-attention; with a
                cache in `at`, the positions after the cached ones.
            mask, causal: see `attend`.

        Returns: [B, T, d_model].
        """
        k, v = at.keys_values(self.keys_values, source)
        q, k, v = at("q", self.queries(x)), at("k", k), at("v", v)
        heads = at("heads", self.heads(q, k, v, mask, at, causal=causal))
        output: Tensor = self.w_o(heads.transpose(1, 2).flatten(2))  # from [B, H, T, d_v]
        return output

    def heads(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, at: Context, *, causal: bool
    ) -> Tensor:
        """Return the heads' outputs [B, H, T, d_v]; see `attend`."""
        dropout = self.dropout if self.training else 0.0
        return attend(q, k, v, mask, at, causal=causal, dropout=dropout)

    def queries(self, x: Tensor) -> Tensor:
        """Project [B, T, d_model] to queries [B, H, T, d_k]."""
        return self._split(self.w_q(x), self.d_k)

    def keys_values(self, x: Tensor) -> KeysValues:
        """Project the attended positions [B, S, d_model] to keys and values."""
        return KeysValues(self._split(self.w_k(x), self.d_k), self._split(self.w_v(x), self.d_v))

    def _split(self, x: Tensor, width: int) -> Tensor:
        return x.reshape(*x.shape[:2], self.n_heads, width).transpose(1, 2)  # [B, H, T, width]
