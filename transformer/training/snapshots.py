"""Gather a run's snapshots in one file beside a checkpoint's weights."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.checkpoint import weights
from transformer.checkpoint.folder import read_metrics
from transformer.checkpoint.reference import SNAPSHOTS, ModelRef
from transformer.checkpoint.snapshots import pack, read_snapshot, readable_history
from transformer.config import ConfigError
from transformer.files import npz
from transformer.files.folders import replaced_folder, write_atomic
from transformer.model import Transformer
from transformer.models.one_stack.model import OneStack
from transformer.training.corpus import encode_pairs, load_corpus
from transformer.training.objective import task_of, text_of, validation_loss
from transformer.training.run_folder import RunFolder, files_of
from transformer.types import CheckpointError, Report, no_report

log = logging.getLogger(__name__)

#: Largest file in bytes.
MAX_BYTES = 30_000_000

#: Grid steps per root mean square of a matrix, finest first. On translators with 2 and 9 million
#: parameters, 8 steps changed the validation loss by 0.001 nats and 4 steps by 0.008.
FINENESS = (64.0, 32.0, 16.0, 11.0, 8.0, 6.0, 5.0, 4.0)

#: Differences within which weights count as equal: a share of a matrix's standard deviation plus a
#: share of the weight, to allow for half precision and bfloat16.
_SAME, _ROUNDED = 2e-3, 2**-8

#: Number of validation pairs for the snapshots' losses.
_VAL_PAIRS = 500


def keep_snapshots(
    run: Path, checkpoint: Path, data: Path, *, max_bytes: int = MAX_BYTES,
    progress: Report = no_report,
) -> Path:  # fmt: skip
    """Write a run's snapshots into the checkpoint's folder and return the file.

    They are as fine as `max_bytes` allows. Losses are measured on the weights as stored.

    Args: checkpoint: of the same shape and pieces; another recipe may have trained it.

    Raises: `ConfigError` if the run has no snapshots or they do not fit into the file,
        `CheckpointError` if shapes or pieces differ, `DataError` if text is missing.
    """
    files = sorted((run / "snapshots").glob("*.safetensors"), key=lambda file: int(file.stem))
    if not files:
        raise ConfigError(f"{run / 'snapshots'}: no snapshots; set `snapshots` in the recipe")
    recipe, recorded = RunFolder(run).read_recipe(), read_metrics(run).get("training", {})
    kept = files_of(recipe).load(checkpoint)
    layout = weights.Layout.of(kept.model)
    if (run / "tokenizer.model").read_bytes() != kept.tokenizer.files()["tokenizer.model"]:
        raise CheckpointError(f"{run}: its pieces differ from those of {checkpoint}")
    states = [weights.read_weights(file, layout) for file in files]
    about = {"recipe": recorded.get("recipe", recipe.to_dict())}
    arrays = {
        "updates": np.array([int(file.stem) for file in files]),
        "about": _about(about, states[-1], checkpoint, kept.model),
        "val_nll": np.full(len(files), np.nan, np.float32),
    }
    for fineness in FINENESS:
        packed = arrays | pack(states, fineness)
        if len(npz.packed(packed)) <= max_bytes:
            break
    else:
        raise ConfigError(
            f"{run}: {len(files)} snapshots take more than {max_bytes:,} bytes; keep fewer"
        )
    del states
    task = task_of(recipe, kept.tokenizer)
    corpus = text_of(recipe, load_corpus(recipe.data, data))
    val = encode_pairs(corpus.val[:_VAL_PAIRS], kept.tokenizer, recipe.model.max_positions)
    with replaced_folder(checkpoint) as new:
        write_atomic(new / SNAPSHOTS, npz.packed(packed))
        for k, file in enumerate(files):
            progress(k, len(files))
            ref = ModelRef(new, int(file.stem))
            kept.model.load_state_dict(read_snapshot(ref, layout.stored), strict=False)
            packed["val_nll"][k] = validation_loss(kept.model, *val, prepare=task.examine)
        write_atomic(new / SNAPSHOTS, npz.packed(packed))
    return checkpoint / SNAPSHOTS


def compare_again(checkpoint: Path, model: Transformer | OneStack) -> None:
    """Compare snapshots with new weights beside them, removing snapshots of another shape."""
    path, history = checkpoint / SNAPSHOTS, readable_history(checkpoint)
    if not history.snapshots:
        return
    ref = ModelRef(checkpoint, history.snapshots[-1].updates)
    try:
        last = read_snapshot(ref, weights.Layout.of(model).stored)
    except CheckpointError as error:
        log.warning("%s is removed: %s", path, error)
        path.unlink()
        return
    with np.load(path) as stored:
        arrays = dict(stored)
    about = _about(history.about, last, checkpoint, model, arrays["steps"])
    write_atomic(path, npz.packed(arrays | {"about": about}))


def _about(
    known: Mapping[str, Any], last: Mapping[str, Tensor], checkpoint: Path,
    model: Transformer | OneStack, steps: NDArray[Any] | float = 0.0,
) -> NDArray[Any]:  # fmt: skip
    """Return the member `about`, which relates a checkpoint's weights to the end of a run.

    Args: last: final weights, rounded to `steps` for each matrix.
    """
    names = sorted(name for name, tensor in last.items() if tensor.dim() > 1)
    pairs = [(last[name].float(), model.state_dict()[name]) for name in names]
    off = np.array([
        float(((ours - theirs).abs() - _ROUNDED * theirs.abs()).max()) for ours, theirs in pairs
    ])  # fmt: skip
    allowed = np.array([_SAME * float(theirs.std()) for _, theirs in pairs]) + 0.501 * steps
    heads = [pair for name, pair in zip(names, pairs, strict=True) if "attention" in name]
    ours, theirs = (
        torch.cat([tensor.flatten().double() for tensor in side])
        for side in zip(*heads, strict=True)
    )
    relation = {
        "weights": weights.weights_digest(checkpoint),
        "end": bool((off <= allowed).all()),
        "cosine": float(torch.cosine_similarity(ours, theirs, dim=0)),
    }
    return np.array(json.dumps({**known, **relation}))
