"""The room of the Positions page."""
