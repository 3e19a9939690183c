"""Models without memory: names and shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from transformer.config import ModelConfig
from transformer.model import Transformer

#: What draws initial values: functions of `torch.nn.init`, and methods of tensors.
_DRAWING = frozenset(("kaiming_uniform_", "normal_", "uniform_", "xavier_uniform_"))


class _Undrawn(TorchFunctionMode):
    """No values are drawn.

    Without memory there is none to draw, but finding that out imports torch's compiler, which
    takes longer than everything else that happens before a first translation.
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
    """The model on the meta device: every tensor has its shape, and none takes memory."""
    with torch.device("meta"), _Undrawn():
        return Transformer(config)
