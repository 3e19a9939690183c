"""Models of every kind: own, one stack, the `transformers` library, arrays, foreign formats.

A kind is a module with `fits`, `describe` and `open`, listed in `catalogue`.
"""
