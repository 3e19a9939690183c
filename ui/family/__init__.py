"""The Family page: models of one stack, and what changed since the paper."""
