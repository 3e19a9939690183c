"""The Transformer of "Attention Is All You Need" (2017), for training and inspection.

Import from the modules themselves; this package imports nothing, so that reading a config does not
cost an import of PyTorch.
"""
