"""Maps of two sides: pairing, differences, matching."""
