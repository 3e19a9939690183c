"""A checkpoint's default decoding: the beam size and the length penalty it is published with.

metrics.json may hold it under the name `default_decoding`. Older checkpoints and those of other
libraries do not; theirs is the paper's (section 6.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from transformer.errors import InputError
from transformer.search.inputs import checked_alpha, checked_beam, checked_whole
from transformer.search.reader import EXTRA_LENGTH

#: The record's name in metrics.json.
DEFAULT_DECODING = "default_decoding"


@dataclass(frozen=True)
class Decoding:
    """Beam size (1 is greedy) and exponent of the length penalty."""

    beam_size: int = 4
    alpha: float = 0.6

    def __str__(self) -> str:
        """In words, as in "beam 4, alpha 0.6"."""
        return f"beam {self.beam_size}, alpha {self.alpha:g}" if self.beam_size > 1 else "greedy"

    def resolve(self, beam_size: int | None, alpha: float | None, *, drawn: bool) -> Decoding:
        """Fill in what a caller left out as None.

        Args: drawn: tokens are sampled, which takes a beam of 1.
        """
        default = 1 if drawn else self.beam_size
        return Decoding(
            default if beam_size is None else beam_size, self.alpha if alpha is None else alpha
        )

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return asdict(self)


#: Section 6.1: "beam search with a beam size of 4 and length penalty alpha = 0.6".
PAPER_DECODING = Decoding()


def default_extra_length(metrics: Mapping[str, Any]) -> int:
    """Read from a checkpoint's metrics how much longer than its source an output may be."""
    record = metrics.get(DEFAULT_DECODING)
    extra = record.get("extra_length") if isinstance(record, Mapping) else None
    try:
        return EXTRA_LENGTH if extra is None else checked_whole("extra_length", extra, 10_000)
    except InputError:
        return EXTRA_LENGTH


def default_decoding(metrics: Mapping[str, Any]) -> Decoding:
    """Read a checkpoint's default decoding from its metrics.

    Anyone may have written the file: without a record, or with one that no search accepts, the
    paper's values count.
    """
    record = metrics.get(DEFAULT_DECODING)
    if not isinstance(record, Mapping):
        return PAPER_DECODING
    try:
        return Decoding(checked_beam(record.get("beam_size")), checked_alpha(record.get("alpha")))
    except InputError:
        return PAPER_DECODING
