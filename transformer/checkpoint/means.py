"""Mean outputs of all heads, which the edit `mean` substitutes for their outputs.

    means.npz
        encoder_self   float32 [L, H, d_v]; decoder_self and cross likewise
        about          text []   JSON: the digest of the `weights` beside the file, the name of the
                                 `text` averaged over, and its number of `sentences`

`python -m transformer means` writes the file.
"""

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
from transformer.files.npz import packed, read_npz
from transformer.files.safe import is_there
from transformer.types import ATTENTION_KINDS, AttentionKind

FILE = "means.npz"

#: An attention block: its kind, and its layer from 0.
Block = tuple[AttentionKind, int]


def write_means(ref: ModelRef, means: Mapping[Block, Tensor], text: str, sentences: int) -> None:
    """Write means [H, d_v] of each block's heads beside the model's weights.

    Args: text, sentences: name and size of the reference text.
    """
    about = {"weights": weights_digest(ref.folder), "text": text, "sentences": sentences}
    arrays: dict[str, Any] = {
        kind: np.stack([mean.cpu().numpy() for (of, _), mean in means.items() if of == kind])
        for kind in ATTENTION_KINDS
    }
    arrays["about"] = np.array(json.dumps(about))
    write_atomic(ref.folder / FILE, packed(arrays))


def read_means(ref: ModelRef, config: ModelConfig) -> dict[Block, Tensor]:
    """Return the means [H, d_v] of each block's heads.

    Raises: `InputError`, one line naming the command that writes them, if the file is missing,
        damaged, or belongs to other weights.
    """
    path = ref.folder / FILE
    hint = f"`python -m transformer means {ref.folder.name} --data DIR` writes them"
    if ref.updates is not None:
        raise InputError(f"{ref.name}: only the trained model has head means")
    if not is_there(path):
        raise InputError(f"{ref.name}: it has no head means; {hint}")
    try:
        arrays = read_npz(path, {"about", *ATTENTION_KINDS})
        about = parse_json(str(arrays.get("about", "")))
    except (CheckpointError, ValueError):
        raise InputError(f"{ref.name}: {FILE} is damaged; {hint}") from None
    if not isinstance(about, dict) or about.get("weights") != weights_digest(ref.folder):
        raise InputError(f"{ref.name}: {FILE} belongs to other weights; {hint} again")
    means: dict[Block, Tensor] = {}
    for kind, (layers, heads) in config.head_shapes.items():
        shape = (layers, heads, config.d_v or config.d_model // heads)
        array = arrays.get(kind)
        if array is None or array.shape != shape or not np.isfinite(array).all():
            raise InputError(f"{ref.name}: {FILE} belongs to another model; {hint} again")
        means |= {(kind, n): torch.tensor(row, dtype=torch.float32) for n, row in enumerate(array)}
    return means
