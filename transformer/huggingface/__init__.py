"""Models of the `transformers` library as tracers: `pip install .[hf]`.

May import `trace`, `checkpoint` and `files`. The library itself is imported on first use.
"""

from transformer.huggingface.model import HuggingFaceModel

__all__ = ["HuggingFaceModel"]
