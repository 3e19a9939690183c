"""Records of a model at work on one sentence, and their making."""
