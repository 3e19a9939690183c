"""Edits: a trained model with a head, an edge, a layer or an ingredient of the paper removed."""
