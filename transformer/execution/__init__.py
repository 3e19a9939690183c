"""Two executions of a model: the reference, and the fast execution of packed weights.

`Executions.choose` takes the fast one if it computes the same as the model. Hooks, PyTorch's
forward hooks and manually inserted modules need the reference.
"""

import itertools
import operator
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from transformer import positions
from transformer.attention import MultiHeadAttention
from transformer.execution.packed import PackedDecoder, PackedEncoder
from transformer.execution.steps import PackedSteps
from transformer.hooks import Chain, Hook, Hooks, Site, begun, sites
from transformer.kernels import Dropout
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from transformer.model import Decoded, Encoded, Transformer
from transformer.steps import KVCache, StepFunction, StepOutput

#: Called as each layer begins; may raise to stop.
Begin = Callable[[], None]


class Reference:
    """Runs `Transformer` itself, with hooks."""

    def __init__(
        self, model: Transformer, hooks: Hooks | None = None, sentences: Sequence[int] = (0,)
    ) -> None:
        """Args: sentences: see `Executions.choose`."""
        self.model, self.hooks, self.sentences = model, hooks, sentences

    def encode(
        self, src: Tensor, *, need_weights: bool = False, begin: Begin | None = None
    ) -> Encoded:
        """Read sources [B, S], as `Transformer.encode`."""
        return self.model.encode(src, hooks=self._hooks(begin), need_weights=need_weights)

    def read(
        self, tgt_in: Tensor, encoded: Encoded, begin: Begin | None = None, *,
        need_weights: bool = True,
    ) -> tuple[Decoded, Tensor]:  # fmt: skip
        """Teacher forcing of tgt_in [B, T]: the decoder's result and logits."""
        hooks = self._hooks(begin)
        decoded = self.model.decode(tgt_in, encoded, hooks=hooks, need_weights=need_weights)
        return decoded, self.model.logits(decoded.hidden)

    def steps(self, encoded: Encoded, *, need_weights: bool = False) -> StepFunction:
        """Return a new step function for searching over these sources."""
        hooks, sentences = self.hooks, self.sentences
        return CachedSteps(self.model, encoded, sentences, need_weights=need_weights, hooks=hooks)

    def _hooks(self, begin: Begin | None) -> Hooks | None:
        hooks = None if self.hooks is None else self.hooks.for_rows(self.sentences)
        return hooks if begin is None else Chain(EachLayer(begin), hooks)


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

    Rows that end leave the cache, and nothing is copied while beams stay in place.
    """

    def __init__(
        self, model: Transformer, encoded: Encoded, sentences: Sequence[int] = (), *,
        need_weights: bool = False, hooks: Hooks | None = None,
    ) -> None:  # fmt: skip
        """Args: encoded: from `Transformer.encode`.  sentences: of its rows (`Hooks.for_rows`)."""
        self.model, self.encoded, self.need_weights = model, encoded, need_weights
        self.hooks, self.sentences, self.cache = hooks, sentences, KVCache()

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.beam.StepFunction`."""
        device = self.encoded.memory.device
        if parents is not None:
            rows = torch.tensor(parents, device=device)
            self.cache.select(rows)
            if self.hooks is not None:
                self.sentences = [self.sentences[parent] for parent in parents]
            mask = self.encoded.src_mask
            # Memory rows need not follow: their keys and values are in the cache.
            self.encoded = Encoded(self.encoded.memory, None if mask is None else mask[rows])
        tgt_in = torch.tensor(tokens, device=device)[:, None]  # [R, 1]
        hooks = None if self.hooks is None else self.hooks.for_rows(self.sentences)
        decoded = self.model.decode(
            tgt_in, self.encoded, cache=self.cache, hooks=hooks, need_weights=self.need_weights
        )
        maps = decoded.self_attention, decoded.cross_attention  # [Ld, R, H, 1, t], [Ld, R, H, 1, S]
        newest = (None if stack is None else stack[:, :, :, 0] for stack in maps)
        return StepOutput(self.model.logits(decoded.hidden[:, 0]), *newest)


class Executions:
    """Both executions of one model. Threads may share it."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.repack()

    def repack(self) -> None:
        """Copy the model's weights again."""
        watch = Watch(self.model)
        # One assignment, so that threads always see copies together with their watch.
        self._packed = watch, Fast(self.model) if watch.packable else None

    def choose(
        self, hooks: Hook | None = None, sentences: Sequence[int] = (0,), n_sentences: int = 1
    ) -> Execution:
        """Return the fast execution of the model as it is now, or else the reference.

        Args: sentences: the batch rows' indices among the caller's `n_sentences`.

        Raises: `InputError` for hooks on something that the model or the call lacks.
        """
        if hooks is not None:
            hooks = begun(hooks, sites(self.model.config), n_sentences)
        if self._packed[0].changed():
            self.repack()
        watch, fast = self._packed
        if fast is None or hooks is not None or watch.hooked():
            return Reference(self.model, hooks, sentences)
        return fast


class EachLayer(Hooks):
    """Calls a function at the start of each layer; it may raise to stop the forward pass."""

    def __init__(self, begin: Begin) -> None:
        self.begin = begin

    def wants(self, site: Site) -> bool:
        """Return True at the first site of each layer."""
        return site.block == "self" and site.name == "input"

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Call the function."""
        self.begin()
        return value


#: Modules that the packed execution supports; subclasses may compute something else.
PACKABLE = frozenset({
    Transformer, EncoderLayer, DecoderLayer, MultiHeadAttention, FeedForward, Residual, Dropout,
    positions.LearnedPositions, positions.NoPositions, positions.ShiftedPositions,
    positions.SinusoidalPositions, positions.StoredPositions, nn.Linear, nn.Embedding,
    nn.LayerNorm, nn.Identity, nn.ModuleList,
})  # fmt: skip


class Watch:
    """A model's modules and weights at one moment, compared later within microseconds.

    Attributes:
        packable: True if the model consists of supported modules only, without adapters,
            parametrised weights and other manually inserted modules.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = list(model.modules())
        self.packable = all(type(module) in PACKABLE for module in self._modules)
        self._children = [module._modules for module in self._modules]
        self._parameters = [module._parameters for module in self._modules]
        self._objects = self._current()
        self._hooks = [
            *(module._forward_hooks for module in self._modules),
            *(module._forward_pre_hooks for module in self._modules),
            torch_module._global_forward_hooks,
            torch_module._global_forward_pre_hooks,
        ]
        self._attributes = [module.__dict__ for module in self._modules]
        weights = list(model.parameters())
        self._weights, self._addresses = weights, [weight.data_ptr() for weight in weights]
        # Inference tensors have no version.
        self._counted = [weight for weight in weights if not weight.is_inference()]
        self._versions = [weight._version for weight in self._counted]

    def changed(self) -> bool:
        """Return True if a module or weight was replaced, or a weight was written.

        Writes through `weight.data` go unnoticed, since PyTorch does not count them.
        """
        objects = self._current()
        return (
            len(objects) != len(self._objects)
            or not all(map(operator.is_, objects, self._objects))
            or [weight._version for weight in self._counted] != self._versions
            or [weight.data_ptr() for weight in self._weights] != self._addresses
        )

    def _current(self) -> list[nn.Module | Tensor | None]:
        values = operator.methodcaller("values")
        tables = itertools.chain(self._children, self._parameters)
        return list(itertools.chain.from_iterable(map(values, tables)))

    def hooked(self) -> bool:
        """Return True if a module has forward hooks or a replaced `forward`."""
        return any(self._hooks) or any("forward" in names for names in self._attributes)
