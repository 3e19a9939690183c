"""Reads and writes checkpoints: folders with a trained model, and mean outputs of its heads.

    config.json         the `ModelConfig`, and the hashes of the tokenizer's files
    model.safetensors   the weights (or model.pt, a torch file with a state dict)
    tokenizer.model     the SentencePiece model; other tokenizers have more files, see
                        `transformer.text.rules`
    metrics.json        measured figures, optional
    snapshots.npz       weights at moments of training, optional
    README.md           the model card, optional

Checkpoints are untrusted. Weights are read as numbers, never as code, and every shape is compared
with the config before memory is allocated. Errors are one line naming the file.

    means.npz
        encoder_self   float32 [L, H, d_v]; decoder_self and cross likewise
        about          text []   JSON: the digest of the `weights` beside the file, the name of the
                                 `text` averaged over, and its number of `sentences`

`python -m transformer means` writes the file.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import check_state, read_state
from transformer.checkpoint.weights import (
    SAFETENSORS,
    TORCH_FILE,
    layout_of,
    outline,
    weights_digest,
)
from transformer.config import TOKENIZER, ConfigError, ModelConfig, parse_json
from transformer.files import safe
from transformer.files.folders import comes_back, replaced_folder, restore, write_atomic
from transformer.files.npz import packed, read_npz
from transformer.files.safe import is_there
from transformer.files.torch_file import DTYPES
from transformer.files.unread import unread
from transformer.model import Transformer
from transformer.positions import make_positions
from transformer.text.layout import TOKENIZER_FILE, TOKENIZER_FILES
from transformer.text.rules import read_tokenizer
from transformer.text.tokenizer import Tokenizer, TokenizerError
from transformer.types import ATTENTION_KINDS, AttentionKind, CheckpointError, InputError

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


#: Key of the record in metrics.json.
TRAINING_TEXT = "training_text"

#: Kinds of text by corpus; of several corpora, the first counts.
KINDS = {"tatoeba": "everyday sentences", "multi30k": "photo captions"}

#: Share of distinct sources that are at most `TrainingText.src_tokens` long.
COVERED = 0.99


@dataclass(frozen=True)
class TrainingText:
    """Training text of a model."""

    kind: str  # a value of `KINDS`
    src_tokens: int  # in the longest distinct source, without `</s>` and the longest 1% of sources


def kind_of(corpora: Iterable[str]) -> str:
    """Return the kind of text in these corpora, or "" if unknown."""
    named = set(corpora)
    return next((kind for name, kind in KINDS.items() if name in named), "")


def training_text(metrics: Mapping[str, Any]) -> TrainingText | None:
    """Return the record in untrusted metrics, or None unless it is valid."""
    match metrics.get(TRAINING_TEXT):
        case {"kind": str(kind), "src_tokens": int(tokens)} if (
            kind in KINDS.values() and tokens > 1
        ):
            return TrainingText(kind, tokens)
    return None


CONFIG, METRICS, CARD = "config.json", "metrics.json", "README.md"
PARTS = (CONFIG, SAFETENSORS, TORCH_FILE, *TOKENIZER_FILES)

#: Types of stored weights; computation is in float32.
STORED_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES.values()}

#: Position tables of the two stacks.
POSITION_TABLES = ("src_positions.table", "tgt_positions.table")

#: Attempts to read a folder that is being replaced.
_ATTEMPTS = 10

#: Maximum size of metrics.json in bytes; it stays in memory for every listed checkpoint.
MAX_METRICS = 256 * 1024

Config = TypeVar("Config")
Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Loaded(Generic[Config, Model]):
    """A checkpoint in memory: the model is in evaluation mode, float32, on the CPU."""

    ref: ModelRef  # the checkpoint or its snapshot
    config: Config
    model: Model
    tokenizer: Tokenizer
    metrics: Mapping[str, Any] = field(default_factory=dict)


Kept = TypeVar("Kept", bound=Loaded[Any, Any])


@dataclass(frozen=True)
class ModelClass(Generic[Config, Model, Kept]):
    """Checkpoint format of a class of models."""

    read_config: Callable[[Path], tuple[Config, Tokenizer]]  # reads a folder's config and tokenizer
    build: Callable[[Config], Model]  # the model's class
    complete: Callable[[Config, Model], None]  # computes positions that are not stored
    kept: Callable[..., Kept]  # class of a checkpoint in memory

    def load(self, path: str | Path | ModelRef) -> Kept:
        """Read a checkpoint folder, or a snapshot as `PATH@UPDATES`.

        A folder replaced during the read is read again, so that no model mixes two versions.

        Raises: `CheckpointError` naming the file and the fault.
        """
        ref = ModelRef.of(path)
        restore(ref.folder)
        reason = CheckpointError(f"{ref}: changes while it is read")
        for _ in range(_ATTEMPTS):
            before, loaded = safe.fingerprint(ref.folder), None
            try:
                loaded = self._load(ref)
            except CheckpointError as error:
                reason = error
            was_away = loaded is None and not os.path.lexists(ref.folder) and comes_back(ref.folder)
            if safe.fingerprint(ref.folder) != before or was_away:
                continue
            if loaded is None:
                break
            return loaded
        if (other := unread(ref.folder)) is not None:
            raise CheckpointError(f"{ref}: {other}")
        raise reason

    def _load(self, ref: ModelRef) -> Kept:
        config, tokenizer = self.read_config(ref.folder)
        model, layout = outline(config, self.build), layout_of(config, self.build)
        layout.fill(model, read_state(ref, layout))
        self.complete(config, model)
        model.eval().requires_grad_(False)
        return self.kept(ref, config, model, tokenizer, read_metrics(ref.folder))

    def check(self, path: str | Path | ModelRef) -> Config:
        """Check config, tokenizer and the weights' header. Raises like `load`."""
        ref = ModelRef.of(path)
        config, _ = self.read_config(ref.folder)
        check_state(ref, layout_of(config, self.build))
        return config

    def save(
        self, path: str | Path, model: Model, tokenizer: Tokenizer, *,
        metrics: Mapping[str, Any] | None = None, dtype: str = "float32", card: str | None = None,
    ) -> Path:  # fmt: skip
        """Write a checkpoint folder atomically.

        Args:
            path: the folder, created if missing; its other files are kept.
            metrics: written to metrics.json unless None.
            dtype: type of the stored weights, a name of `STORED_DTYPES`.
            card: Markdown written to README.md unless None.

        Returns: the folder.
        """
        path, config = Path(path), cast(Any, model.config)
        with replaced_folder(path, dropped=TOKENIZER_FILES) as new:
            state = model.state_dict()
            self.write(new, config, state, tokenizer, metrics=metrics, dtype=dtype, card=card)
        return path

    def write(
        self, folder: Path, config: Any, state: Mapping[str, Tensor], tokenizer: Tokenizer, *,
        metrics: Mapping[str, Any] | None, dtype: str, card: str | None,
    ) -> None:  # fmt: skip
        """Write a checkpoint's files into a new folder; see `save` for the arguments."""
        weights = self.weights_file(config, state, dtype)
        for name, data in (parts := tokenizer.files()).items():
            write_atomic(folder / name, data)
        write_atomic(folder / SAFETENSORS, weights)
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
        values = json.loads(config.to_json()) | {TOKENIZER: hashes}
        write_atomic(folder / CONFIG, (json.dumps(values, indent=2) + "\n").encode())
        if metrics is not None:
            text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
            write_atomic(folder / METRICS, text.encode())
        if card is not None:
            write_atomic(folder / CARD, card.encode())

    def weights_file(self, config: Any, state: Mapping[str, Tensor], dtype: str) -> bytes:
        """Return the content of model.safetensors; see `save` for the arguments."""
        if dtype not in STORED_DTYPES:
            raise ValueError(f"dtype={dtype!r} is not one of: {', '.join(STORED_DTYPES)}")
        stored = {
            # Position tables are small, and their sinusoids must not be rounded again.
            name: tensor.detach()
            .to("cpu", torch.float32 if name in POSITION_TABLES else STORED_DTYPES[dtype])
            .contiguous()
            for name, tensor in layout_of(config, self.build).own(state).items()
        }
        return safetensors.torch.save(stored, {"format": "pt"})


