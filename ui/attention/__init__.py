"""The room of the Attention page."""
