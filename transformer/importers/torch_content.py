"""Torch files that hold settings and training state beside the weights.

They are opened with `weights_only=True`, which builds numbers, texts, lists and dictionaries and
refuses everything else. `argparse.Namespace` is allowed as well, since such files are full of it:
creating one runs none of the file's code, and its values only become attributes.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer.checkpoint.weights import is_plain
from transformer.errors import CheckpointError
from transformer.files.pickles import ALLOWED
from transformer.files.torch_file import read_torch

#: Names allowed in pickles beside those of state dicts, see `transformer.files.pickles`.
_NAMES = re.compile(ALLOWED.pattern + r"|argparse Namespace|(__builtin__|builtins) set")


def read_content(path: Path, convert: str) -> dict[str, Any]:
    """Return the content of a torch file.

    Args:
        convert: how to convert a refused file, for the message.

    Raises: `CheckpointError`, one line that names the file.
    """
    content = read_torch(
        path, allowed=_NAMES, safe_globals=[argparse.Namespace], hint=f"; {convert}"
    )
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: not a checkpoint (a dictionary)")
    return content


def tensors_in(path: Path, content: dict[str, Any], key: str) -> dict[str, Tensor]:
    """Return the state dict `key`. Raises `CheckpointError` unless it is plain tensors by name."""
    state = content.get(key)
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and is_plain(tensor) for name, tensor in state.items()
    ):
        raise CheckpointError(f"{path}: {key!r} is not a state dict (plain tensors by name)")
    return state


def plain(value: object) -> dict[str, Any]:
    """Return a namespace or a dictionary as a dictionary, {} for anything else."""
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    return (
        {key: each for key, each in value.items() if isinstance(key, str)}
        if isinstance(value, dict)
        else {}
    )
