"""Types that records, measures and figures share. Nothing here imports PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    pass
from collections.abc import Callable

Floats = NDArray[np.float32]


Ints = NDArray[np.int64]


Bools = NDArray[np.bool_]


AttentionKind = Literal["encoder_self", "decoder_self", "cross"]


ATTENTION_KINDS: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self", "cross")


#: Called with (how far, of how much) while something is read; may raise, which stops the import.
Report = Callable[[int, int], None]
