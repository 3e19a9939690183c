"""A block's context in a forward pass: hooks, cache and relative positions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from transformer.hooks import Block, Hooks, Name, Site, Stack
from transformer.steps import KeysValues, KVCache
from transformer.types import InputError


@dataclass(eq=False)
class Context:
    """A block's context in a forward pass.

    `value = at("q", value)` offers a value to the hooks, which may replace it.
    """

    stack: Stack = "encoder"
    hooks: Hooks | None = None
    cache: KVCache | None = None
    relative: Tensor | None = None  # [1, H, T, S], added to the logits of self-attention
    at_layer: int | None = None
    at_block: Block = "embedding"
    start: int = 0  # position of the first query
    #: queries, keys: positions [T] and, in self-attention, [S], if they are not in order
    queries: Tensor | None = None
    keys: Tensor | None = None

    def layer(self, index: int) -> Self:
        """Return the context of a layer."""
        return replace(self, at_layer=index)

    def block(self, block: Block) -> Self:
        """Return the context of a block in this layer or at the ends of the stack."""
        relative, keys = (self.relative, self.keys) if block == "self" else (None, None)
        return replace(self, relative=relative, keys=keys, at_block=block)

    def __call__(self, name: Name, value: Tensor) -> Tensor:
        """Return the value with which the forward pass continues."""
        if self.hooks is None:
            return value
        site = Site(self.stack, self.at_layer, self.at_block, name)
        new = self.hooks(site, value) if self.hooks.wants(site) else None
        if new is None:
            return value
        shape = list(new.shape) if isinstance(new, Tensor) else type(new).__name__
        if shape != list(value.shape):
            expected = list(value.shape)
            raise InputError(f"a hook returned {shape} at {site}; expected {expected} or None")
        return new

    def wants(self, *names: Name) -> bool:
        """Return True if the hooks want any of these values of the block."""
        if self.hooks is None:
            return False
        sites = (Site(self.stack, self.at_layer, self.at_block, name) for name in names)
        return any(map(self.hooks.wants, sites))

    def keys_values(self, project: Callable[[Tensor], KeysValues], source: Tensor) -> KeysValues:
        """Project `source` [B, S, d_model], appending to the cache if there is one."""
        if self.cache is None:
            return project(source)
        return self.cache.update(self.at_layer, self.at_block, project, source)


#: Without hooks, cache and relative positions.
PLAIN = Context()
