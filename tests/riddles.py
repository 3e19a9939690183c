"""Random traces of a sentence with a pronoun and two candidate nouns."""

import dataclasses
from typing import Any

import numpy as np

from tests.factories import make_trace
from transformer.search.request import excluded
from transformer.trace.records import Trace
from transformer.trace.removals import Head, needs
from transformer.translator import Translator
from ui.tours.breaking import decisive_of
from ui.tours.stops import Target

SOURCE = ("▁The", "▁an", "imal", "▁left", "▁the", "▁street", "▁as", "▁it", "▁was", "▁tired", ".")
NOUNS = ("animal", "street")
#: Positions of the pieces, and the row that writes the pronoun.
ANIMAL, STREET, IT, STEP = (1, 2), 5, 7, 3


def scene(seed: int = 0) -> Trace:
    """Return a scene with a pronoun; row `STEP` has the largest weight on it."""
    made = make_trace(
        S=len(SOURCE) + 1, T=6, n_encoder_layers=3, n_decoder_layers=2, n_heads=5, seed=seed,
        src_tokens=SOURCE,
    )  # fmt: skip
    cross = made.cross.copy()
    cross[:, :, STEP] *= 0.1
    cross[:, :, STEP, IT] += 0.9
    return dataclasses.replace(made, cross=cross)


def decisive(translator: Translator, trace: Trace, target: Target) -> Head | None:
    """Return the head without which a trace's target is lost, or None."""
    measured = needs(translator.model, trace, excluded=excluded(translator.config))
    return decisive_of(measured, target).make(translator, trace)


def aimed(trace: Trace, kind: str, layer: int, head: int, at: tuple[int, ...]) -> Trace:
    """Return the trace with one head that looks from the pronoun at these positions only."""
    maps = getattr(trace, kind).copy()
    row = IT if kind == "encoder_self" else STEP
    maps[layer, head] = np.eye(*maps.shape[2:])
    maps[layer, head, row] = 0
    maps[layer, head, row, list(at)] = 1 / len(at)
    changed: dict[str, Any] = {kind: maps}
    return dataclasses.replace(trace, **changed)
