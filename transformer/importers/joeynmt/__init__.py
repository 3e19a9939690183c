"""JoeyNMT's Transformer models."""
