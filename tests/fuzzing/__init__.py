"""Fuzz tests of every reader of untrusted input."""
