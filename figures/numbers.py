"""Number formats for every page and every download.

Negative numbers have a minus sign, not a hyphen; numbers that round to zero have no sign.
Scores and log-probabilities are in nats.
"""

from __future__ import annotations

import math

import numpy as np


def signed(value: float, digits: int = 2) -> str:
    """Return a number with a true minus sign: "−1.25", and "0.00" for -0.001."""
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def percent(share: float) -> str:
    """Return a share of 1 as a percentage with one digit: "93.4%", or "<0.1%"."""
    return f"{share:.1%}" if share >= 0.001 else "<0.1%"


def probability(log_prob: float) -> str:
    """Return a log-probability in nats as a percentage: "62%", "4.1%" or "<0.1%"."""
    value = math.exp(log_prob)
    return "<0.1%" if value < 0.001 else f"{value:.{0 if value >= 0.0995 else 1}%}"


def count(number: int, noun: str) -> str:
    """Return a number of things, singular for one: "1 token", "2,048 pieces"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def parameters(number: int) -> str:
    """Return a number of parameters: "65.0M", or "48k" below 100,000."""
    return f"{number / 1e6:.1f}M" if number >= 100_000 else f"{number / 1e3:.0f}k"


def in_words(number: float) -> str:
    """Return a large number with three digits and a word: "28 million", "2.5 billion"."""
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:.0f}"


def decimal(number: float, digits: int = 1) -> str:
    """Return some significant digits without an exponent: "0.000002"; "0" for 0."""
    return np.format_float_positional(number, digits, fractional=False, trim="-")


def in_bytes(count: int) -> str:
    """Format a number of bytes."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.{1 if count < 100 * size else 0}f} {unit}"
    return f"{count} bytes"
