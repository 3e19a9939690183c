"""The commands of `python -m transformer`, one module for each kind; each has an `add`."""
