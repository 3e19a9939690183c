"""The key-value cache of decoding: no position is projected twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor


class KeysValues(NamedTuple):
    """Projected keys [B, H, S, d_k] and values [B, H, S, d_v] of one attention block."""

    k: Tensor
    v: Tensor


@dataclass(eq=False)
class BlockCache:
    """What one attention block keeps between calls.

    Attributes:
        grows: whether each call adds positions (self-attention) or all come with the first
            (cross-attention).
        kept: keys and values so far, or None before the first call.
    """

    grows: bool
    kept: KeysValues | None = None

    def update(self, project: Callable[[Tensor], KeysValues], source: Tensor) -> KeysValues:
        """Return the keys and values of every position so far; `project` makes new ones."""
        if self.kept is None:
            self.kept = project(source)
        elif self.grows:
            pairs = zip(self.kept, project(source), strict=True)
            self.kept = KeysValues(*(torch.cat(pair, dim=2) for pair in pairs))
        return self.kept


@dataclass(frozen=True, eq=False)
class LayerCache:
    """A decoder layer's caches; None computes everything anew.

    Attributes:
        prefix: of self-attention, [B, H, t, d_k] and [B, H, t, d_v].
        source: of cross-attention, [B, H, S, d_k] and [B, H, S, d_v].
    """

    prefix: BlockCache | None = None
    source: BlockCache | None = None


#: A layer that keeps nothing.
NO_CACHE = LayerCache()


@dataclass(eq=False)
class DecoderCache:
    """The caches of all decoder layers; starts as `DecoderCache()`."""

    _layers: list[LayerCache] = field(default_factory=list)

    def layer(self, index: int) -> LayerCache:
        """Return a layer's caches, empty ones at first."""
        while index >= len(self._layers):
            self._layers.append(LayerCache(BlockCache(grows=True), BlockCache(grows=False)))
        return self._layers[index]

    @property
    def length(self) -> int:
        """Number of decoder positions kept."""
        prefix = self._layers[0].prefix if self._layers else None
        return prefix.kept.k.size(2) if prefix is not None and prefix.kept is not None else 0

    def select(self, rows: Tensor) -> None:
        """Keep `rows` [B'] (indices into the batch, repeats allowed), in that order."""
        for layer in self._layers:
            for block in (layer.prefix, layer.source):
                if block is not None and block.kept is not None:
                    block.kept = KeysValues(*(each[rows] for each in block.kept))
