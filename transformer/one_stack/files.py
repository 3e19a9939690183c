"""Checkpoints of models of one stack: the files of any checkpoint, with a config of its own.

The key "task" in config.json marks them. As with any checkpoint, nothing in the folder is trusted:
weights are read as numbers, after their shapes were compared with the config.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint.folder import (
    CONFIG,
    Loaded,
    read_config_text,
    read_metrics,
    read_own_tokenizer,
    read_whole,
    write_parts,
)
from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import check_state, read_state
from transformer.checkpoint.weights import Layout, SkipInit
from transformer.config import ConfigError
from transformer.errors import CheckpointError
from transformer.files.folders import replaced_folder
from transformer.one_stack.config import StackConfig
from transformer.one_stack.model import OneStack
from transformer.positions import make_positions
from transformer.text.layout import TOKENIZER_FILES
from transformer.text.tokenizer import Tokenizer

#: A checkpoint of one stack in memory.
StackCheckpoint = Loaded[OneStack]

#: The piece that hides a token of a text.
MASK = "[MASK]"


def mask_id(tokenizer: Tokenizer) -> int:
    """Return the id of `MASK`. Raises `ConfigError` for a tokenizer that has none."""
    try:
        return tokenizer.pieces.index(f"▁{MASK}")
    except ValueError:
        raise ConfigError(f"the tokenizer has no piece {MASK}") from None


def save_stack(
    path: str | Path,
    model: OneStack,
    tokenizer: Tokenizer,
    *,
    metrics: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    card: str | None = None,
) -> Path:
    """Write a checkpoint folder atomically; arguments as of `save_checkpoint`."""
    path, config = Path(path), model.config
    state = stack_layout(config).own(model.state_dict())
    with replaced_folder(path, dropped=TOKENIZER_FILES) as new:
        write_parts(
            new, config.to_json(), state, tokenizer, metrics=metrics, dtype=dtype, card=card
        )
    return path


def load_stack(path: str | Path | ModelRef) -> StackCheckpoint:
    """Read a checkpoint folder, or one of its snapshots as `PATH@UPDATES`.

    Raises: `CheckpointError` naming the file and what is wrong.
    """
    return read_whole(ModelRef.of(path), _load)


def _load(ref: ModelRef) -> StackCheckpoint:
    config, tokenizer = _config_and_tokenizer(ref.folder)
    model, layout = _outline(config), stack_layout(config)
    layout.fill(model, read_state(ref, layout))
    if config.blocks.positions == "sinusoidal":  # not stored, so still on the meta device
        model.positions = make_positions(config.blocks)
    model.eval().requires_grad_(False)
    return StackCheckpoint(ref, model, tokenizer, read_metrics(ref.folder))


def check_stack(path: str | Path | ModelRef) -> StackConfig:
    """Check config, tokenizer and the header of the weights without reading numbers.

    Raises: `CheckpointError`, like `load_stack`.
    """
    ref = ModelRef.of(path)
    config, _ = _config_and_tokenizer(ref.folder)
    check_state(ref, stack_layout(config))
    return config


def _config_and_tokenizer(folder: Path) -> tuple[StackConfig, Tokenizer]:
    try:
        config = StackConfig.from_json(read_config_text(folder))
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
    tokenizer = read_own_tokenizer(folder, config.blocks)
    if config.task == "fill":
        try:
            mask_id(tokenizer)
        except ConfigError as error:
            raise CheckpointError(f"{folder}: {error}") from None
    return config, tokenizer


def _outline(config: StackConfig) -> OneStack:
    with torch.device("meta"), SkipInit():
        return OneStack(config)


@lru_cache(maxsize=64)
def stack_layout(config: StackConfig) -> Layout:
    """Return the tensors of the model with this config, without allocating any."""
    shapes = {name: tuple(each.shape) for name, each in _outline(config).state_dict().items()}
    return Layout(shapes, {"generator.weight": "embedding.weight"}, config.n_parameters)
