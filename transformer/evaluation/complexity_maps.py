"""The cost of recording all attention maps, which grows with the square of the length."""

import time
from collections.abc import Sequence
from itertools import product

import numpy as np
import torch

from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.types import Reals, Report, no_report

#: Bytes of a weight, a float32.
WEIGHT_BYTES = 4


def map_bytes(config: ModelConfig, n: int) -> dict[str, int]:
    """Return the bytes of all attention maps for n source and n target tokens, by kind."""
    shapes = config.head_shapes.items()
    return {
        kind.removesuffix("_self"): layers * heads * n * n * WEIGHT_BYTES
        for kind, (layers, heads) in shapes
    }


def time_maps(
    model: Transformer, lengths: Sequence[int], rounds: int = 3, report: Report = no_report
) -> tuple[Reals, Reals]:
    """Time reading n random source and n target tokens, with all maps recorded and with none.

    Returns: seconds [lengths, rounds] with maps, and the same without.
    """
    draw = torch.Generator().manual_seed(0)
    most = model.config.vocab_size
    device = next(model.parameters()).device
    texts = [torch.randint(4, most, (1, n), generator=draw).to(device) for n in lengths]
    seconds = np.zeros((2, len(lengths), rounds))
    for done, (turn, index, bare) in enumerate(
        product(range(rounds + 1), range(len(lengths)), (0, 1))
    ):
        report(done, (rounds + 1) * len(lengths) * 2)
        text, maps = texts[index], not bare
        begun = time.perf_counter()
        with torch.inference_mode():
            encoded = model.encode(text, need_weights=maps)
            decoded = model.decode(text, encoded, need_weights=maps)
            float(decoded.hidden.sum())  # waits for a GPU
        elapsed = time.perf_counter() - begun
        if turn:  # the first turn warms up
            seconds[bare, index, turn - 1] = elapsed
    return seconds[0], seconds[1]
