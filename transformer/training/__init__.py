"""Training (section 5). May import everything but `evaluation`, `catalogue` and `commands`."""
