"""The Positions page: the encoding, a model's own positions, and the split of layer 1."""
