"""Phrase-structure trees: bracketed text, sequences of symbols, scores, words (section 6.3)."""
