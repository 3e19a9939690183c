"""Readers of everything that comes from elsewhere, fed with what is broken at random."""
