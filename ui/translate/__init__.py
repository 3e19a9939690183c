"""Everything behind the Translate page."""
