"""Evaluation (section 6): scores, confidence intervals, choice of decoding, and model cards.

May import everything but `commands`.
"""
