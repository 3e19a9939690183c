"""Scaled dot-product and multi-head attention (section 3.2).

There is one definition of attention and two ways to run it. `attend` materialises the weights
where they are asked for and uses PyTorch's fused kernel where they are not; a test holds the two
equal. Weights are returned, before dropout, and never kept on a module.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config import ModelConfig


class KeysValues(NamedTuple):
    """Projected keys [B, H, S, d_k] and values [B, H, S, d_v] of one attention block."""

    k: Tensor
    v: Tensor


class Attended(NamedTuple):
    """What an attention block returns: output [B, T, d_model], weights [B, H, T, S] or None."""

    output: Tensor
    weights: Tensor | None


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    need_weights: bool = False,
    dropout: float = 0.0,
    causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (section 3.2.1, eq. 1).

    Args:
        q: [B, H, T, d_k].  k: [B, H, S, d_k].  v: [B, H, S, d_v].
        mask: bool, broadcastable to [B, H, T, S]; True = may attend. Every row needs one True.
        need_weights: also return the weights, computed explicitly.
        dropout: probability of dropping a weight (training only); returned weights are before it.
        causal: query t may attend to keys 0 .. t only (needs T = S); joined with `mask`.

    Returns: output [B, H, T, d_v] and weights [B, H, T, S] (rows sum to 1, masked entries exactly
        0), or None for the weights.
    """
    if causal and (need_weights or mask is not None):
        ahead = causal_mask(q.size(-2), k.size(-2), device=q.device)
        mask = ahead if mask is None else mask & ahead
        causal = False
    if not need_weights:
        fused = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        return fused, None
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # [B, H, T, S]
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    kept = F.dropout(weights, dropout) if dropout else weights
    return kept @ v, weights


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """Which keys each query may see when the queries are the last of the keys (section 3.2.3).

    Returns: [n_queries, n_keys] bool; True = may attend, so a future token is False.
    """
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(n_keys - n_queries)


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

    def queries(self, x: Tensor) -> Tensor:
        """Project [B, T, d_model] to queries [B, H, T, d_k]."""
        return self._split(self.w_q(x), self.d_k)

    def keys_values(self, x: Tensor) -> KeysValues:
        """Project what is attended to, [B, S, d_model], to keys and values."""
        return KeysValues(self._split(self.w_k(x), self.d_k), self._split(self.w_v(x), self.d_v))

    def forward(
        self,
        x: Tensor,
        keys_values: KeysValues,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        gates: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """Attend from x to what `keys_values` were projected from.

        Args:
            x: [B, T, d_model], where the queries come from.
            keys_values: from `keys_values()`, of x itself in self-attention.
            mask, causal: see `attend`.
            gates: [H], a factor for each head's output before W_O; None is all ones.
            need_weights: also return the weights.
        """
        q = self.queries(x)  # [B, H, T, d_k]
        k, v = keys_values
        if q.device.type == "cpu" and q.dtype == torch.bfloat16:
            # The fused kernel's backward is ten times slower in bfloat16 on the CPU.
            q, k, v = q.float(), k.float(), v.float()
        with torch.autocast(q.device.type, enabled=False):
            heads, weights = attend(
                q,
                k,
                v,
                mask,
                causal=causal,
                need_weights=need_weights,
                dropout=self.dropout if self.training else 0.0,
            )  # [B, H, T, d_v]
        if gates is not None:
            heads = heads * gates[:, None, None]
        joined = heads.transpose(1, 2).flatten(2)  # [B, T, H d_v]
        return Attended(self.w_o(joined), weights)

    def _split(self, x: Tensor, width: int) -> Tensor:
        return x.reshape(*x.shape[:2], self.n_heads, width).transpose(1, 2)  # [B, H, T, width]
