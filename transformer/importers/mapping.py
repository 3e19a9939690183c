"""Renames weights, and checks them against a config before taking memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from transformer.checkpoint.weights import (
    check_memory,
    check_type,
    describe,
    in_memory,
    layout_of,
)
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.types import Report

_STORED = {torch.float16: "float16", torch.bfloat16: "bfloat16"}

#: Parts of a layer's tensor names here and in fairseq, whose names Marian models use too.
LAYER_PARTS = {
    "around_self.norm": "self_attn_layer_norm",
    "around_cross.norm": "encoder_attn_layer_norm",
    "around_feed_forward.norm": "final_layer_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "w_q": "q_proj",
    "w_k": "k_proj",
    "w_v": "v_proj",
    "w_o": "out_proj",
}


class Alias(NamedTuple):
    """A place where a tensor may be stored.

    Attributes:
        name: in the file.
        first, total: if only a part, the rows from `first` of a tensor of `total` rows.
    """

    name: str
    first: int = 0
    total: int | None = None


def wanted_names(config: ModelConfig) -> tuple[str, ...]:
    """Return this project's names of the tensors that a checkpoint stores."""
    return tuple(layout_of(config).stored)


def renamed(name: str, layers: Mapping[str, str], parts: Mapping[str, str]) -> str | None:
    """Return the other library's name of a layer's tensor; None if it belongs to no layer.

    Args:
        layers: the names of "encoder" and "decoder", up to the number of the layer.
        parts: replacements of parts of names, in this order.
    """
    stack, number, part = [*name.split(".", 2), "", ""][:3]
    if stack not in layers or not number.isdigit():
        return None
    for ours, theirs in parts.items():
        part = part.replace(ours, theirs)
    return f"{layers[stack]}.{number}.{part}"


def embedding_aliases(
    name: str, config: ModelConfig, source: str, target: str, *output: str
) -> tuple[str, ...] | None:
    """Return the other library's names of an embedding or the output matrix, tied ones included.

    Args: source, target, output: that library's names of the three; the last may have several.
    """
    tied = config.tie_embeddings
    if name == "src_embedding.weight":
        return (source, target, *output) if tied == "all" else (source,)
    if name == "tgt_embedding.weight":
        return (target, *output) if tied == "decoder" else (target,)
    return output if name == "generator.weight" else None


def gather(
    path: Path,
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    names: Mapping[str, Sequence[Alias]],
    *,
    ignored: re.Pattern[str],
    said_by: str,
    report: Report | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Return the weights in float32 by this project's names, and the type to store them in.

    Args:
        tensors: those of the file, by its names.
        names: where each may be stored. If several of these exist, they are tied and must be equal.
        ignored: names of tensors that are not needed.
        said_by: the origin of the expected shapes, for messages.
        report: called with (tensors read, total).

    Raises: `CheckpointError`, one line that names the file.
    """
    expected = layout_of(config).shapes
    used: set[str] = set()
    found: dict[str, list[Alias]] = {}
    for name, aliases in names.items():
        found[name] = [alias for alias in aliases if alias.name in tensors]
        if not found[name]:
            raise CheckpointError(f"{path}: tensor {aliases[0].name!r} is missing")
        for alias in found[name]:
            tensor, shape = tensors[alias.name], expected[name]
            if alias.total is not None:
                shape = (alias.total, *shape[1:])
            if tuple(tensor.shape) != shape:
                raise CheckpointError(
                    f"{path}: tensor {alias.name!r} has shape {list(tensor.shape)}, "
                    f"but {said_by} asks for {list(shape)}"
                )
            check_type(path, alias.name, describe(tensor)[1])
            used.add(alias.name)
    for name in tensors:
        if name not in used and not ignored.fullmatch(name):
            raise CheckpointError(f"{path}: tensor {name!r} does not belong to this model")
    check_memory(path, config.n_numbers)
    state: dict[str, Tensor] = {}
    for name, aliases in found.items():
        if report is not None:
            report(len(state), len(found))
        first, *others = (_rows(path, alias, tensors, expected[name]) for alias in aliases)
        for alias, other in zip(aliases[1:], others, strict=True):
            if not torch.equal(first, other):
                raise CheckpointError(
                    f"{path}: tensors {aliases[0].name!r} and {alias.name!r} differ, "
                    f"but {said_by} ties them"
                )
        state[name] = first
    kinds = {tensors[name].dtype for name in used}
    return state, _STORED.get(kinds.pop(), "float32") if len(kinds) == 1 else "float32"


def _rows(
    path: Path, alias: Alias, tensors: Mapping[str, Tensor], shape: tuple[int, ...]
) -> Tensor:
    tensor = tensors[alias.name]
    if alias.total is not None:
        tensor = tensor[alias.first : alias.first + shape[0]]
    return in_memory(path, alias.name, tensor)
