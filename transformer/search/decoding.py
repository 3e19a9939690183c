"""A checkpoint's default decoding: its published beam size and length penalty.

metrics.json stores it as `default_decoding`; checkpoints without it use the paper's (section 6.1).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from transformer.search.inputs import checked_alpha, checked_beam, checked_whole
from transformer.search.reader import EXTRA_LENGTH
from transformer.search.rules import PAPER, BeamRule, hugging_face
from transformer.types import InputError

#: The record's name in metrics.json.
DEFAULT_DECODING = "default_decoding"


@dataclass(frozen=True)
class Decoding:
    """Beam size (1 is greedy), length-penalty exponent, and search rule."""

    beam_size: int = 4
    alpha: float = 0.6
    # Setting of the `transformers` library and its rule; None for the paper's rule.
    early_stopping: bool | Literal["never"] | None = None

    @property
    def rule(self) -> BeamRule:
        """The rule that scores hypotheses and ends a search."""
        return PAPER if self.early_stopping is None else hugging_face(self.early_stopping)

    def penalty(self, length: int) -> float:
        """Return the divisor of log P for `length` tokens, counting `</s>`."""
        return self.rule.penalty(length, self.alpha)

    def __str__(self) -> str:
        """Describe it: "beam 4, alpha 0.6"."""
        return f"beam {self.beam_size}, alpha {self.alpha:g}" if self.beam_size > 1 else "greedy"

    def resolve(self, beam_size: int | None, alpha: float | None, *, drawn: bool) -> Self:
        """Return a call's beam size and alpha with defaults for None; `drawn` means a beam of 1."""
        default = 1 if drawn else self.beam_size
        size = default if beam_size is None else beam_size
        return replace(self, beam_size=size, alpha=self.alpha if alpha is None else alpha)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON record, without the paper's rule."""
        return {name: value for name, value in asdict(self).items() if value is not None}


#: Section 6.1: "beam search with a beam size of 4 and length penalty alpha = 0.6".
PAPER_DECODING = Decoding()


def default_extra_length(metrics: Mapping[str, Any]) -> int:
    """Return from metrics how many tokens longer than its source an output may be."""
    record = metrics.get(DEFAULT_DECODING)
    extra = record.get("extra_length") if isinstance(record, Mapping) else None
    try:
        return EXTRA_LENGTH if extra is None else checked_whole("extra_length", extra, 10_000)
    except InputError:
        return EXTRA_LENGTH


def default_decoding(metrics: Mapping[str, Any]) -> Decoding:
    """Return a checkpoint's default decoding; the paper's if its metrics hold no valid one."""
    record = metrics.get(DEFAULT_DECODING)
    if not isinstance(record, Mapping):
        return PAPER_DECODING
    try:
        return Decoding(
            checked_beam(record.get("beam_size")),
            checked_alpha(record.get("alpha")),
            None if (early := record.get("early_stopping")) is None else checked_early(early),
        )
    except InputError:
        return PAPER_DECODING


def checked_early(value: object) -> bool | Literal["never"]:
    """Return `value` if it is a setting of `early_stopping`, else raise `InputError`."""
    if isinstance(value, bool):
        return value
    if value == "never":
        return "never"
    raise InputError(f"early_stopping {value!r:.40} is not true, false or 'never'")
