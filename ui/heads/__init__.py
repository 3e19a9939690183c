"""Roles of heads: a study of a model, its importance, and the sentences behind every number."""
