"""The mean output of every head, which the edit `mean` puts in the output's place.

    means.npz
        encoder_self   float32 [L, H, d_v]; decoder_self and cross likewise
        about          text []   JSON: the digest of the `weights` beside the file, the `text`
                                 that the means are of, and how many `sentences` it has

Written by `python -m transformer means`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.weights import weights_digest
from transformer.config import ModelConfig, parse_json
from transformer.errors import CheckpointError, InputError
from transformer.files.atomic import write_atomic
from transformer.files.npz import read_npz
from transformer.files.safe import is_there
from transformer.types import ATTENTION_KINDS, AttentionKind

FILE = "means.npz"

#: A block of attention: its kind, and its layer from 0.
Block = tuple[AttentionKind, int]


def write_means(ref: ModelRef, means: Mapping[Block, Tensor], text: str, sentences: int) -> None:
    """Write means [H, d_v] of each block's heads beside the weights that they belong to.

    Args: text, sentences: the name of the reference text, and its size.
    """
    about = {"weights": weights_digest(ref.folder), "text": text, "sentences": sentences}
    arrays: dict[str, Any] = {
        kind: np.stack([each.cpu().numpy() for (of, _), each in means.items() if of == kind])
        for kind in ATTENTION_KINDS
    }
    file = io.BytesIO()
    np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)
    write_atomic(ref.folder / FILE, file.getvalue())


def read_means(ref: ModelRef, config: ModelConfig) -> dict[Block, Tensor]:
    """Return the means [H, d_v] of each block's heads.

    Raises: `InputError`, one line that names the command that writes them, if the model has none,
        or the file is damaged or of other weights.
    """
    path = ref.folder / FILE
    hint = f"`python -m transformer means {ref.folder.name} --data DIR` writes them"
    if ref.updates is not None:
        raise InputError(f"{ref.name}: only the trained model knows its heads' means")
    if not is_there(path):
        raise InputError(f"{ref.name}: the means of its heads are not known; {hint}")
    try:
        found = read_npz(path, {"about", *ATTENTION_KINDS})
        about = parse_json(str(found.get("about", "")))
    except (CheckpointError, ValueError):
        raise InputError(f"{ref.name}: {FILE} is damaged; {hint}") from None
    if not isinstance(about, dict) or about.get("weights") != weights_digest(ref.folder):
        raise InputError(f"{ref.name}: {FILE} belongs to other weights; {hint} again")
    means: dict[Block, Tensor] = {}
    for kind, (layers, heads) in config.head_shapes.items():
        shape = (layers, heads, config.d_v or config.d_model // heads)
        array = found.get(kind)
        if array is None or array.shape != shape or not np.isfinite(array).all():
            raise InputError(f"{ref.name}: {FILE} belongs to another model; {hint} again")
        means |= {(kind, n): torch.tensor(row, dtype=torch.float32) for n, row in enumerate(array)}
    return means