class Checkpoint(Loaded[ModelConfig, Transformer]):
    """A checkpoint of an encoder-decoder in memory."""


def _config_and_tokenizer(folder: Path) -> tuple[ModelConfig, Tokenizer]:
    path = folder / CONFIG
    try:
        config = ModelConfig.from_json(read_config_text(folder))
    except (ConfigError, TypeError) as error:
        if "unknown setting 'task'" in str(error):
            raise CheckpointError(
                f"{path}: a single-stack model; only `complete`, `align`, `measure` and the app "
                "open it"
            ) from None
        hint = "; if another library wrote it: `python -m transformer import`"
        foreign = "unknown setting" in str(error) and safe.is_there(folder / "vocab.json")
        raise CheckpointError(f"{path}: {error}{hint if foreign else ''}") from None
    return config, read_own_tokenizer(folder, config)


def read_config_text(folder: Path) -> str:
    """Return the content of config.json. Raises `CheckpointError` naming it."""
    if not safe.is_folder(folder):
        raise CheckpointError(f"{folder}: no such checkpoint folder")
    try:
        return safe.read_small(folder / CONFIG, safe.MAX_CONFIG).decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"{folder / CONFIG}: not UTF-8 text") from None


def check_size(path: Path, config: ModelConfig) -> None:
    """Raise `CheckpointError` naming `path` for a config beyond the limits."""
    for name in ("n_encoder_layers", "n_decoder_layers"):
        if getattr(config, name) > safe.MAX_LAYERS:
            raise CheckpointError(
                f"{path}: {name}={getattr(config, name):,}; at most {safe.MAX_LAYERS} are allowed"
            )
    if config.max_positions * config.d_model > safe.MAX_POSITION_ENTRIES:
        raise CheckpointError(
            f"{path}: max_positions={config.max_positions:,} with d_model={config.d_model:,} "
            f"requires a table of more than {safe.MAX_POSITION_ENTRIES:,} numbers"
        )


