"""The room of the Tokens page."""
