"""The weights of a fairseq checkpoint, under this project's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from transformer.checkpoint.weights import layout_of
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.importers.fairseq.config import PAD, max_positions
from transformer.importers.mapping import (
    LAYER_PARTS,
    Alias,
    embedding_aliases,
    gather,
    renamed,
    wanted_names,
)
from transformer.importers.settings import Settings
from transformer.machinery.stored_positions import formula
from transformer.types import Report

SOURCE, TARGET = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
#: The output matrix, in new and in old versions.
OUTPUT = ("decoder.output_projection.weight", "decoder.embed_out")

STACKS = {"encoder": "encoder.layers", "decoder": "decoder.layers"}
#: Norms of a layer by their numbers in old versions.
NUMBERED = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
POSITIONS = {
    "src_positions.table": ("encoder", "source"),
    "tgt_positions.table": ("decoder", "target"),
}
#: Version numbers, sinusoids, which are computed here, and buffers in which version 0.12 keeps
#: copies of the encoder's weights.
IGNORED = re.compile(
    r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights)|_future_mask)"
    r"|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)


def read_weights(
    path: Path,
    settings: Settings,
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    report: Report | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Return the weights in float32 by this project's names, and the type they are stored in."""
    for stack in STACKS:
        version = tensors.get(f"{stack}.version")
        old = version is not None and version.numel() == 1 and float(version) < 2
        if old and config.norm == "pre":
            raise CheckpointError(
                f"{path}: {stack}.version is below 2, a pre-norm model without the last norm"
            )
    computed = _computed_positions(settings, config)
    names = {
        name: _aliases(name, settings, config)
        for name in wanted_names(config)
        if name not in computed
    }
    state, dtype = gather(
        path, config, tensors, names, ignored=IGNORED, said_by="its configuration", report=report
    )
    return state | computed, dtype


def _aliases(name: str, settings: Settings, config: ModelConfig) -> list[Alias]:
    embeddings = embedding_aliases(name, config, SOURCE, TARGET, *OUTPUT)
    if embeddings is not None:
        return [Alias(each) for each in embeddings]
    if name in POSITIONS:
        stack, side = POSITIONS[name]
        first = PAD + 1
        longest = max_positions(settings, side)
        return [Alias(f"{stack}.embed_positions.weight", first, first + longest)]
    theirs = renamed(name, STACKS, LAYER_PARTS)
    if theirs is None:
        return [Alias(name.replace("_norm.", ".layer_norm."))]
    return _in_layer(name, theirs, config)


def _in_layer(name: str, theirs: str, config: ModelConfig) -> list[Alias]:
    """Return the places of a layer's tensor: its own, a third of one, or a numbered norm."""
    found = [Alias(theirs)]
    stem, projection, ending = theirs.rpartition(".")[0], "", theirs.rpartition(".")[2]
    stem, _, projection = stem.rpartition(".")
    if projection in ("q_proj", "k_proj", "v_proj"):
        rows = layout_of(config).shapes[name][0]
        part = ("q_proj", "k_proj", "v_proj").index(projection)
        found.append(Alias(f"{stem}.in_proj_{ending}", part * rows, 3 * rows))
    norms = NUMBERED[name.partition(".")[0]]
    if projection in norms:
        found.append(Alias(f"{stem}.layer_norms.{norms.index(projection)}.{ending}"))
    return found


def _computed_positions(settings: Settings, config: ModelConfig) -> dict[str, Tensor]:
    """Return the sinusoids of one stack as a table if the other's positions are learned."""
    if config.positions != "learned":
        return {}
    table = None if config.d_model % 2 else formula(config)
    computed = {}
    for name, (stack, _) in POSITIONS.items():
        if not settings.flag(f"{stack}_learned_pos"):
            if table is None:
                raise settings.error("encoder_embed_dim", "even, which sinusoids need")
            computed[name] = table
    return computed
