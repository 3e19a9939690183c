"""The model's parts beyond the paper: caches, fused kernels, initial values, stored tables.

May import the configuration and `transformer.positions`.
"""
