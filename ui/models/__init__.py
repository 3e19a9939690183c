"""The room of the Models page."""
