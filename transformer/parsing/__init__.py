"""English constituency parsing as translation (section 6.3)."""
