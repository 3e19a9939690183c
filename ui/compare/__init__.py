"""The room of the Compare page."""
