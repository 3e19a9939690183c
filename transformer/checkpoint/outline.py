"""Models on the meta device: names and shapes without memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from transformer.config import ModelConfig
from transformer.model import Transformer

#: Functions of `torch.nn.init` and methods of tensors that draw initial values.
_DRAWING = frozenset(("kaiming_uniform_", "normal_", "uniform_", "xavier_uniform_"))


class Undrawn(TorchFunctionMode):
    """Skip the drawing of initial values.

    On the meta device there is nothing to fill, but torch imports its compiler to find that out,
    which takes longer than everything else before a first translation.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def outline(config: ModelConfig) -> Transformer:
    """Return the model on the meta device: tensors have shapes but take no memory."""
    with torch.device("meta"), Undrawn():
        return Transformer(config)
