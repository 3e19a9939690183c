"""The page "Inside a head"."""
