"""Untrusted files and downloads. May import `types` only."""
