"""Untrusted files and downloads. May import errors and types only."""
