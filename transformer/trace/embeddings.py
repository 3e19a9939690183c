"""A model's embeddings and the inputs of its stacks, as NumPy (sections 3.4, 3.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from transformer.model import Transformer
from transformer.trace.building import to_array
from transformer.types import Floats

TextSide = Literal["source", "translation"]


@dataclass(frozen=True, eq=False)
class StackInput:
    """The input of the encoder or the decoder, which is content plus positions."""

    content: Floats  # [n, d_model], the embeddings times `scale`
    positions: Floats  # [n, d_model], the positional encodings of positions 0, 1, and on
    scale: float  # sqrt(d_model), or 1 for a model that does not scale


def stack_input(model: Transformer, ids: Sequence[int], side: TextSide) -> StackInput:
    """Return both parts of the input of the encoder ("source") or decoder ("translation")."""
    source = side == "source"
    embedding = model.src_embedding if source else model.tgt_embedding
    positions = model.src_positions if source else model.tgt_positions
    scale = math.sqrt(model.config.d_model) if model.config.scale_embedding else 1.0
    with torch.inference_mode():
        tokens = torch.tensor(list(ids), dtype=torch.long, device=embedding.weight.device)
        content, places = embedding(tokens) * scale, positions(0, len(ids))
    return StackInput(to_array(content), to_array(places), scale)


def embedding_tables(model: Transformer) -> dict[str, Floats]:
    """Return the embedding matrices [V, d_model] by their use.

    Shared weights (`tie_embeddings`) appear once, under a joint name.
    """
    used = {
        "source": model.src_embedding.weight,
        "target": model.tgt_embedding.weight,
        "output": model.generator.weight,
    }
    names: dict[int, list[str]] = {}
    for name, weight in used.items():
        names.setdefault(weight.data_ptr(), []).append(name)
    return {" and ".join(", ".join(each).rsplit(", ", 1)): to_array(used[each[0]])
            for each in names.values()}  # fmt: skip
