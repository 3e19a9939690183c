"""Two executions of a model: the reference, and the fast execution of packed weights.

`Executions.choose` takes the fast one where it computes the same as the model. Hooks, PyTorch's own
forward hooks and modules put in by hand need the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transformer.fast.packed import PackedDecoder, PackedEncoder
from transformer.fast.steps import PackedSteps
from transformer.fast.watch import Watch
from transformer.hooks import Chain, Hooks, Site
from transformer.kv_cache import KVCache
from transformer.model import Decoded, Encoded, Transformer
from transformer.search.beam import StepFunction, StepOutput

#: Called as each layer begins; may raise to stop.
Begin = Callable[[], None]


class Reference:
    """Runs `Transformer` itself, with hooks."""

    def __init__(self, model: Transformer, hooks: Hooks | None = None) -> None:
        self.model, self.hooks = model, hooks

    def encode(
        self, src: Tensor, *, need_weights: bool = False, begin: Begin | None = None
    ) -> Encoded:
        """Read sources [B, S], as `Transformer.encode`."""
        return self.model.encode(src, hooks=self._hooks(begin), need_weights=need_weights)

    def read(
        self, tgt_in: Tensor, encoded: Encoded, begin: Begin | None = None
    ) -> tuple[Decoded, Tensor]:
        """Teacher forcing of tgt_in [B, T]: the decoder's result with all attention, and logits."""
        decoded = self.model.decode(tgt_in, encoded, hooks=self._hooks(begin), need_weights=True)
        return decoded, self.model.logits(decoded.hidden)

    def steps(self, encoded: Encoded, *, need_weights: bool = False) -> StepFunction:
        """Return a fresh step function for a search over these sources."""
        return CachedSteps(self.model, encoded, need_weights=need_weights, hooks=self.hooks)

    def _hooks(self, begin: Begin | None) -> Hooks | None:
        return self.hooks if begin is None else Chain(EachLayer(begin), self.hooks)


class Fast:
    """Runs packed copies of the weights, with the methods of `Reference`."""

    def __init__(self, model: Transformer) -> None:
        self.decoder = PackedDecoder(model)
        self.encode, self.read = PackedEncoder(model).encode, self.decoder.read

    def steps(self, encoded: Encoded, *, need_weights: bool = False) -> StepFunction:
        """See `Reference`."""
        return PackedSteps(self.decoder, encoded, need_weights=need_weights)


Execution = Reference | Fast


class CachedSteps:
    """`Transformer.decode` with its cache, as a `transformer.search.beam.StepFunction`.

    Rows that end leave the cache, and nothing is copied while the beams stay in place.
    """

    def __init__(
        self,
        model: Transformer,
        encoded: Encoded,
        *,
        need_weights: bool = False,
        hooks: Hooks | None = None,
    ) -> None:
        """Args: encoded: from `Transformer.encode`, one row per sentence."""
        self.model, self.encoded, self.need_weights = model, encoded, need_weights
        self.hooks, self.cache = hooks, KVCache()

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.beam.StepFunction`."""
        device = self.encoded.memory.device
        if parents is not None:
            rows = torch.tensor(parents, device=device)
            self.cache.select(rows)
            mask = self.encoded.src_mask
            # Rows of the memory need not follow: its keys and values are in the cache.
            self.encoded = Encoded(self.encoded.memory, None if mask is None else mask[rows])
        tgt_in = torch.tensor(tokens, device=device)[:, None]  # [R, 1]
        decoded = self.model.decode(
            tgt_in, self.encoded, cache=self.cache, hooks=self.hooks, need_weights=self.need_weights
        )
        maps = decoded.self_attention, decoded.cross_attention  # [Ld, R, H, 1, t], [Ld, R, H, 1, S]
        newest = (None if each is None else each[:, :, :, 0] for each in maps)
        return StepOutput(self.model.logits(decoded.hidden[:, 0]), *newest)


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
