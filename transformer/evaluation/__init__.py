"""Results (section 6): scores, their intervals, the choice of decoding, and model cards.

May import everything but `catalogue` and `commands`.
"""
