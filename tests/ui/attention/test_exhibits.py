"""Downloads of the Attention page: every head as it is, and every kind offline."""

import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from figures.exhibit import Exhibit
from tests.factories import make_trace
from tests.messages import unpack
from transformer.types import ATTENTION_KINDS
from ui.attention.exhibits import attention_exhibit
from ui.attention.maps import AttentionChoice
from ui.export.programs import Source

TRACE = make_trace(S=6, T=5, n_encoder_layers=2, n_decoder_layers=3, n_heads=3)
CHOICE = AttentionChoice(
    kind="cross", display="grid", units="tokens", how="mean", dim=True, cell=(1, None),
    chosen=False, heads=((0, 2), (1, 0)), mass=0.6, pin=("key", 1), queries=(1, 3), keys=(0, 2),
)  # fmt: skip


def exhibit(**changes: Any) -> Exhibit:
    return attention_exhibit(TRACE, replace(CHOICE, **changes), Source("tiny", sentence="The cat."))


def test_the_grid_and_the_matrix_hold_the_weights_as_they_are() -> None:
    grid, matrix = exhibit(), exhibit(display="matrix")
    np.testing.assert_array_equal(grid.arrays["maps"], TRACE.cross)
    titles = [f"Layer {layer}, head {head}" for layer in (1, 2, 3) for head in (1, 2, 3)]
    assert [part.title for part in grid.parts] == titles and grid.columns == 3
    np.testing.assert_allclose(matrix.arrays["weights"], TRACE.cross[1].mean(axis=0), atol=1e-6)
    mass = TRACE.cross[:, :, [1, 3]][..., [0, 2]].sum(-1).mean(-1)
    np.testing.assert_allclose(matrix.arrays["mass"], mass, atol=1e-6)
    assert matrix.name == "cross-attention-layer-2-mean-over-heads"


def test_the_grid_s_page_holds_every_kind_if_it_is_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid, lens = exhibit().views
    header, _ = unpack(grid.message)
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

    monkeypatch.setattr("ui.attention.exhibits.MOST_FOLLOWING", TRACE.encoder_self.size)
    grid, lens = exhibit(kind="encoder_self", cell=(1, 2)).views
    assert [name for name, *_ in unpack(grid.message)[0]["kinds"]] == [""]
    assert "[1,2]" in lens.follows and "[null,null]" in lens.follows
