"""Checkpoints: folders that hold a complete trained model.

    config.json         the `ModelConfig`
    model.safetensors   the weights (or model.pt, a torch file with a state dict)
    tokenizer.model     the SentencePiece model; other tokenizers have more files, see
                        `transformer.text.files`
    metrics.json        measured figures, optional
    snapshots.npz       the weights at moments of training, optional
    README.md           the model card, optional

A checkpoint may come from anywhere, so nothing in it is trusted. Weights are read as numbers, never
as code, and every shape is compared with the config before memory is allocated. Errors are one line
that names the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from transformer.checkpoint.outline import outline
from transformer.checkpoint.snapshots import FILE as SNAPSHOTS
from transformer.checkpoint.snapshots import (
    History,
    at,
    check_moment,
    read_history,
    read_snapshot,
    split_path,
    stored_shapes,
)
from transformer.checkpoint.weights import (
    SAFETENSORS,
    TORCH_FILE,
    check_weights,
    read_weights,
    stored_names,
)
from transformer.config import ConfigError, ModelConfig
from transformer.errors import CheckpointError
from transformer.files.atomic import write_atomic
from transformer.files.file_cache import FileCache
from transformer.files.folders import replaced_folder
from transformer.files.leftovers import comes_back, restore
from transformer.files.safe import (
    MAX_CONFIG,
    MAX_LAYERS,
    MAX_POSITION_ENTRIES,
    MAX_SMALL_FILE,
    MAX_TABLE,
    is_folder,
    is_there,
    parse_json,
    read_small,
)
from transformer.machinery.stored_positions import make_positions
from transformer.model import Transformer
from transformer.text.files import read_tokenizer
from transformer.text.layout import TOKENIZER_FILE, TOKENIZER_FILES
from transformer.text.tokenizer import Tokenizer, TokenizerError

__all__ = [
    "Checkpoint",
    "CheckpointEntry",
    "CheckpointError",
    "fingerprint",
    "inspect_checkpoint",
    "load_checkpoint",
    "save_checkpoint",
    "write_atomic",
]

CONFIG, METRICS, CARD = "config.json", "metrics.json", "README.md"
PARTS = (CONFIG, SAFETENSORS, TORCH_FILE, *TOKENIZER_FILES)
_COUNTED = (*PARTS, METRICS, SNAPSHOTS)

#: Types in which weights may be stored; computation is in float32.
STORED_DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}

#: Learned or stored position tables of the two stacks.
POSITION_TABLES = ("src_positions.table", "tgt_positions.table")

#: Attempts to read a folder that is being replaced.
_ATTEMPTS = 10

#: Largest metrics.json in bytes; it stays in memory for every listed checkpoint.
MAX_METRICS = 256 * 1024


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint in memory: the model is in evaluation mode, float32, on the CPU.

    `path` is the folder, or that of a snapshot: `PATH@UPDATES`.
    """

    path: Path
    model: Transformer
    tokenizer: Tokenizer
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The folder's name, with the updates of a snapshot."""
        return name_of(self.path)

    @property
    def config(self) -> ModelConfig:
        """Shape of the model."""
        return self.model.config


