"""Attention maps as `.npz` files, from any model. May import `trace` and `files`."""

from transformer.arrays.trace_file import load_arrays, save_arrays

__all__ = ["load_arrays", "save_arrays"]
