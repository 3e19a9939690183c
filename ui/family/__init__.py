"""The Family page: single-stack models, and what has changed since the paper."""
