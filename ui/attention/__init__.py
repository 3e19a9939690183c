"""Everything behind the Attention page."""
