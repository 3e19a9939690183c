"""Kinds of models, one module each with `fits`, `describe` and `open`.

May import everything that reads or runs a model.
"""
