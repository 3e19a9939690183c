"""The page "Word for word"."""
