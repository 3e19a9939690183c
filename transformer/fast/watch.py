"""Detects changes to a model since its weights were packed."""

from __future__ import annotations

import itertools
import operator

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from transformer.attention import MultiHeadAttention
from transformer.kernels import Dropout
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from transformer.model import Transformer
from transformer.positions import LearnedPositions, SinusoidalPositions, StoredPositions

#: Modules that the packed execution covers; subclasses may compute something else.
PACKABLE = frozenset({
    Transformer, EncoderLayer, DecoderLayer, MultiHeadAttention, FeedForward, Residual, Dropout,
    LearnedPositions, SinusoidalPositions, StoredPositions,
    nn.Linear, nn.Embedding, nn.LayerNorm, nn.Identity, nn.ModuleList,
})  # fmt: skip


class Watch:
    """The modules and weights of a model at one moment, compared later in microseconds.

    Attributes:
        packable: whether the model consists of known modules only. Adapters, parametrised weights
            and other modules added by hand are not.
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
        # Tensors made in inference mode have no version.
        self._counted = [weight for weight in weights if not weight.is_inference()]
        self._versions = [weight._version for weight in self._counted]

    def changed(self) -> bool:
        """Return True if a module or weight was replaced, or a weight written to.

        Writing through `weight.data` goes unnoticed, since PyTorch does not count it.
        """
        objects = self._current()
        return (
            len(objects) != len(self._objects)
            or not all(map(operator.is_, objects, self._objects))
            or [weight._version for weight in self._counted] != self._versions
            or [weight.data_ptr() for weight in self._weights] != self._addresses
        )

    def _current(self) -> list[nn.Module | Tensor | None]:
        """Return the current children and parameters of the recorded modules, in order."""
        values = operator.methodcaller("values")
        held = itertools.chain(self._children, self._parameters)
        return list(itertools.chain.from_iterable(map(values, held)))

    def hooked(self) -> bool:
        """Return True if a module has forward hooks or a replaced `forward`."""
        return any(self._hooks) or any("forward" in each for each in self._attributes)
