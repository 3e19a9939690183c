"""Files and downloads that may come from anywhere. May import errors and types only."""
