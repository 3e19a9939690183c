"""Figures of the Positions page: the split of layer 1, and tables that a model stores."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from figures.exhibit import Panel
from figures.labels import query_labels
from figures.positions import cosines
from transformer.config import ModelConfig
from transformer.positions import StoredPositions, sinusoids
from transformer.translator import Translator
from transformer.types import AttentionKind
from ui.positions import exhibits


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self"])
def test_the_parts_of_a_split_add_up(kind: AttentionKind, tiny_translator: Translator) -> None:
    trace = tiny_translator.trace("The cat sat on the mat.", target="Ein Hund rennt.")
    made = exhibits.content_and_position(tiny_translator, trace, kind, 1)
    panels = [part for part in made.parts if isinstance(part, Panel)]
    assert len(panels) == 5
    assert [row.split(" ", 1)[1] for row in panels[0].rows] == list(query_labels(trace, kind))
    total = np.sum([panel.values for panel in panels[:-1]], axis=0)
    np.testing.assert_allclose(total, panels[-1].values, rtol=1e-5, atol=1e-5)
    assert np.isnan(total).any() == (kind == "decoder_self")


def with_tables(*tables: torch.Tensor, config: ModelConfig | None = None) -> Any:
    model: Any = torch.nn.Module()
    model.src_positions, model.tgt_positions = map(StoredPositions, tables)
    model.config = config
    return SimpleNamespace(model=model)


def test_learned_tables_are_compared_and_end() -> None:
    generator = torch.Generator().manual_seed(0)
    learned = [torch.randn(20, 7, generator=generator) for _ in range(2)]
    for side, table in zip(("Encoder", "Decoder"), learned, strict=True):
        made = exhibits.learned_positions(with_tables(*learned), side)
        np.testing.assert_allclose(made.arrays["learned"], cosines(table.numpy()), atol=1e-6)
        assert made.arrays["formula"].shape == (20, 20)
    beyond = exhibits.stored_positions_beyond(with_tables(*learned), 12, 8).arrays["curves"]
    assert np.isnan(beyond[20:, -1]).all() and not np.isnan(beyond[:20]).any()


def test_a_difference_that_small_has_a_scale_of_its_own() -> None:
    config = ModelConfig(d_model=8, positions="stored", max_positions=9, position_offset=2)
    rounded = sinusoids(config).half(), sinusoids(config).to(torch.bfloat16)
    made = exhibits.stored_positions(with_tables(*rounded, config=config), "Decoder", n=7)
    assert 1e-5 < np.abs(made.arrays["difference"]).max() < 0.1
    limits = [panel.quantity for panel in made.parts if isinstance(panel, Panel)]
    assert len(set(limits)) == 2


def test_what_a_row_shares_does_not_count() -> None:
    values = np.array([[1.0, 3.0, 9.0], [5.0, 5.0, 5.0], [0.0, 2.0, 4.0]], dtype=np.float32)
    mask = np.tril(np.ones((3, 3), dtype=bool))
    expected = np.sqrt((0 + 0 + 0 + 4 + 0 + 4) / 6)
    assert exhibits.within_rows(values, mask) == pytest.approx(expected)
    shifted = values + np.array([[7.0], [-3.0], [100.0]], dtype=np.float32)
    assert exhibits.within_rows(shifted, mask) == pytest.approx(expected)
