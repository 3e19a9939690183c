"""The length penalty of the beam search (section 6.1), apart from it: no PyTorch in here."""

from __future__ import annotations


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha of Wu et al. 2016, eq. 14; `length` counts `</s>`."""
    return float(((5 + length) / 6) ** alpha)
