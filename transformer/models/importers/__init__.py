"""Converts other libraries' models to checkpoints."""
