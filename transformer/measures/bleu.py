"""Corpus BLEU without sacreBLEU, which the app does not install."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

#: Replacements in sacreBLEU's 13a tokenizer, in order; other entities are unchanged.
_DECODED = (("<skipped>", ""), ("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
#: Patterns that add spaces around punctuation.
_SPLITS = tuple((re.compile(pattern), spaced) for pattern, spaced in (
    (r"([\{-\~\[-\` -\&\(-\+\:-\@\/])", r" \1 "),
    (r"([^0-9])([\.,])", r"\1 \2 "),
    (r"([\.,])([^0-9])", r" \1 \2"),
    (r"([0-9])(-)", r"\1 \2 "),
))  # fmt: skip


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return cased BLEU with one reference per text, 0 to 100, equal to sacreBLEU's."""
    matches, totals, lengths = np.zeros(4), np.zeros(4), np.zeros(2)
    for texts in zip(hypotheses, references, strict=True):
        words = [_words(text) for text in texts]
        lengths += [len(text) for text in words]
        for n in range(4):
            ours, theirs = (
                Counter(tuple(text[at : at + n + 1]) for at in range(len(text) - n))
                for text in words
            )
            matches[n] += (ours & theirs).total()
            totals[n] += ours.total()
    if not matches[0] or not totals.all():
        return 0.0
    halvings = np.cumsum(matches == 0)  # halve the count for each order without matches
    shares = np.where(matches > 0, matches, 0.5**halvings) / totals
    brevity = min(0.0, 1 - lengths[1] / lengths[0])
    return float(100 * np.exp(np.log(shares).mean() + brevity))


def _words(text: str) -> list[str]:
    for entity, sign in _DECODED:
        text = text.replace(entity, sign)
    text = f" {text} "
    for pattern, spaced in _SPLITS:
        text = pattern.sub(spaced, text)
    return text.split()
