"""Everything behind the page "Beam search"."""
