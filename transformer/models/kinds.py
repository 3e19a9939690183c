"""Kinds of models, and entries: models on disk, described without loading them."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, Self

from transformer.checkpoint.folder import (
    TrainingText,
    check_checkpoint,
    read_metrics,
    training_text,
)
from transformer.checkpoint.reference import Kind, ModelRef, at, split_name
from transformer.checkpoint.snapshots import History, readable_history
from transformer.checkpoint.weights import weights_digest
from transformer.config import ModelConfig
from transformer.files.safe import MAX_CACHED, json_object
from transformer.files.unread import unread
from transformer.models.arrays.trace_file import SUFFIX, ArchivedTrace, describe_arrays
from transformer.models.huggingface import HuggingFaceModel, files
from transformer.models.huggingface.generate import read_generation
from transformer.models.importers.registry import FORMATS, Format
from transformer.models.one_stack.config import StackConfig
from transformer.models.one_stack.model import check_stack
from transformer.models.one_stack.tracer import StackModel
from transformer.search.request import DEFAULT_DECODING
from transformer.text.tokenizer import clean
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import CheckpointError


@dataclass(frozen=True)
class Entry:
    """A model on disk, which may fail to open."""

    name: str  # folder or file name; a snapshot's ends in its updates
    ref: ModelRef  # path, kind, and fingerprint of its files
    config: ModelConfig | None = None  # shape, if an encoder-decoder of this project
    n_numbers: int = 0  # numbers in memory once loaded, 0 if unknown
    error: str | None = None  # why it cannot be opened, in one line
    about: str = ""  # short description, "" if `config` is enough
    unused: tuple[str, ...] = ()  # generation settings without effect here, as `name=value`
    stack: StackConfig | None = None  # shape and task, if a model with one stack
    metrics: Mapping[str, Any] = field(default_factory=dict, compare=False)  # in metrics.json
    # Texts that the model was trained to read before its input, by task, as of T5.
    prefixes: Mapping[str, str] = field(default_factory=dict, compare=False)
    history: History = field(default_factory=History, compare=False)  # snapshots

    @property
    def ok(self) -> bool:
        """True if no fault is known."""
        return self.error is None

    @property
    def kind(self) -> Kind:
        """Kind of model."""
        return self.ref.kind

    @property
    def path(self) -> Path:
        """Folder or file, or `FOLDER@UPDATES` of a snapshot."""
        return self.ref.path

    @property
    def updates(self) -> int | None:
        """Updates of a snapshot, or None for the model itself."""
        return self.ref.updates

    @property
    def whole(self) -> str:
        """Checkpoint name without the updates of a snapshot."""
        return self.name if self.updates is None else split_name(self.name)[0]

    @cached_property
    def training_text(self) -> TrainingText | None:
        """Kind and length of the text trained on, if its record is valid."""
        return training_text(self.metrics)

    def prefixed(self, sentence: str, task: str) -> str:
        """Return a sentence after a prefix, unless it is blank or begins with one of the model's.

        Args: task: a key of `prefixes`, or a text; "" adds nothing.
        """
        if not clean(sentence) or sentence.startswith(tuple(self.prefixes.values())):
            return sentence
        known = {text.strip(): text for text in self.prefixes.values()} | dict(self.prefixes)
        return known.get(task.strip(), task) + sentence

    def lacks_prefix(self, sentence: str) -> str:
        """Return a note if a model trained with prefixes reads a sentence without one, or ""."""
        texts = tuple(self.prefixes.values())
        if not texts or not sentence.strip() or sentence.startswith(texts):
            return ""
        example = next((text for text in texts if text.startswith("translate")), texts[0])
        return f"This model was trained with a task prefix, such as “{example}”"

    @property
    def relation(self) -> Literal["end", "further", "other", ""]:
        """Relation of the checkpoint to the run of its snapshots, or "" if unknown.

        It is the "end" of this run, was trained "further", or comes from an "other" run.
        """
        about, parts = self.history.about, self.metrics.get("earlier_parts")
        current = about.get("weights") == weights_digest(self.ref.folder)
        if current and about.get("end"):
            return "end"
        for part in parts if isinstance(parts, list) and "recipe" in about else ():
            run = (part.get("recipe"), part.get("updates")) if isinstance(part, dict) else ()
            if run == (about["recipe"], self.history.snapshots[-1].updates):
                return "further"
        return "other" if current else ""

    def after(self, updates: int | None) -> Self:
        """Return the entry of a snapshot, or this entry for None.

        Raises: `CheckpointError` if the snapshot does not exist.
        """
        if updates is None:
            return self
        if updates not in [snapshot.updates for snapshot in self.history.snapshots]:
            raise CheckpointError(f"{self.name}: no snapshot after {updates:,} updates")
        return replace(self, name=at(self.name, updates), ref=self.ref.after(updates))


#: Marian's model type, which the `transformers` library would open, too.
MARIAN = "marian"

_TASKS = {
    "continue": "Decoder only (GPT), continues a text",
    "fill": "Encoder only (BERT), fills in hidden words",
    "translate": "Decoder only, translates",
}


def identity(folder: Path) -> dict[str, Any] | None:
    """Return the format's keys in config.json, or None if the file is missing."""
    path = folder / "config.json"
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return _identity(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=MAX_CACHED)
def _identity(path: Path, *version: int) -> dict[str, Any]:
    with suppress(CheckpointError):
        values = json_object(path)
        return {name: values[name] for name in ("model_type", "task") if name in values}
    return {}