@dataclass(frozen=True)
class CheckpointEntry:
    """A checkpoint on disk, described without reading its weights.

    Attributes:
        name, path: the folder, or a snapshot of it: `NAME@UPDATES`.
        config: shape of the model, or None if it cannot be read.
        error: why it cannot be loaded, as one line, or None.
        fingerprint: changes whenever one of its files does; for cache keys.
        metrics: content of metrics.json, {} if there is none.
        history: its snapshots of training.
    """

    name: str
    path: Path
    config: ModelConfig | None
    error: str | None
    fingerprint: str
    metrics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    history: History = field(default_factory=History, compare=False)

    @property
    def ok(self) -> bool:
        """Whether it looks loadable."""
        return self.error is None


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint folder, or one of its snapshots as `PATH@UPDATES`.

    If it is replaced meanwhile, it is read again, so that no model is part old and part new.

    Raises: `CheckpointError` naming the file and what is wrong.
    """
    path = Path(path)
    folder, _ = split_path(path)
    restore(folder)
    reason = CheckpointError(f"{path}: changes while it is read")
    for _ in range(_ATTEMPTS):
        mark = fingerprint(path)
        try:
            loaded = _load(path)
        except CheckpointError as error:
            loaded, reason = None, error
        was_away = loaded is None and not os.path.lexists(folder) and comes_back(folder)
        if fingerprint(path) == mark and not was_away:
            break
        loaded = None
    if loaded is None:
        raise reason
    return loaded


def _load(path: Path) -> Checkpoint:
    folder, updates = split_path(path)
    config = _read_config(folder)
    tokenizer = read_own_tokenizer(folder, config)
    state = (
        read_weights(folder, config)
        if updates is None
        else read_snapshot(folder, stored_shapes(config), updates)
    )
    return Checkpoint(path, _build(config, state), tokenizer, read_metrics(folder))


def save_checkpoint(
    path: str | Path,
    model: Transformer,
    tokenizer: Tokenizer,
    *,
    metrics: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    card: str | None = None,
) -> Path:
    """Write a checkpoint folder atomically.

    Args:
        path: the folder, created if missing. Its other files are kept.
        metrics: written to metrics.json; None leaves the file as it is.
        dtype: type in which to store the weights, a name of `STORED_DTYPES`.
        card: the model card in Markdown, written to README.md; None leaves the file as it is.

    Returns: the folder.
    """
    path = Path(path)
    with replaced_folder(path, dropped=TOKENIZER_FILES) as new:
        state = model.state_dict()
        write_files(new, model.config, state, tokenizer, metrics=metrics, dtype=dtype, card=card)
    return path


def write_files(
    folder: Path,
    config: ModelConfig,
    state: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    *,
    metrics: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    card: str | None = None,
) -> None:
    """Write a checkpoint's files into a new folder; see `save_checkpoint` for the arguments.

    Args:
        state: a state dict.
    """
    aliases = stored_names(config)
    own = {name: tensor for name, tensor in state.items() if name not in aliases}
    write_parts(folder, config.to_json(), own, tokenizer, metrics=metrics, dtype=dtype, card=card)


def write_parts(
    folder: Path,
    config: str,
    state: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    *,
    metrics: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    card: str | None = None,
) -> None:
    """Write the files of a model of any class; see `save_checkpoint` for the arguments.

    Args:
        config: content of config.json.
        state: the tensors to store.
    """
    if dtype not in STORED_DTYPES:
        raise ValueError(f"dtype={dtype!r} is not one of: {', '.join(STORED_DTYPES)}")
    stored = {
        # Position tables are small, and sinusoids in them must not be rounded (again).
        name: tensor.detach()
        .to("cpu", torch.float32 if name in POSITION_TABLES else STORED_DTYPES[dtype])
        .contiguous()
        for name, tensor in state.items()
    }
    for name, data in tokenizer.files().items():
        write_atomic(folder / name, data)
    write_atomic(folder / SAFETENSORS, safetensors.torch.save(stored, {"format": "pt"}))
    write_atomic(folder / CONFIG, config.encode())
    if metrics is not None:
        text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
        write_atomic(folder / METRICS, text.encode())
    if card is not None:
        write_atomic(folder / CARD, card.encode())


def inspect_checkpoint(path: str | Path) -> CheckpointEntry:
    """Describe one checkpoint folder without reading its weights."""
    return _inspect(Path(path), fingerprint(path))


def fingerprint(path: str | Path) -> str:
    """Return a text that changes whenever a file does: names, sizes, modification times."""
    marks = []
    folder, _ = split_path(path)
    for name in _COUNTED:
        with suppress(OSError, ValueError):  # absent, or no path at all
            status = os.stat(os.path.join(folder, name))
            marks.append(f"{name}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
    return " ".join(marks)


_ENTRIES: FileCache[CheckpointEntry] = FileCache()


def _inspect(path: Path, mark: str) -> CheckpointEntry:
    return _ENTRIES.get(path, mark, lambda: _read_entry(path, mark))


def _read_entry(path: Path, mark: str) -> CheckpointEntry:
    config, name = None, name_of(path)
    folder, updates = split_path(path)
    try:
        config = _read_config(folder)
        read_own_tokenizer(folder, config)
        check_weights(folder, config)
        history = readable_history(folder)
        if updates is not None:
            check_moment(folder, updates)
    except CheckpointError as error:
        return CheckpointEntry(name, path, config, str(error), mark)
    return CheckpointEntry(name, path, config, None, mark, read_metrics(folder), history)


def name_of(path: Path) -> str:
    """Return a checkpoint's name: that of its folder, with the updates of a snapshot."""
    folder, updates = split_path(path)
    try:
        return at(folder.resolve().name, updates)
    except (OSError, ValueError, RuntimeError):
        return path.name


