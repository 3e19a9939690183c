"""Beam search, greedy decoding and sampling (section 6.1). May import `text` and the model."""
