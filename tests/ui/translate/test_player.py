"""The player's first step."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from transformer.translator import Translator
from ui.core.examples import Example, examples_for
from ui.translate.player import default_step

TOY = Path(__file__).resolve().parents[3] / "checkpoints/reverse-toy"


def test_an_example_opens_on_a_telling_step() -> None:
    model = Translator.load(TOY, device="cpu")
    example = examples_for("reverse-toy").items[0]
    trace = model.trace(example.sentence)
    step = default_step(trace, example)
    assert 1 < step < len(trace.predicted_tokens)
    row = trace.cross.mean(axis=(0, 1))[step - 1]
    # It looks at the letter that it writes: as far from the other end.
    assert row.max() > 0.5
    assert trace.src_tokens[int(np.argmax(row))] == trace.predicted_tokens[step - 1]

    watched = default_step(trace, Example(example.sentence, watch="f"))
    assert int(np.argmax(trace.cross.mean(axis=(0, 1))[watched - 1])) == trace.src_tokens.index("f")
    assert default_step(trace, None) == 1  # a visitor's own sentence
    assert default_step(trace, Example(example.sentence, watch="q")) == 1
