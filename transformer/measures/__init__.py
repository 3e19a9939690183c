"""Quantities read off a trace: pure NumPy, no model inside.

Where a measure needs a forward pass of its own, it lives beside the model, not here.
"""
