"""Shares of source and prefix in every prediction, from contributions layer by layer.

ALTI+ (Ferrando et al. 2022, "Towards opening the black box of neural machine translation"): what a
block takes from each key is a row of shares; the product of all rows from the input to the last
layer gives the shares of source tokens and of earlier target tokens. Feed-forward networks act on
single positions and are taken to keep the shares.
"""

from dataclasses import dataclass

import numpy as np

from transformer.attribution.edges import Edges, row_shares
from transformer.types import Bools, Floats

#: A token is loose if its source share is below this part of the median of all tokens but the last.
LOOSE = 2 / 3


@dataclass(frozen=True, eq=False)
class Mix:
    """Shares of every input in every prediction; a row of `source` and `prefix` sums to 1."""

    source: Floats  # [T, S]
    prefix: Floats  # [T, T], of the decoder's inputs; 0 after the diagonal

    @property
    def source_share(self) -> Floats:
        """Share of the whole source in each prediction, [T]."""
        shares: Floats = self.source.sum(-1)
        return shares


def mix(contributions: Edges) -> Mix:
    """Combine contributions over all layers.

    Args: contributions: of `edges(model, trace, "contribution")`.
    """
    rows, streams = contributions.blocks, contributions.streams
    read = np.eye(rows["encoder_self"].shape[-1])
    for layer in row_shares(rows["encoder_self"]):
        read = layer @ read  # [S, S]
    n = rows["decoder_self"].shape[-1]
    source, prefix = np.zeros((n, len(read))), np.eye(n)
    for own, cross, stream in zip(
        row_shares(rows["decoder_self"]), rows["cross"], streams["cross"], strict=True
    ):
        looked = row_shares(cross, stream)  # [T, S]
        kept = 1 - looked.sum(-1, keepdims=True, dtype=np.float64)
        source, prefix = looked @ read + kept * (own @ source), kept * (own @ prefix)
    return Mix(source.astype(np.float32), prefix.astype(np.float32))


def loose(source_share: Floats) -> Bools:
    """Return True for the tokens whose share of the source is far below the others', [T].

    The last token is none of the others and never loose: the share drops at every end.

    Args: source_share: [T], of one translation.
    """
    marks: Bools = np.zeros(len(source_share), bool)
    marks[:-1] = source_share[:-1] < LOOSE * np.median(source_share[:-1]) if marks[1:].size else ()
    return marks
