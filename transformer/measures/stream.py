"""How long the residual stream is, and how much of it each block brings (section 3.1)."""

from __future__ import annotations

import numpy as np

from transformer.trace.records import StackStream
from transformer.types import Floats, Ints


def stream_norms(stream: StackStream) -> Floats:
    """Return the lengths of the stream: at the input and behind each block, [1 + L K, n]."""
    steps = np.concatenate(
        [stream.entering[None], stream.hidden.reshape(-1, *stream.entering.shape)]
    )
    return _lengths(steps)


def added_norms(stream: StackStream) -> Floats:
    """Return the lengths of what each block adds, [L, K, n]."""
    return _lengths(stream.outputs)


def block_shares(stream: StackStream) -> Floats:
    """Return the share of each block in the sum of the stream and what it adds, [L, K, n].

    It is |added| / (|stream| + |added|): 0 for a block that changes nothing, 0.5 for one that adds
    a vector as long as the stream in front of it.
    """
    added, before = added_norms(stream), _lengths(stream.before)
    total = added + before
    shares: Floats = np.divide(added, total, out=np.zeros_like(added), where=total > 0)
    return shares


def firing_counts(stream: StackStream) -> Ints:
    """Return how many neurons have an activation above 0, [L, n]."""
    counts: Ints = (stream.inner > 0).sum(axis=-1)
    return counts


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(vectors, axis=-1).astype(np.float32)
    return lengths
