"""The context of a block in a forward pass: its hooks, cache and relative positions."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from transformer.hooks import Block, Hooks, Name, Site, Stack
from transformer.kv_cache import KeysValues, KVCache


class Context:
    """The surroundings of a block in a forward pass.

    `value = at("q", value)` offers a value to the hooks, which may replace it.
    """

    def __init__(
        self,
        stack: Stack = "encoder",
        hooks: Hooks | None = None,
        *,
        cache: KVCache | None = None,
        relative: Tensor | None = None,
    ) -> None:
        """Make the context of a stack.

        Args: relative: [1, H, T, S], added to the logits of self-attention.
        """
        self.stack, self.hooks, self.cache, self._relative = stack, hooks, cache, relative
        self._layer: int | None = None
        self._block: Block = "embedding"

    def layer(self, index: int) -> Context:
        """Return the context of a layer."""
        return self._at(index, self._block)

    def block(self, block: Block) -> Context:
        """Return the context of a block in this layer, or at the stack's ends."""
        return self._at(self._layer, block)

    def _at(self, layer: int | None, block: Block) -> Context:
        inner = Context(self.stack, self.hooks, cache=self.cache, relative=self._relative)
        inner._layer, inner._block = layer, block
        return inner

    def __call__(self, name: Name, value: Tensor) -> Tensor:
        """Return the value with which the forward pass continues."""
        if self.hooks is None:
            return value
        site = Site(self.stack, self._layer, self._block, name)
        if not self.hooks.wants(site):
            return value
        new = self.hooks(site, value)
        if new.shape != value.shape:
            raise ValueError(
                f"a hook returned {list(new.shape)} at {site}; it has to be {list(value.shape)}"
            )
        return new

    def wants(self, *names: Name) -> bool:
        """Return True if hooks want any of these values of the block."""
        if self.hooks is None:
            return False
        sites = (Site(self.stack, self._layer, self._block, name) for name in names)
        return any(map(self.hooks.wants, sites))

    @property
    def relative(self) -> Tensor | None:
        """Relative positions [1, H, T, S] of self-attention, or None."""
        return self._relative if self._block == "self" else None

    def keys_values(self, project: Callable[[Tensor], KeysValues], source: Tensor) -> KeysValues:
        """Project `source` [B, S, d_model], after the positions in the cache if there is one."""
        if self.cache is None:
            return project(source)
        return self.cache.update(self._layer, self._block, project, source)


#: Without hooks, cache and relative positions.
PLAIN = Context()
