"""Fast PyTorch versions of the paper's operations; the mathematics is elsewhere.

Masks are bool, True = may attend.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_Attend = TypeVar("_Attend", bound=Callable[..., Tensor])

#: Queries times keys up to which training on a CPU stores attention weights: for short texts, the
#: fused kernel's backward pass takes longer to compute them again than to read them.
_SHORT = 64 * 64


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """Return the keys that each query may see, if queries are the last positions (section 3.2.3).

    Returns: [n_queries, n_keys] bool; future tokens are False.
    """
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(n_keys - n_queries)


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor | None:
    """Return which tokens [B, S] may be attended to, as [B, 1, 1, S], or None for all."""
    padding = tokens == pad_id
    # Without a mask, the fused kernel takes its fast path. Checking whether one is needed would
    # wait for a GPU and break a compiled graph, so they always get a mask.
    always = tokens.device.type != "cpu" or torch.compiler.is_compiling()
    return ~padding[:, None, None, :] if always or bool(padding.any()) else None


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a bool mask (True = may attend) to 0 and -inf, to be added to scores."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, -math.inf)


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, relative: Tensor | None = None, *,
    causal: bool, dropout: float,
) -> Tensor:  # fmt: skip
    """Compute `transformer.attention.attend` with one PyTorch kernel, which returns no weights.

    Training on short texts on a CPU runs unfused, see `_SHORT`.
    """
    n_queries, n_keys = q.size(-2), k.size(-2)
    if causal and (mask is not None or relative is not None or n_queries != n_keys):
        if n_queries > 1:  # a single query is the last position and sees all keys
            ahead = causal_mask(n_queries, n_keys, q.device)
            mask = ahead if mask is None else mask & ahead
        causal = False
    if relative is not None:  # the kernel takes one matrix for mask and relative positions
        relative = relative.to(q.dtype)
        mask = relative if mask is None else relative.masked_fill(~mask, -math.inf)
    trains = q.device.type == "cpu" and torch.is_grad_enabled() and not dropout
    if trains and n_queries * n_keys <= _SHORT:
        return _plain_attention(q, k, v, causal_mask(n_queries, n_keys) if causal else mask)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal
    )


def _plain_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Unfused attention, which stores weights for the backward pass. Args: mask: bool, or added."""
    logits = (q * q.size(-1) ** -0.5) @ k.mT
    if mask is not None:
        logits = logits + (additive(mask, q.dtype) if mask.dtype == torch.bool else mask)
    attended: Tensor = logits.softmax(-1) @ v
    return attended


def outside_autocast(attend: _Attend) -> _Attend:
    """Run attention outside autocast: in its inputs' type, or in float32 on the CPU.

    On the CPU, the fused kernel's backward pass is ten times slower in bfloat16 than in float32.
    """

    @functools.wraps(attend)
    def attend_outside(q: Tensor, k: Tensor, v: Tensor, *args: Any, **options: Any) -> Tensor:
        if q.device.type == "cpu" and q.dtype == torch.bfloat16:
            q, k, v = q.float(), k.float(), v.float()
        with torch.autocast(q.device.type, enabled=False):
            return attend(q, k, v, *args, **options)

    return cast(_Attend, attend_outside)


def in_stream(x: Tensor) -> Tensor:
    """Cast inputs of the residual stream to the autocast type on a GPU, halving the traffic."""
    if x.device.type == "cuda" and torch.is_autocast_enabled("cuda"):
        return x.to(torch.get_autocast_dtype("cuda"))
    return x


def lookup(table: nn.Embedding, ids: Tensor, pad_id: int) -> Tensor:
    """Return rows of an embedding table, [..., d_model].

    In code compiled for a GPU, PyTorch would sum equal tokens' gradients one after the other if
    sums have a fixed order; its own kernel sorts the tokens first.
    """
    if ids.device.type == "cpu" or not torch.compiler.is_compiling():
        rows: Tensor = table(ids)
        return rows
    apply: Callable[..., Tensor] = _Lookup.apply
    return apply(table.weight, ids, pad_id)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, pad_id: int) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.n_rows, ctx.pad_id = len(table), pad_id
        return F.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, *by_rows: Tensor) -> tuple[Tensor, None, None]:
        (ids,) = ctx.saved_tensors
        return _table_gradient(by_rows[0], ids, ctx.n_rows, ctx.pad_id), None, None


# Padding has gradient 0, so it is left out. A custom operation, or the compiler would split it.
@torch.library.custom_op("headlight::table_gradient", mutates_args=())
def _table_gradient(
    by_rows: torch.Tensor, ids: torch.Tensor, n_rows: int, pad_id: int
) -> torch.Tensor:
    gradient: Tensor = torch.ops.aten.embedding_dense_backward(by_rows, ids, n_rows, pad_id, False)
    return gradient


@_table_gradient.register_fake
def _table_shape(
    by_rows: torch.Tensor, ids: torch.Tensor, n_rows: int, pad_id: int
) -> torch.Tensor:
    return by_rows.new_empty(n_rows, by_rows.size(-1))


def relu(x: Tensor) -> Tensor:
    """max(0, x) (section 3.3). Same shape and type as x."""
    if x.device.type == "cpu" and torch.compiler.is_compiling() and torch.is_grad_enabled():
        # Compiled, `F.relu` stores a mask for the backward pass; writing it takes longer than
        # everything else between two matrix products.
        return (x + x.abs()) / 2
    return F.relu(x)


@functools.cache
def _has_onednn() -> bool:
    """Return True if PyTorch has oneDNN's product, an operation internal to its compiler."""
    x, weight = torch.ones(2, 3), torch.ones(4, 3)
    try:
        result = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    except (AttributeError, RuntimeError, TypeError):
        return False
    return bool((result == 3).all())


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """X W^T + b, in float32 by oneDNN if possible, which is fastest for many rows."""
    if x.device.type == "cpu" and x.dtype == torch.float32 and _has_onednn():
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]
    return F.linear(x, weight, bias)


#: Dropout probabilities on a CPU are multiples of 1 / 65,536.
_STEPS = 2**16


class Dropout(nn.Module):
    """Zero a share `p` of the values while training and scale up the rest (section 5.4)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Same shape and type as x."""
        if not self.training or not self.p:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        kept: Tensor = _kept(x.detach(), self.p)
        return x * kept


# A custom operation: torch.compile's generated loops take twice as long. The argument `x` keeps two
# calls from being merged.
@torch.library.custom_op("headlight::kept", mutates_args=(), device_types="cpu")
def _kept(x: torch.Tensor, p: float) -> torch.Tensor:
    """Draw dropout's factors: 0 with probability p, else 1 / (1 - p).

    On a CPU, most of the time goes into drawing numbers; one 64-bit number decides on four values.
    """
    dropped = round(p * _STEPS)
    if dropped == _STEPS:  # beyond the range of 16 bits
        return torch.zeros_like(x, memory_format=torch.contiguous_format)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    draws = words.view(torch.int16)[: x.numel()]
    kept = (draws >= dropped - _STEPS // 2).view(x.shape).to(x.dtype)
    return kept.mul_(_STEPS / (_STEPS - dropped))


@_kept.register_fake
def _kept_shape(x: torch.Tensor, p: float) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
