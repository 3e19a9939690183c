"""Everything behind the page "Inside a head"."""