def _describe_own(ref: ModelRef) -> Entry:
    """Describe a checkpoint without reading its weights. Raises `CheckpointError`."""
    config, folder = check_checkpoint(ref), ref.folder
    metrics = read_metrics(folder)
    origin = metrics.get("imported")
    unused = origin.get("unused") if isinstance(origin, dict) else None
    return Entry(
        ref.name, ref, config, config.n_numbers, metrics=metrics, history=readable_history(folder),
        unused=tuple(map(str, unused)) if isinstance(unused, list) else (),
    )  # fmt: skip


def _is_stack(ref: ModelRef) -> bool:
    """Return True if config.json has a task."""
    return "task" in (identity(ref.folder) or {})


def _describe_stack(ref: ModelRef) -> Entry:
    """Describe a checkpoint without reading its weights. Raises `CheckpointError`."""
    config, folder = check_stack(ref), ref.folder
    layers = "1 layer" if config.n_layers == 1 else f"{config.n_layers} layers"
    about = (
        f"{_TASKS[config.task]}: {layers}, d_model {config.d_model:,}, "
        f"{config.blocks.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters."
    )
    return Entry(
        ref.name, ref, n_numbers=config.n_parameters, about=about, stack=config,
        metrics=read_metrics(folder), history=readable_history(folder),
    )  # fmt: skip


def _is_hugging_face(ref: ModelRef) -> bool:
    """Return True if config.json has a model type other than Marian's."""
    model_type = (identity(ref.folder) or {}).get("model_type")
    return isinstance(model_type, str) and model_type != MARIAN and ref.updates is None


