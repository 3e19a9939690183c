"""Where one stack looks into the source: the part of its map that cross-attention has elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.trace.records import Trace
from transformer.types import Floats


@dataclass(frozen=True, eq=False)
class SourceBlock:
    """The rows of a translation over the columns of its source, in one text.

    Attributes:
        src_tokens: [S], ends with `</s>`.  tgt_tokens: [T], starts with `<s>`.
        weights: [L, H, T, S], a part of `decoder_self`; rows sum to at most 1.
    """

    src_tokens: tuple[str, ...]
    tgt_tokens: tuple[str, ...]
    weights: Floats

    @property
    def share(self) -> Floats:
        """How much of each row's weight lies on the source, [L, H, T]."""
        summed: Floats = self.weights.sum(axis=-1)
        return summed


def source_block(trace: Trace, bos: str = "<s>") -> SourceBlock:
    """Cut the map of a translator of one stack into source and translation.

    Args: bos: the token between the two.

    Raises: `ValueError` for a text without it.
    """
    if bos not in trace.tgt_tokens[1:]:
        raise ValueError("this text holds no source: no token stands between two parts")
    start = trace.tgt_tokens.index(bos)
    return SourceBlock(
        trace.tgt_tokens[:start],
        trace.tgt_tokens[start:],
        trace.decoder_self[:, :, start:, :start],
    )
