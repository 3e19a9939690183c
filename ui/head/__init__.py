"""The room of the page "Inside a head"."""