def _describe_hugging_face(ref: ModelRef) -> Entry:
    """Describe a folder without importing the library. Raises `CheckpointError`."""
    folder = ref.folder
    files.check_installed(folder)
    n_numbers = files.check_folder(folder)
    values = files.read_values(folder)
    about = f"A model of the transformers library ({values['model_type'][:40]})."
    parts = (values.get(name) for name in ("encoder", "decoder"))
    sizes = [part.get("vocab_size") for part in parts if isinstance(part, dict)]
    if len(sizes) == 2 and sizes[0] == sizes[1]:
        about += (
            " Its two vocabularies have one size, so its tokenizer is assumed to name both sides."
        )
    inner = (part for part in (values.get("decoder"), values.get("text_config")) if part)
    owners = [values, *(part for part in inner if isinstance(part, dict))]
    named = [owner.get(name) for owner in owners for name in ("tgt_vocab_size", "vocab_size")]
    size = next((value for value in named if type(value) is int), files.MAX_NUMBER)
    generation = read_generation(
        files.generation_settings(folder), size,
        starts=values.get("is_encoder_decoder") is True,
    )  # fmt: skip
    return Entry(
        ref.name, ref, n_numbers=n_numbers, about=about, unused=generation.unused,
        metrics={DEFAULT_DECODING: generation.decoding.to_dict()},
        prefixes=files.task_prefixes(folder),
    )  # fmt: skip


def _is_foreign(ref: ModelRef) -> bool:
    """Return True for a Marian config, and for another format's files without a config.json.

    It also accepts folders that no format reads, such as a LoRA adapter, to explain why.
    """
    if ref.updates is not None:
        return False
    if unread(ref.folder):
        return True
    values = identity(ref.folder)
    if values is None:
        return format_of(ref) is not None
    return values.get("model_type") == MARIAN


def format_of(ref: ModelRef) -> Format | None:
    """Return the format that imports the folder, or None."""
    if (identity(ref.folder) or {}).get("model_type") == MARIAN:
        return FORMATS[MARIAN]
    return next((kind for kind in FORMATS.values() if kind.fits(ref.folder)), None)


def _refuse(ref: ModelRef, device: str = "") -> NoReturn:
    """Raise `CheckpointError` with the command that imports the model."""
    if reason := unread(ref.folder):
        raise CheckpointError(f"{ref}: {reason}")
    kind = format_of(ref)
    title, name = (kind.title, kind.name) if kind else ("another library's", "FORMAT")
    raise CheckpointError(
        f"{ref}: this is a {title} model; import it first: "
        f"python -m transformer import {name} {ref} --out PATH"
    )


def _is_archive(ref: ModelRef) -> bool:
    """Return True for any file, and for a missing file with this suffix."""
    path = ref.folder
    with suppress(OSError, ValueError):  # not a valid path
        return path.is_file() or (path.suffix == SUFFIX and not path.is_dir())
    return False


def _describe_archive(ref: ModelRef) -> Entry:
    """Describe the maps in a file from its headers. Raises `CheckpointError`."""
    shapes = describe_arrays(ref.folder).values()
    about = f"One recorded sentence: {'; '.join(dict.fromkeys(map(_size, shapes)))}."
    return Entry(ref.folder.name, ref, n_numbers=sum(map(math.prod, shapes)), about=about)


def _size(shape: Sequence[int]) -> str:
    layers = "1 layer" if shape[0] == 1 else f"{shape[0]} layers"
    return f"{layers}, {shape[1]} head{'' if shape[1] == 1 else 's'}"


class ModelKind(NamedTuple):
    """One kind of models. Errors are `CheckpointError`, one line with the file and its fault."""

    fits: Callable[[ModelRef], bool]
    describe: Callable[[ModelRef], Entry]
    open: Callable[[ModelRef, str], Tracer]  # on a device; `InputError` if it does not exist


#: Kinds of models; the first that fits counts. Errors of the last one name the missing files of a
#: folder.
KINDS: dict[Kind, ModelKind] = {
    "archive": ModelKind(
        _is_archive, _describe_archive, lambda ref, device: ArchivedTrace.load(ref.folder)
    ),
    "foreign": ModelKind(_is_foreign, _refuse, _refuse),
    "huggingface": ModelKind(
        _is_hugging_face, _describe_hugging_face,
        lambda ref, device: HuggingFaceModel.load(ref.folder, device),
    ),
    "one_stack": ModelKind(_is_stack, _describe_stack, StackModel.load),
    "checkpoint": ModelKind(lambda ref: True, _describe_own, Translator.load),
}  # fmt: skip
