"""Everything behind the Training page."""
