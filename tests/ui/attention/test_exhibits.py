"""Downloads of the Attention page: the every head as it is, and every kind offline."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from figures.exhibit import Exhibit
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS
from ui.attention.exhibits import attention_exhibit
from ui.attention.maps import AttentionChoice
from ui.export.programs import Source

Make = Callable[[AttentionChoice], Exhibit]
SENTENCE = "The <b>cat</b> sat on 'it'."
CHOICE = AttentionChoice(
    kind="cross", display="grid", units="tokens", how="mean", dim=True, cell=(1, None),
    chosen=False, heads=((0, 2), (1, 0)), mass=0.6, pin=("key", 1), queries=(1, 3), keys=(0, 2),
)  # fmt: skip


@pytest.fixture
def exhibit(tiny_translator: Translator) -> Make:
    trace = tiny_translator.trace(SENTENCE)
    return lambda choice: attention_exhibit(trace, choice, Source("tiny", sentence=SENTENCE))


def test_the_grid_holds_every_head_as_it_is(exhibit: Make, tiny_translator: Translator) -> None:
    trace = tiny_translator.trace(SENTENCE)
    made = exhibit(CHOICE)
    np.testing.assert_allclose(made.arrays["maps"], trace.cross, atol=1e-6)
    assert [part.title for part in made.parts][:4] == [
        "Layer 1, head 1", "Layer 1, head 2", "Layer 1, head 3", "Layer 2, head 1",
    ]  # fmt: skip
    assert made.columns == 3


def test_the_page_of_the_grid_holds_every_kind_while_that_is_no_large_file(
    exhibit: Make, tiny_translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, lens = exhibit(CHOICE).views
    header = json.loads(grid.message[4 : 4 + int.from_bytes(grid.message[:4], "little")])
    assert [name for name, *_ in header["kinds"]] == list(ATTENTION_KINDS)
    assert all(size for *_, size in header["kinds"])
    assert header["choice"] == [1, None, [], "cross"]
    wanted = {
        json.dumps([layer, head, kind], separators=(",", ":"))
        for kind, n_layers in (("encoder_self", 2), ("decoder_self", 3), ("cross", 3))
        for layer, head in product([*range(n_layers), None], [*range(3), None])
    }
    assert lens.follows.keys() == wanted
    assert lens.follows['[1,null,"cross"]'] == lens.message

    one_kind = tiny_translator.trace(SENTENCE).encoder_self.size
    monkeypatch.setattr("ui.attention.exhibits.MOST_FOLLOWING", one_kind)
    grid, lens = exhibit(replace(CHOICE, kind="encoder_self", cell=(1, 2))).views
    header = json.loads(grid.message[4 : 4 + int.from_bytes(grid.message[:4], "little")])
    assert [name for name, *_ in header["kinds"]] == [""]
    assert "[1,2]" in lens.follows and "[null,null]" in lens.follows


def test_a_matrix_comes_with_the_weight_on_the_chosen_tokens(
    exhibit: Make, tiny_translator: Translator
) -> None:
    trace = tiny_translator.trace(SENTENCE)
    made = exhibit(replace(CHOICE, display="matrix"))
    np.testing.assert_allclose(made.arrays["weights"], trace.cross[1].mean(axis=0), atol=1e-6)
    mass = trace.cross[:, :, [1, 3]][..., [0, 2]].sum(-1).mean(-1)
    np.testing.assert_allclose(made.arrays["mass"], mass, atol=1e-6)
    assert made.name == "cross-attention-layer-2-mean-over-heads"
