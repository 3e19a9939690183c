"""Models of one stack, from the paper's own blocks.

GPT kept the decoder without cross-attention, BERT the encoder. A translator of one stack reads the
source and writes the translation as one text.
"""
