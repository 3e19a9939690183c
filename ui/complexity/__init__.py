"""Everything behind the page "Cost"."""
