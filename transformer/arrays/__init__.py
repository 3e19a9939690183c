"""Attention maps of any model as `.npz` files.

May import `trace`, `files` and what lies below them.
"""

from transformer.arrays.trace_file import load_arrays, save_arrays

__all__ = ["load_arrays", "save_arrays"]
