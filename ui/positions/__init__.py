"""The Positions page: the encoding, a model's own positions, and layer 1 split into parts."""
