"""The room of the Translate page."""
