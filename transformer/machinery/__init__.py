"""What the model needs beside the paper: caches, fused kernels, initial values, stored tables.

May import the configuration and `transformer.positions`.
"""
