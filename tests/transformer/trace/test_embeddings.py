"""The input of the stacks is the sum that the model computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.tiny_models import random_model
from transformer.config import ModelConfig
from transformer.trace.embeddings import embedding_tables, stack_input


@pytest.mark.parametrize("changed", [{}, {"scale_embedding": False}, {"positions": "learned"}])
def test_the_two_parts_add_up_to_what_the_stacks_get(
    tiny_config: ModelConfig, changed: dict[str, object]
) -> None:
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