def read_own_tokenizer(folder: Path, config: ModelConfig) -> Tokenizer:
    """Check a config's sizes, read the folder's tokenizer, and compare the two.

    Another model's tokenizer of the same size would give fluent nonsense, so config.json holds the
    hashes of its files, except in older folders.

    Raises: `CheckpointError` naming the file.
    """
    check_size(folder / CONFIG, config)
    path = folder / TOKENIZER_FILE
    present = [name for name in TOKENIZER_FILES if safe.is_there(folder / name)]
    hashes: dict[str, str] = {}

    def read(name: str) -> bytes:
        data = safe.read_small(folder / name, safe.MAX_TABLE)
        hashes[name] = hashlib.sha256(data).hexdigest()
        return data

    try:
        tokenizer = read_tokenizer(present, read, config)
    except TokenizerError as error:
        raise CheckpointError(f"{folder}/{error}") from None
    check_pieces(str(path), tokenizer, config)
    if safe.json_object(folder / CONFIG).get(TOKENIZER, hashes) != hashes:
        raise CheckpointError(
            f"{path}: not the tokenizer that the model was saved with: {CONFIG} has other hashes"
        )
    return tokenizer


def check_pieces(where: str, tokenizer: Tokenizer, config: ModelConfig) -> None:
    """Raise `CheckpointError` for another model's tokenizer."""
    for side, part, size in (
        ("vocab_size", tokenizer, config.vocab_size),
        ("target", tokenizer.target, config.target_vocab_size),
    ):
        if part.vocab_size != size:
            raise CheckpointError(
                f"{where}: {part.vocab_size:,} pieces, but {CONFIG} says {side}={size:,}"
            )
    for name in ("pad_id", "bos_id", "eos_id", "unk_id"):
        if getattr(tokenizer, name) != getattr(config, name):
            raise CheckpointError(
                f"{where}: {name} is {getattr(tokenizer, name)}, "
                f"but {CONFIG} says {getattr(config, name)}"
            )


def read_metrics(folder: Path) -> Mapping[str, Any]:
    """Read metrics.json; a damaged file does not keep a good model from loading."""
    try:
        values = parse_json(safe.read_small(folder / METRICS, MAX_METRICS))
    except ValueError:  # includes `CheckpointError`
        return {}
    return values if isinstance(values, dict) else {}


def _complete(config: ModelConfig, model: Transformer) -> None:
    if config.positions in ("sinusoidal", "relative"):  # still on the meta device
        model.src_positions, model.tgt_positions = make_positions(config), make_positions(config)


#: Encoder-decoders.
TWO_STACKS = ModelClass(_config_and_tokenizer, Transformer, _complete, Checkpoint)
load_checkpoint, check_checkpoint = TWO_STACKS.load, TWO_STACKS.check
save_checkpoint = TWO_STACKS.save
