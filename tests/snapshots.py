"""Random training snapshots for a small checkpoint."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.reference import SNAPSHOTS
from transformer.checkpoint.snapshots import pack
from transformer.checkpoint.weights import Layout, weights_digest
from transformer.model import Transformer
from transformer.models.catalogue import resolve
from transformer.models.one_stack.model import OneStack, load_stack

UPDATES = (0, 3, 20)


def drifting(model: Transformer | OneStack, count: int) -> list[dict[str, Tensor]]:
    """Return weights that drift increasingly from the model's."""
    generator = torch.Generator().manual_seed(1)
    start = model.state_dict()
    states = []
    for k in range(count):
        states.append({
            name: start[name] + k * 0.3 * start[name].std().nan_to_num(0.1)
            * torch.randn(shape, generator=generator)
            for name, shape in Layout.of(model).stored.items()
        })  # fmt: skip
    return states


def write_snapshots(
    folder: Path, fineness: float = 16.0, about: dict[str, Any] | NDArray[Any] | None = None, *,
    towards: bool = False, **changed: Any,
) -> list[dict[str, Tensor]]:  # fmt: skip
    """Write snapshots of a checkpoint and return them before packing.

    Args: about: their relation to run and checkpoint, "unrelated" by default.  towards: give the
        checkpoint's weights to the last snapshot, otherwise the first.
    """
    said = {
        "recipe": {"training": {"init": ""}}, "weights": weights_digest(folder), "end": False,
        "cosine": 0.012,
    }  # fmt: skip
    load = load_stack if resolve(folder).kind == "one_stack" else load_checkpoint
    states = drifting(load(folder).model, len(UPDATES))[:: -1 if towards else 1]
    arrays = pack(states, fineness) | {
        "updates": np.array(UPDATES), "val_nll": np.array([9.0, 5.0, 2.0], np.float32),
        "about": about if isinstance(about, np.ndarray) else np.array(
            json.dumps({**said, **(about or {})})
        ),
        **changed,
    }  # fmt: skip
    file = io.BytesIO()
    np.savez_compressed(file, **{k: v for k, v in arrays.items() if v is not None})
    (folder / SNAPSHOTS).write_bytes(file.getvalue())
    return states
