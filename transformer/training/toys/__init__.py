"""Toy tasks that a tiny model learns in a minute, and a run that can be steered."""
