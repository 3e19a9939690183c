"""Checked forward passes of a model of the `transformers` library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer.errors import CheckpointError, InputError
from transformer.files.safe import one_line
from transformer.models.huggingface.building import Family
from transformer.trace.building import to_array
from transformer.types import AttentionKind, Floats, map_sizes

#: Largest deviation of a row's sum from 1.
ROW_TOLERANCE = 1e-3
#: Memory limit of a trace.
MAX_TRACE_BYTES = 2 * 2**30

#: Map names in the library's output.
OUTPUTS: dict[Family, dict[AttentionKind, str]] = {
    "encoder_decoder": {
        "encoder_self": "encoder_attentions",
        "decoder_self": "decoder_attentions",
        "cross": "cross_attentions",
    },
    "decoder": {"decoder_self": "attentions"},
    "encoder": {"encoder_self": "attentions"},
}
KINDS = {family: tuple(outputs) for family, outputs in OUTPUTS.items()}


@dataclass(frozen=True, eq=False)
class PassOutput:
    """The output of one pass."""

    maps: dict[AttentionKind, Floats]  # by kind, [L, H, queries, keys]
    logits: Tensor | None  # [T, V] on the model's device, or None without a decoder


def run(
    model: Any, family: Family, name: str, src: Sequence[int], tgt: Sequence[int]
) -> PassOutput:
    """Run one pass over a source and a target, either of them empty, and return every map.

    Raises: `CheckpointError` unless the model returns maps whose rows sum to 1.
    """
    ids = torch.tensor([list(src or tgt)], device=model.device)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if family == "encoder_decoder":
        inputs["decoder_input_ids"] = torch.tensor([list(tgt)], device=model.device)
    if family != "encoder":
        inputs["use_cache"] = False
    try:
        output = model(**inputs, output_attentions=True, return_dict=True)
    except Exception as error:  # noqa: BLE001 - the library may raise anything
        raise CheckpointError(f"{name}: the model cannot be run ({one_line(error)})") from None
    sizes = map_sizes(len(src), len(tgt))
    maps = {
        kind: _stacked(getattr(output, attribute, None), name, kind, *sizes[kind])
        for kind, attribute in OUTPUTS[family].items()
    }
    logits = None if family == "encoder" else output.logits[0].float()
    return PassOutput(maps, logits)


def _stacked(layers: Any, name: str, kind: AttentionKind, n_queries: int, n_keys: int) -> Floats:
    """Return the maps of one sentence, [L, H, queries, keys], checked."""
    what = kind.replace("_", " ")
    if not layers or any(layer is None for layer in layers):
        raise CheckpointError(f"{name}: the library gives no {what} attention for this model")
    shapes = [tuple(getattr(layer, "shape", ())) for layer in layers]
    if len(set(shapes)) > 1 or shapes[0][:1] + shapes[0][2:] != (1, n_queries, n_keys):
        odd = next((shape for shape in shapes if shape[2:] != (n_queries, n_keys)), shapes[-1])
        raise CheckpointError(
            f"{name}: {what} attention of shape {list(odd)} is not a map of {n_queries} queries "
            f"and {n_keys} keys for each head, the same number of heads in every layer"
        )
    maps = to_array(torch.cat(list(layers)))
    if not np.isfinite(maps).all() or np.abs(maps.sum(-1) - 1).max() > ROW_TOLERANCE:
        raise CheckpointError(
            f"{name}: rows of {what} attention do not sum to 1 (of ProphetNet, the transformers "
            "library returns the scores before the softmax), so they cannot be shown as weights"
        )
    if kind == "decoder_self" and np.triu(maps, 1).any():
        raise CheckpointError(
            f"{name}: {what} attention has weight on later tokens, so this is not a decoder"
        )
    return maps


def check_memory(output: PassOutput, n_src: int, n_tgt: int, vocab_size: int) -> None:
    """Raise `InputError` for a trace that could exceed `MAX_TRACE_BYTES`.

    Args: output: any pass of the same model, for its depths and heads.
    """
    sizes, numbers = map_sizes(n_src, n_tgt), n_tgt * vocab_size
    numbers += sum(maps[:, :, 0, 0].size * math.prod(sizes[k]) for k, maps in output.maps.items())
    if 4 * numbers > MAX_TRACE_BYTES:
        raise InputError(
            f"the maps of {n_src} source and {n_tgt} target tokens could take "
            f"{4 * numbers / 2**30:.1f} GiB; at most {MAX_TRACE_BYTES / 2**30:g} GiB are allowed, "
            "so take a shorter sentence"
        )


def position_limits(model: Any) -> Iterator[int]:
    """Yield limits on positions, from the config and learned position tables."""
    declared = getattr(model.config, "max_position_embeddings", None)
    if type(declared) is int and declared > 0:
        yield declared
    for name, module in model.named_modules():
        table = name.rpartition(".")[2] in ("embed_positions", "position_embeddings", "wpe")
        if table and isinstance(module, torch.nn.Embedding):
            # RoBERTa counts positions from the id after padding, BART and OPT from 2.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            offset = getattr(module, "offset", first)
            yield module.num_embeddings - (offset if type(offset) is int else first)
