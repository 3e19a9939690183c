"""Heads off: what a translation needs."""
