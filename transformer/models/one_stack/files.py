"""Checkpoints of models of one stack: the files of any checkpoint, with another config.

The key "task" in config.json marks them. As with any checkpoint, nothing in the folder is trusted:
weights are read as numbers, after their shapes were compared with the config.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch

from transformer.checkpoint.folder import (
    CONFIG,
    Loaded,
    ModelClass,
    read_config_text,
    read_own_tokenizer,
)
from transformer.checkpoint.weights import Layout, SkipInit
from transformer.config import ConfigError
from transformer.errors import CheckpointError
from transformer.models.one_stack.config import StackConfig
from transformer.models.one_stack.model import OneStack
from transformer.positions import make_positions
from transformer.text.tokenizer import Tokenizer

#: The piece that hides a token of a text.
MASK = "[MASK]"


def mask_id(tokenizer: Tokenizer) -> int:
    """Return the id of `MASK`. Raises `ConfigError` for a tokenizer that has none."""
    try:
        return tokenizer.pieces.index(f"▁{MASK}")
    except ValueError:
        raise ConfigError(f"the tokenizer has no piece {MASK}") from None


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


def _complete(config: StackConfig, model: OneStack) -> None:
    if config.blocks.positions == "sinusoidal":  # still on the meta device
        model.positions = make_positions(config.blocks)


#: A checkpoint of one stack in memory.
StackCheckpoint = Loaded[StackConfig, OneStack]

ONE_STACK: ModelClass[StackConfig, OneStack, StackCheckpoint] = ModelClass(
    _config_and_tokenizer, _outline, stack_layout, _complete, StackCheckpoint
)
load_stack, check_stack, save_stack = ONE_STACK.load, ONE_STACK.check, ONE_STACK.save
