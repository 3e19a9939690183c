"""Attention maps of any model as `.npz` files."""

from transformer.models.arrays.trace_file import load_arrays, save_arrays

__all__ = ["load_arrays", "save_arrays"]
