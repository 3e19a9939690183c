"""Notices that a model is no longer what its packed weights were made of."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from transformer.attention import MultiHeadAttention
from transformer.kernels import Dropout
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from transformer.model import Transformer
from transformer.positions import LearnedPositions, SinusoidalPositions
from transformer.stored_positions import StoredPositions

#: Modules whose computation the packed execution knows; subclasses may compute something else.
PACKABLE = frozenset({
    Transformer, EncoderLayer, DecoderLayer, MultiHeadAttention, FeedForward, Residual, Dropout,
    LearnedPositions, SinusoidalPositions, StoredPositions,
    nn.Linear, nn.Embedding, nn.LayerNorm, nn.Identity, nn.ModuleList,
})  # fmt: skip


class Watch:
    """The modules and weights of a model at one moment, compared later in microseconds.

    Attributes:
        packable: whether the model consists of known modules only. Adapters, parametrised weights
            and other modules put in by hand are not.
    """

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        self.packable = all(type(module) in PACKABLE for module in modules)
        self._modules = [
            (module, module._modules, [*module._modules.values()]) for module in modules
        ]
        self._weights = [
            (module._parameters, name, weight, _state(weight))
            for module in modules
            for name, weight in module._parameters.items()
            if weight is not None
        ]

    def changed(self) -> bool:
        """Whether a module or a weight was exchanged, or a weight written to.

        Writing through `weight.data` goes unnoticed, since PyTorch does not count it.
        """
        return any([*children.values()] != before for _, children, before in self._modules) or any(
            parameters.get(name) is not weight or _state(weight) != state
            for parameters, name, weight, state in self._weights
        )

    def hooked(self) -> bool:
        """Whether a module has forward hooks, or a `forward` put in by hand."""
        return bool(
            torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks
        ) or any(
            module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__
            for module, _, _ in self._modules
        )


def _state(weight: Tensor) -> tuple[int, int]:
    """Where a weight is in memory, and how often it was written to."""
    return weight.data_ptr(), -1 if weight.is_inference() else weight._version
