"""Checkpoints of models with one stack, marked by the key "task" in config.json.

Like any checkpoint, they are untrusted: weights are numbers whose shapes match the config.
"""

from functools import lru_cache
from pathlib import Path

import torch

from transformer.checkpoint import folder as checkpoints
from transformer.checkpoint.weights import Layout, SkipInit
from transformer.config import ConfigError
from transformer.errors import CheckpointError
from transformer.models.one_stack.config import StackConfig
from transformer.models.one_stack.model import OneStack
from transformer.positions import make_positions
from transformer.text.tokenizer import Tokenizer

#: The piece that stands in for a hidden token.
MASK = "[MASK]"


def mask_id(tokenizer: Tokenizer) -> int:
    """Return the id of `MASK`. Raises `ConfigError` if the tokenizer lacks it."""
    try:
        return tokenizer.pieces.index(f"▁{MASK}")
    except ValueError:
        raise ConfigError(f"the tokenizer has no piece {MASK}") from None


def _config_and_tokenizer(folder: Path) -> tuple[StackConfig, Tokenizer]:
    where = folder / checkpoints.CONFIG
    try:
        config = StackConfig.from_json(checkpoints.read_config_text(folder))
        tokenizer = checkpoints.read_own_tokenizer(folder, config.blocks)
        where = folder
        if config.task == "fill":
            mask_id(tokenizer)
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{where}: {error}") from None
    return config, tokenizer


def _outline(config: StackConfig) -> OneStack:
    with torch.device("meta"), SkipInit():
        return OneStack(config)


@lru_cache(maxsize=64)
def stack_layout(config: StackConfig) -> Layout:
    """Return the tensors of the model with this config, without allocating any."""
    tensors = _outline(config).state_dict().items()
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors}
    return Layout(shapes, {"generator.weight": "embedding.weight"}, config.n_parameters)


def _complete(config: StackConfig, model: OneStack) -> None:
    if config.blocks.positions == "sinusoidal":  # still on the meta device
        model.positions = make_positions(config.blocks)


StackCheckpoint = checkpoints.Loaded[StackConfig, OneStack]

ONE_STACK: checkpoints.ModelClass[StackConfig, OneStack, StackCheckpoint] = checkpoints.ModelClass(
    _config_and_tokenizer, _outline, stack_layout, _complete, StackCheckpoint
)
load_stack, check_stack, save_stack = ONE_STACK.load, ONE_STACK.check, ONE_STACK.save
