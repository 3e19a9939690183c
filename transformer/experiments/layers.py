"""The layers of table 1 as modules of width d, [B, n, d] to [B, n, d]."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention, attend
from transformer.config import ModelConfig
from transformer.context import Context
from transformer.hooks import Record, matching
from transformer.measures.layer_costs import LayerKind

#: Width of a head, as in the paper's base model.
D_K = 64


def build(kind: LayerKind, d: int, *, kernel: int, window: int) -> nn.Module:
    """Build a layer with random weights.

    Args:
        d: width, a multiple of `D_K` or less than it.
        kernel: odd.  window: even.
    """
    # One module for each way to attend; other settings of the config are not read.
    config = ModelConfig(d_model=d, n_heads=max(1, d // D_K), d_ff=1)
    if kind == "restricted":
        return RestrictedAttention(config, window)
    attention = partial(MultiHeadAttention, config)
    layers: dict[LayerKind, tuple[Callable[[], nn.Module], Callable[[Any, Tensor], Tensor]]] = {
        "recurrent": (partial(nn.RNN, d, d, batch_first=True), lambda layer, x: layer(x)[0]),
        "lstm": (partial(nn.LSTM, d, d, batch_first=True), lambda layer, x: layer(x)[0]),
        "convolution": (  # padded so that the length stays
            partial(nn.Conv1d, d, d, kernel, padding=kernel // 2), lambda layer, x: layer(x.mT).mT
        ),
        "attention": (attention, lambda layer, x: layer(x, x)),
        "explicit": (attention, _recorded),
        "products": (attention, _bare),
    }  # fmt: skip
    make, call = layers[kind]
    return _Layer(make(), call)


class _Layer(nn.Module):
    def __init__(self, layer: nn.Module, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.layer, x)


def _recorded(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """Self-attention as the models run it with recorded maps."""
    kept = Record(matching(name="weights"))
    output: Tensor = layer(x, x, at=Context("encoder", kept).layer(0).block("self"))
    return output


def _bare(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """Queries, keys and values are the input itself: no projections, as table 1 counts."""
    heads = layer._split(x, layer.d_k)
    return attend(heads, heads, heads).transpose(1, 2).flatten(2)


class RestrictedAttention(MultiHeadAttention):
    """Self-attention to the window / 2 positions on each side and to itself (section 4).

    Queries are cut into blocks of window / 2. Each block meets the keys of three, so the products
    cost 1.5 times what the window needs, and nothing of size n^2 is made.
    """

    def __init__(self, config: ModelConfig, window: int) -> None:
        super().__init__(config)
        self.side = window // 2

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Same shape as x."""
        batch, n, _ = x.shape
        side = self.side
        blocks = -(-n // side)
        k, v = self.keys_values(x)
        q = F.pad(self.queries(x), (0, 0, 0, blocks * side - n))
        q = q.reshape(*q.shape[:2], blocks, side, -1)  # [B, H, blocks, side, d_k]
        margins = (0, 0, side, (blocks + 1) * side - n)
        k, v = (F.pad(each, margins).unfold(2, 3 * side, side).mT for each in (k, v))
        q, k, v = (each.transpose(1, 2).flatten(0, 1) for each in (q, k, v))
        heads = attend(q, k, v, self._mask(blocks, n, x.device).repeat(batch, 1, 1, 1))
        # Back from [B blocks, H, side, d_v] to [B, blocks, side, H, d_v].
        heads = heads.view(batch, blocks, *heads.shape[1:]).transpose(2, 3)
        output: Tensor = self.w_o(heads.reshape(batch, blocks * side, -1)[:, :n])
        return output

    def _mask(self, blocks: int, n: int, device: torch.device) -> Tensor:
        """Return the mask of queries over three blocks of keys, [blocks, 1, side, 3 side]."""
        side = self.side
        query = torch.arange(blocks * side, device=device).view(blocks, side, 1)
        first = torch.arange(blocks, device=device).view(blocks, 1, 1) * side - side
        key = first + torch.arange(3 * side, device=device)
        near: Tensor = ((query - key).abs() <= side) & (key >= 0) & (key < n)
        return (near | (query >= n))[:, None]  # rows of padding see all, as each needs one True
