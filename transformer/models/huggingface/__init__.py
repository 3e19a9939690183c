"""Models of the `transformers` library as tracers: `pip install .[hf]`.

The library itself is imported on first use.
"""

from transformer.models.huggingface.model import HuggingFaceModel

__all__ = ["HuggingFaceModel"]
