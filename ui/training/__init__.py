"""The Training page: toy runs, watched runs, and table 3."""
