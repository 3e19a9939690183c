"""Two executions of a model: the reference, and the fast execution of packed weights.

`Executions.choose` takes the fast one where it computes the same as the model. Hooks, PyTorch's own
forward hooks and modules put in by hand need the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from transformer.fast.packed import PackedDecoder, PackedEncoder
from transformer.fast.steps import PackedSteps
from transformer.fast.watch import Watch
from transformer.hooks import Chain, Hooks, Site
from transformer.model import Decoded, Encoded, Transformer
from transformer.search.beam import StepFunction
from transformer.search.cached_steps import CachedSteps

#: Called as each layer begins; may raise to stop.
Begin = Callable[[], None]


class Execution(Protocol):
    """One way to run a model."""

    def encode(
        self, src: Tensor, *, need_weights: bool = False, begin: Begin | None = None
    ) -> Encoded:
        """Read sources [B, S], as `Transformer.encode`."""
        ...

    def read(
        self, tgt_in: Tensor, encoded: Encoded, begin: Begin | None = None
    ) -> tuple[Decoded, Tensor]:
        """Teacher forcing of tgt_in [B, T]: the decoder's result with all attention, and logits."""
        ...

    def steps(self, encoded: Encoded, *, need_weights: bool = False) -> StepFunction:
        """Return a fresh step function for a search over these sources."""
        ...


class Reference:
    """Runs `Transformer` itself, with hooks."""

    def __init__(self, model: Transformer, hooks: Hooks | None = None) -> None:
        self.model, self.hooks = model, hooks

    def encode(
        self, src: Tensor, *, need_weights: bool = False, begin: Begin | None = None
    ) -> Encoded:
        """See `Execution`."""
        return self.model.encode(src, hooks=self._hooks(begin), need_weights=need_weights)

    def read(
        self, tgt_in: Tensor, encoded: Encoded, begin: Begin | None = None
    ) -> tuple[Decoded, Tensor]:
        """See `Execution`."""
        decoded = self.model.decode(tgt_in, encoded, hooks=self._hooks(begin), need_weights=True)
        return decoded, self.model.logits(decoded.hidden)

    def steps(self, encoded: Encoded, *, need_weights: bool = False) -> StepFunction:
        """See `Execution`."""
        return CachedSteps(self.model, encoded, need_weights=need_weights, hooks=self.hooks)

    def _hooks(self, begin: Begin | None) -> Hooks | None:
        return self.hooks if begin is None else Chain(EachLayer(begin), self.hooks)


class Fast:
    """Runs packed copies of the weights."""

    def __init__(self, model: Transformer) -> None:
        self.decoder = PackedDecoder(model)
        self.encoder = PackedEncoder(model)

    def encode(
        self, src: Tensor, *, need_weights: bool = False, begin: Begin | None = None
    ) -> Encoded:
        """See `Execution`."""
        return self.encoder.encode(src, need_weights=need_weights, begin=begin)

    def read(
        self, tgt_in: Tensor, encoded: Encoded, begin: Begin | None = None
    ) -> tuple[Decoded, Tensor]:
        """See `Execution`."""
        return self.decoder.read(tgt_in, encoded, begin)

    def steps(self, encoded: Encoded, *, need_weights: bool = False) -> StepFunction:
        """See `Execution`."""
        return PackedSteps(self.decoder, encoded, need_weights=need_weights)


class Executions:
    """The executions of one model. Threads may share it."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.repack()

    def repack(self) -> None:
        """Copy the model's weights anew."""
        watch = Watch(self.model)
        # One assignment, so that no thread sees the copies of one moment with the watch of another.
        self._packed = watch, Fast(self.model) if watch.packable else None

    def choose(self, hooks: Hooks | None = None) -> Execution:
        """Return the fast execution of the model as it is now, or the reference if need be."""
        if self._packed[0].changed():
            self.repack()
        watch, fast = self._packed
        if fast is None or hooks is not None or watch.hooked():
            return Reference(self.model, hooks)
        return fast


class EachLayer(Hooks):
    """Calls a function as each layer begins, which may raise to stop the forward pass."""

    def __init__(self, begin: Begin) -> None:
        self.begin = begin

    def wants(self, site: Site) -> bool:
        """Return True at the first site of each layer."""
        return site.block == "self" and site.name == "input"

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Call the function."""
        self.begin()
        return value
