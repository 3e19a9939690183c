"""Synthetic training text: phrases with slots, dictionary entries, names and numbers to copy."""
