"""Measures of an edge beyond its attention weight: what it adds, changes and is made of."""
