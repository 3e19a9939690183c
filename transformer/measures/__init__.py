"""Measures of a trace, and tests of significance: pure NumPy, without a model.

Measures that need their own forward pass belong beside the model.
"""
