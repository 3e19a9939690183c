"""The memory of a computation's tensors, counted as they are made and freed."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer.experiments.layers import D_K
from transformer.measures.layer_costs import LayerKind


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts storages of the results of every operation until they are freed."""

    def __init__(self, known: tuple[Tensor, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = {each.untyped_storage().data_ptr() for each in known}
        self._live = 0
        self.most: int = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the default imports the compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, Tensor):
                self._count(each)
        return result

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if not size or place in self._seen:
            return
        self._seen.add(place)
        self._live += size
        self.most = max(self.most, self._live)
        weakref.finalize(storage, self._forget, place, size)

    def _forget(self, place: int, size: int) -> None:
        self._seen.discard(place)
        self._live -= size


def held_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return the most bytes that tensors made by a forward pass hold at once.

    Weights, the input, and the kernels' own scratch memory are left out.
    """
    # Not in inference mode, where composite operations are not decomposed.
    known = (x, *layer.parameters(), *layer.buffers())
    counter = _Counter(known)
    with torch.no_grad(), counter:
        layer(x)
    return counter.most


def expected_bytes(kind: LayerKind, n: int, d: int) -> int:
    """Return an upper estimate of `held_bytes`, made before anything is allocated."""
    vectors = 16 * 4 * n * d
    maps = 2 * max(1, d // D_K) * n**2 * 4 if kind == "explicit" else 0
    return vectors + maps
