"""The room of the page "Beam search"."""