def _read_config(folder: Path) -> ModelConfig:
    path = folder / CONFIG
    try:
        config = ModelConfig.from_json(read_config_text(folder))
    except (ConfigError, TypeError) as error:
        if "unknown setting 'task'" in str(error):
            raise CheckpointError(
                f"{path}: a model of one stack, which only `complete`, `align`, `measure` and the "
                "app open"
            ) from None
        hint = "; if another library wrote it: `python -m transformer import`"
        foreign = "unknown setting" in str(error) and is_there(folder / "vocab.json")
        raise CheckpointError(f"{path}: {error}{hint if foreign else ''}") from None
    check_size(path, config)
    return config


def read_config_text(folder: Path) -> str:
    """Return the content of config.json. Raises `CheckpointError` naming it."""
    if not is_folder(folder):
        raise CheckpointError(f"{folder}: no such checkpoint folder")
    try:
        return read_small(folder / CONFIG, MAX_CONFIG).decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"{folder / CONFIG}: not UTF-8 text") from None


def check_size(path: Path, config: ModelConfig) -> None:
    """Refuse a config that asks for more than fits; raises `CheckpointError` naming `path`."""
    for name in ("n_encoder_layers", "n_decoder_layers"):
        if getattr(config, name) > MAX_LAYERS:
            raise CheckpointError(
                f"{path}: {name}={getattr(config, name):,}; at most {MAX_LAYERS} are allowed"
            )
    if config.max_positions * config.d_model > MAX_POSITION_ENTRIES:
        raise CheckpointError(
            f"{path}: max_positions={config.max_positions:,} with d_model={config.d_model:,} "
            f"asks for a table of more than {MAX_POSITION_ENTRIES:,} numbers"
        )


def read_own_tokenizer(folder: Path, config: ModelConfig) -> Tokenizer:
    """Read a folder's tokenizer, and compare it with a config. Raises `CheckpointError`."""
    path = folder / TOKENIZER_FILE
    present = [name for name in TOKENIZER_FILES if is_there(folder / name)]
    try:
        tokenizer = read_tokenizer(present, lambda name: _tokenizer_file(folder / name), config)
    except TokenizerError as error:
        raise CheckpointError(f"{folder}/{error}") from None
    for side, part, size in (
        ("vocab_size", tokenizer, config.vocab_size),
        ("target", tokenizer.target, config.target_vocab_size),
    ):
        if part.vocab_size != size:
            raise CheckpointError(
                f"{path}: {part.vocab_size:,} pieces, but {CONFIG} says {side}={size:,}"
            )
    for name in ("pad_id", "bos_id", "eos_id", "unk_id"):
        if getattr(tokenizer, name) != getattr(config, name):
            raise CheckpointError(
                f"{path}: {name} is {getattr(tokenizer, name)}, "
                f"but {CONFIG} says {getattr(config, name)}"
            )
    return tokenizer


def _tokenizer_file(path: Path) -> bytes:
    return read_small(path, MAX_TABLE if path.suffix == ".json" else MAX_SMALL_FILE)


def read_metrics(folder: Path) -> Mapping[str, Any]:
    """Read metrics.json; a missing or unreadable file must not keep a good model from loading."""
    try:
        values = parse_json(read_small(folder / METRICS, MAX_METRICS))
    except ValueError:  # includes `CheckpointError`
        return {}
    return values if isinstance(values, dict) else {}


def readable_history(folder: Path) -> History:
    """Read snapshots.npz; a damaged one must not keep a good model from loading."""
    try:
        return read_history(folder)
    except CheckpointError:
        return History()


def _build(config: ModelConfig, state: dict[str, Tensor]) -> Transformer:
    """Build the model around these weights without initialising any first."""
    model = outline(config)
    tied = {name: state[stored] for name, stored in stored_names(config).items()}
    model.load_state_dict({**state, **tied}, assign=True)
    if config.tie_embeddings != "none":
        model.generator.weight = model.tgt_embedding.weight
    if config.positions in ("sinusoidal", "relative"):  # not stored, so still on the meta device
        model.src_positions, model.tgt_positions = make_positions(config), make_positions(config)
    return model.eval().requires_grad_(False)
