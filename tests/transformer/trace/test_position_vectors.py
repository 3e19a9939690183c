"""Encodings for the page: the formula, computed a second way."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_models import random_model
from transformer.config import ModelConfig
from transformer.positions import pair_columns
from transformer.trace import position_vectors
from transformer.trace.position_vectors import embedding_tables, stack_input


@pytest.mark.parametrize("changed", [{}, {"scale_embedding": False}, {"positions": "learned"}])
def test_both_parts_add_up(tiny_config: ModelConfig, changed: dict[str, object]) -> None:
    model = random_model(tiny_config.replace(**changed))
    ids = [5, 9, 5, 2, 17]
    for side in ("source", "translation"):
        parts = stack_input(model, ids, side)
        embed = (model.embed_source if side == "source" else model.embed_target)(
            torch.tensor([ids])
        )
        np.testing.assert_allclose(parts.content + parts.positions, embed[0], atol=1e-5)
        np.testing.assert_array_equal(parts.content[0], parts.content[2])
        assert parts.scale == (24**0.5 if tiny_config.replace(**changed).scale_embedding else 1)


@pytest.mark.parametrize("tying", ["all", "decoder", "none"])
def test_shared_matrices_appear_once(tiny_config: ModelConfig, tying: str) -> None:
    model = random_model(tiny_config.replace(tie_embeddings=tying))
    tables = embedding_tables(model)
    assert list(tables) == {
        "all": ["source, target and output"], "decoder": ["source", "target and output"],
        "none": ["source", "target", "output"],
    }[tying]  # fmt: skip
    assert {table.shape for table in tables.values()} == {(tiny_config.vocab_size, 24)}
    (target,) = (table for name, table in tables.items() if "target" in name)
    content = stack_input(model, [7], "translation").content[0]
    np.testing.assert_allclose(content, target[7] * 24**0.5, rtol=1e-6)


LAYOUTS = ("interleaved", "concatenated")


def by_hand(pos: int, dimension: int, d_model: int) -> float:
    angle = pos / 10_000 ** ((dimension - dimension % 2) / d_model)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_and_pairs_find_the_columns(layout: str) -> None:
    table = position_vectors.encoding(4, 10, layout)
    names = position_vectors.dimension_names(10, layout)
    for pair, (sine, cosine) in enumerate(pair_columns(10, layout).tolist()):
        assert (names[sine], names[cosine]) == (f"sin of pair {pair}", f"cos of pair {pair}")
        for pos in range(4):
            assert table[pos, sine] == pytest.approx(by_hand(pos, 2 * pair, 10), abs=1e-6)
            assert table[pos, cosine] == pytest.approx(by_hand(pos, 2 * pair + 1, 10), abs=1e-6)


def test_wavelengths_and_products_of_the_formula() -> None:
    waves = position_vectors.wavelengths(512)
    assert waves[0] == pytest.approx(2 * math.pi)
    assert waves[-1] == pytest.approx(2 * math.pi * 10_000 ** (510 / 512))
    values = position_vectors.offset_products((0, 10, 400), 30, 64)
    np.testing.assert_allclose(values, np.broadcast_to(values[:, :1], values.shape), atol=1e-4)
    assert values[0, 0] == pytest.approx(32, abs=1e-4)  # d / 2


@settings(max_examples=40, deadline=None)
@given(
    pos=st.integers(0, 5_000),
    k=st.integers(-500, 500),
    half=st.integers(1, 40),
    layout=st.sampled_from(LAYOUTS),
)
def test_a_turned_encoding_is_the_shifted_one(pos: int, k: int, half: int, layout: str) -> None:
    result = position_vectors.shift(pos, k, 2 * half, layout, n=16)
    assert result.largest_error < 2e-7
    assert result.largest_error_anywhere < 2e-7
    np.testing.assert_allclose(result.after, result.expected, atol=2e-7)
    # Turning by hand: sine goes up, cosine to the right.
    angles = np.arctan2(result.before[:, 0], result.before[:, 1]) + result.angles
    np.testing.assert_allclose(np.sin(angles), result.expected[:, 0], atol=1e-6)


def test_the_error_is_measured_and_not_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        position_vectors, "shift_matrix", lambda k, d, layout: torch.eye(d).double()
    )
    assert position_vectors.shift(3, 5, 8, "interleaved").largest_error > 0.1


@pytest.mark.parametrize("kind", ["learned", "stored"])
def test_tables_are_read_from_the_model(tiny_config: ModelConfig, kind: str) -> None:
    changed = {"positions": kind, "max_positions": 20}
    model = random_model(tiny_config.replace(**changed))
    tables = position_vectors.tables_of(model)
    assert list(tables) == ["Encoder", "Decoder"]
    assert tables["Encoder"].shape == (20, tiny_config.d_model)
    decoder = model.state_dict()["tgt_positions.table"]
    np.testing.assert_array_equal(tables["Decoder"], decoder.numpy())
    assert position_vectors.tables_of(random_model(tiny_config)) == {}
    assert bool(position_vectors.stored_note(model)) == (kind == "stored")


def test_sinusoids_unlike_the_papers_are_told_of(tiny_config: ModelConfig) -> None:
    assert position_vectors.unlike_the_paper(tiny_config) == ""
    other = tiny_config.replace(position_offset=2, position_frequencies="endpoint")
    note = position_vectors.unlike_the_paper(other)
    assert "counts its positions from 2 and has frequencies that end at exactly 1/10000" in note
    assert position_vectors.unlike_the_paper(other.replace(positions="learned")) == ""


def test_length_of_training() -> None:
    for training, expected in (
        ({"longest_source": 40, "longest_target": 44}, 44), ({"longest_source": 40}, 40),
        ({"longest_source": "many", "longest_target": True}, None), (None, None),
    ):  # fmt: skip
        assert position_vectors.trained_positions({"training": training}) == expected
    assert position_vectors.trained_positions({}) is None


def test_around_the_end_of_training_the_formula_goes_on_and_a_table_stops() -> None:
    table = np.arange(1, 41, dtype=np.float32).reshape(20, 2)
    values, names = position_vectors.around(15, 64, {"Decoder": table})
    assert values.shape == (30, len(names))
    assert names[-1].startswith("Decoder, learned dimension 0")
    assert not np.isnan(values[:, :-1]).any()
    np.testing.assert_allclose(values[:20, -1], table[:, 0] / 39)
    assert np.isnan(values[20:, -1]).all()
    for column, name in enumerate(names[:-1]):
        pair = int(name.split("pair ")[1].split(",")[0])
        assert values[29, column] == pytest.approx(by_hand(29, 2 * pair, 64), abs=1e-6)
