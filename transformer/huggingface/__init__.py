"""Models of the `transformers` library as tracers: `pip install .[hf]`.

May import `trace`, `checkpoint` and `files`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.huggingface.model import HuggingFaceModel

__all__ = ["HuggingFaceModel"]


def __getattr__(name: str) -> Any:
    """Import the model on first use: inspecting a folder does not need it."""
    if name == "HuggingFaceModel":
        from transformer.huggingface.model import HuggingFaceModel

        return HuggingFaceModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
