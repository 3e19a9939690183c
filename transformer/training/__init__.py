"""Training (section 5)."""
