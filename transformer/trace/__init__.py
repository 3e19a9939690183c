"""Records of a model at work on one sentence, and functions that make them."""
