"""Figures of the Positions page: each program makes the numbers of its figure."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from figures import position_exhibits as exhibits
from figures.exhibit import Exhibit, Panel
from figures.positions import cosines
from transformer.config import ModelConfig
from transformer.positions import StoredPositions, sinusoids
from transformer.trace import position_vectors

LAYOUTS = ("interleaved", "concatenated")


def run(exhibit: Exhibit, given: Mapping[str, Any] | None = None) -> None:
    left = dict(given or {})
    exec(exhibit.snippet, left)  # noqa: S102 - our own program
    assert exhibit.arrays
    for name, values in exhibit.arrays.items():
        np.testing.assert_allclose(left[name], values, rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_table_curves_and_products(layout: Any) -> None:
    table = position_vectors.encoding(9, 6, layout)
    run(exhibits.table_exhibit(table, layout))
    run(exhibits.curves_exhibit(table, [1, 4], ["one", "four"], layout))
    run(exhibits.curves_exhibit(table, [], [], layout))
    values = position_vectors.offset_products((0, 10), 12, 6)
    run(exhibits.products_exhibit(table, values, (0, 10), layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("pos", "k"), [(5, 3), (7, -4), (0, 0)])
def test_shift(layout: Any, pos: int, k: int) -> None:
    made = position_vectors.shift(pos, k, 10, layout)
    run(exhibits.shift_exhibit(made.before, made.after, made.expected, pos, k, layout))


def learned_model() -> SimpleNamespace:
    generator = torch.Generator().manual_seed(0)
    tables = [StoredPositions(torch.randn(20, 7, generator=generator)) for _ in range(2)]
    return SimpleNamespace(model=SimpleNamespace(src_positions=tables[0], tgt_positions=tables[1]))


@pytest.mark.parametrize("with_tables", [False, True])
def test_beyond(with_tables: bool) -> None:
    translator = learned_model()
    learned = {
        "Encoder": translator.model.src_positions.table.numpy(),
        "Decoder": translator.model.tgt_positions.table.numpy(),
    }
    values, names = position_vectors.around(12, 8, learned if with_tables else {})
    pairs = position_vectors.pairs_around(12, 8)
    run(exhibits.beyond_exhibit(values, names, pairs, 8, ""), {"translator": translator})


@pytest.mark.parametrize("side", ["Encoder", "Decoder"])
def test_learned(side: str) -> None:
    translator = learned_model()
    attribute = "src_positions" if side == "Encoder" else "tgt_positions"
    rows = getattr(translator.model, attribute).table.numpy()
    tables = {
        "learned": cosines(rows),
        "formula": cosines(position_vectors.encoding(len(rows), 8, "interleaved")),
    }
    run(exhibits.learned_exhibit(tables, side, ""), {"translator": translator})


@pytest.mark.parametrize("side", ["Encoder", "Decoder"])
def test_stored(side: str) -> None:
    config = ModelConfig(d_model=8, positions="stored", max_positions=9, position_offset=2)
    exact = sinusoids(config, 7)
    tables = [
        StoredPositions(sinusoids(config).to(dtype)) for dtype in (torch.half, torch.bfloat16)
    ]
    model = SimpleNamespace(config=config, src_positions=tables[0], tgt_positions=tables[1])
    rows = tables[side == "Decoder"].table[:7].float().numpy()
    made = exhibits.stored_exhibit(rows, exact.numpy(), side, "rounded", "")
    assert np.abs(made.arrays["difference"]).max() > 1e-5
    limits = [panel.quantity for panel in made.parts if isinstance(panel, Panel)]
    assert len(set(limits)) == 2, "a difference that small needs a scale of its own"
    run(made, {"translator": SimpleNamespace(model=model)})


def test_what_a_row_shares_does_not_count() -> None:
    values = np.array([[1.0, 3.0, 9.0], [5.0, 5.0, 5.0], [0.0, 2.0, 4.0]], dtype=np.float32)
    mask = np.tril(np.ones((3, 3), dtype=bool))
    expected = np.sqrt((0 + 0 + 0 + 4 + 0 + 4) / 6)
    assert exhibits.within_rows(values, mask) == pytest.approx(expected)
    shifted = values + np.array([[7.0], [-3.0], [100.0]], dtype=np.float32)
    assert exhibits.within_rows(shifted, mask) == pytest.approx(expected)
