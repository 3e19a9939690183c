"""fairseq's Transformer checkpoints."""
