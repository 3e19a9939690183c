"""Records of one stack at work: its traces, of which half is empty, and its guesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from transformer.search.reader import Source
from transformer.trace.records import Trace
from transformer.types import Floats


@dataclass(frozen=True)
class Guesses:
    """What a model expects at one place of a text.

    Attributes:
        position: of the place in the text's tokens.
        token: what stands there, or `MASK`.
        tokens, log_probs: [K], the most probable ones, best first.
        log_prob: of `token`; None for a place that is hidden.
    """

    position: int
    token: str
    tokens: tuple[str, ...]
    log_probs: Floats
    log_prob: float | None


def make_trace(source: Source, **values: Any) -> Trace:
    """Return the trace of a text with these values; all others are empty."""
    nothing: dict[str, Any] = {
        "src_tokens": (), "tgt_tokens": (), "predicted_tokens": (), "src_ids": (), "tgt_ids": (),
        "predicted_ids": (), "log_probs": np.zeros(0, np.float32),
        "top_ids": np.zeros((0, 0), np.int64), "top_log_probs": np.zeros((0, 0), np.float32),
        "top_tokens": (), "entropy": np.zeros(0, np.float32), "text": "", "score": 0.0,
    }  # fmt: skip
    made = Trace(source=source.text, **(nothing | values))
    for each in vars(made).values():
        if isinstance(each, np.ndarray):
            each.setflags(write=False)
    return made


def to_array(tensor: Tensor) -> Floats:
    """Return a contiguous float32 NumPy array."""
    array: Floats = np.ascontiguousarray(tensor.float().cpu().numpy())
    return array
