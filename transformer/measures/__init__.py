"""Measures of a trace, and tests of significance: pure NumPy, without a model.

Measures that need a forward pass of their own belong beside the model.
"""
