"""Guided tours through the pages."""
