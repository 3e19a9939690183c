"""Models with one stack of the paper's own blocks.

GPT kept the decoder without cross-attention, BERT the encoder. A single-stack translator reads the
source and writes the translation as one text.
"""
