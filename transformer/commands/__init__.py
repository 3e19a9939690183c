"""The commands of `python -m transformer`, one module each with an `add`. May import everything."""
