"""Lists and opens models of every kind: checkpoints, files of arrays, other libraries' models.

The kind follows from the content, not from the name. Models that cannot be used are listed with
the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from transformer.arrays.archived import ArchivedTrace
from transformer.arrays.trace_file import describe_arrays
from transformer.checkpoint.folder import (
    PARTS,
    CheckpointEntry,
    fingerprint,
    inspect_checkpoint,
    read_metrics,
    readable_history,
)
from transformer.checkpoint.snapshots import History, at, split_name, split_path
from transformer.errors import CheckpointError
from transformer.files.file_cache import FileCache
from transformer.files.safe import is_there, json_object
from transformer.importers.registry import FORMATS
from transformer.one_stack.config import StackConfig
from transformer.one_stack.files import check_stack
from transformer.one_stack.tracer import StackModel
from transformer.trace.tracer import Tracer
from transformer.translator import Translator

#: "checkpoint" is this project's format, and "descendant" that of its models of one stack;
#: "foreign" must be imported first.
Kind = Literal["checkpoint", "descendant", "archive", "huggingface", "foreign"]

CONFIG, ARCHIVE = "config.json", ".npz"

#: Files whose change makes a folder another model.
_COUNTED = frozenset({
    ".json", ".safetensors", ".bin", ".model", ".spm", ".txt", ".pt", ".npz",
})  # fmt: skip
_MOST_COUNTED = 200


@dataclass(frozen=True)
class Entry(CheckpointEntry):
    """A model in a root, whether or not it can be opened.

    Attributes:
        kind: its format.
        about: a short description, "" if `config` says it all.
        unused: its generation settings that Headlight does not follow, as `name=value`.
        updates: of the snapshot that this is, None for a model as it is stored.
        stack: shape and task of a model of one stack, else None.
    """

    kind: Kind = "checkpoint"
    about: str = ""
    unused: tuple[str, ...] = ()
    updates: int | None = None
    stack: StackConfig | None = None

    @property
    def whole(self) -> str:
        """The name of the checkpoint that this is, or is a snapshot of."""
        return self.name if self.updates is None else split_name(self.name)[0]

    def after(self, updates: int | None) -> Entry:
        """Return the entry of a snapshot of this checkpoint, or this one for None.

        Raises: `CheckpointError` if there is no such snapshot.
        """
        if updates is None:
            return self
        if updates not in [each.updates for each in self.history.snapshots]:
            raise CheckpointError(f"{self.name}: no snapshot after {updates:,} updates")
        path = self.path.with_name(at(self.path.name, updates))
        return replace(self, name=at(self.name, updates), path=path, updates=updates)


def open_tracer(path: str | Path, device: str = "auto") -> Tracer:
    """Load a model of any kind.

    Args:
        path: a checkpoint folder, a snapshot of one (`PATH@UPDATES`), an .npz file, or a folder in
            Hugging Face format.

    Raises: `CheckpointError`, one line with the file and what is wrong, or with the command that
        imports the model first; `InputError` for a device that does not exist.
    """
    path = Path(path)
    kind = kind_of(path)
    if kind == "archive":
        return ArchivedTrace.load(path)
    if kind == "foreign":
        raise CheckpointError(_import_first(path))
    if kind == "descendant":
        return StackModel.load(path, device)
    if kind == "huggingface":
        from transformer.huggingface.model import HuggingFaceModel

        return HuggingFaceModel.load(path, device)
    return Translator.load(path, device=device)


def kind_of(path: Path) -> Kind:
    """Return the kind of model at a path by its content; "checkpoint" by default."""
    path, updates = split_path(path)
    if updates is not None:
        values = _config(path)
        return "descendant" if values is not None and "task" in values else "checkpoint"
    if not path.is_dir():
        return "archive" if path.is_file() or path.suffix == ARCHIVE else "checkpoint"
    values = _config(path)
    if values is not None and isinstance(values.get("model_type"), str):
        return "foreign" if values["model_type"] == "marian" else "huggingface"
    if values is not None and "task" in values:
        return "descendant"
    if values is None and any(each.fits(path) for each in FORMATS.values()):
        return "foreign"
    return "checkpoint"


def list_entries(
    roots: Iterable[Path], check: Callable[[Path], object] | None = None
) -> list[Entry]:
    """List the models directly under the roots by name, with the reason if one cannot be used.

    If two roots have the same name, the earlier one counts. Only configs, tokenizers and headers
    are read. A missing root is empty.

    Args:
        check: called before a path is read; if it raises a `CheckpointError`, the path is not read.
    """
    found: dict[str, Entry] = {}
    for root in roots:
        try:
            paths = sorted(root.iterdir())
        except (OSError, ValueError):
            continue
        for path in paths:
            if path.name in found or path.name.startswith("."):
                continue
            refused = _refused(path, check)
            if refused is not None and path.is_symlink():
                found[path.name] = Entry(path.name, path, None, refused, "")
            elif _counts(path):
                entry = inspect_entry(path) if refused is None else None
                found[path.name] = (
                    Entry(path.name, path, None, refused, "") if entry is None
                    # A link has its own name, whatever it points to.
                    else replace(entry, name=path.name)
                )  # fmt: skip
    return [found[name] for name in sorted(found)]


def _refused(path: Path, check: Callable[[Path], object] | None) -> str | None:
    try:
        if check is not None:
            check(path)
    except CheckpointError as error:
        return str(error)
    return None


def inspect_entry(path: str | Path) -> Entry:
    """Describe one model without loading it."""
    path = Path(path)
    mark = mark_of(path)
    return _ENTRIES.get(path, mark, lambda: _read_entry(path, mark))


def mark_of(path: str | Path) -> str:
    """Return a text that changes whenever one of the model's files does, like `fingerprint`."""
    path, _ = split_path(path)
    if not path.is_dir():
        try:
            status = path.stat()
        except OSError:
            return ""
        return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
    if kind_of(path) == "checkpoint":
        return fingerprint(path)
    marks = []
    try:
        files = sorted(each for each in path.iterdir() if each.suffix in _COUNTED)
        for file in files[:_MOST_COUNTED]:
            status = file.stat()
            marks.append(f"{file.name}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
    except OSError:
        marks.append("cannot be read")
    return hashlib.sha256("\n".join(marks).encode("utf-8", "replace")).hexdigest()


_ENTRIES: FileCache[Entry] = FileCache()
_CONFIGS: FileCache[dict[str, Any]] = FileCache()


def _read_entry(path: Path, mark: str) -> Entry:
    kind = kind_of(path)
    name = path.name if kind == "archive" else path.resolve().name
    about, error, history, updates = "", None, History(), None
    unused: tuple[str, ...] = ()
    if kind == "checkpoint":
        found = inspect_checkpoint(path)
        return Entry(
            found.name, path, found.config, found.error, mark,
            metrics=found.metrics, history=found.history, kind=kind, updates=split_path(path)[1],
        )  # fmt: skip
    metrics: Mapping[str, Any] = {}
    stack: StackConfig | None = None
    try:
        if kind == "foreign":
            raise CheckpointError(_import_first(path))
        if kind == "archive":
            about = _about_arrays(path)
        elif kind == "descendant":
            folder, updates = split_path(path)
            stack, metrics = check_stack(path), read_metrics(folder)
            about, history = _about_stack(stack), readable_history(folder)
        else:
            about, unused = _about_huggingface(path)
    except CheckpointError as wrong:
        error = str(wrong)
    return Entry(
        name, path, None, error, mark, kind=kind, about=about, unused=unused, metrics=metrics,
        history=history, updates=updates, stack=stack,
    )  # fmt: skip


def _counts(path: Path) -> bool:
    """Return whether this looks like a model at all."""
    try:
        if path.is_dir():
            ours = any(is_there(path / part) for part in PARTS)
            return ours or any(each.fits(path) for each in FORMATS.values())
        return path.suffix == ARCHIVE and path.is_file()
    except OSError:
        return False


def _config(folder: Path) -> dict[str, Any] | None:
    """Return config.json's identifying keys, or None if there is no such file."""
    path = folder / CONFIG
    try:
        status = path.stat()
    except OSError:
        return None
    return _CONFIGS.get(path, (status.st_size, status.st_mtime_ns), lambda: _read_config(path))


def _read_config(path: Path) -> dict[str, Any]:
    """Keep only the keys that tell which model this is."""
    try:
        values = json_object(path)
    except CheckpointError:
        return {}
    return {name: values[name] for name in ("model_type", "task") if name in values}


def _about_arrays(path: Path) -> str:
    shapes = describe_arrays(path)
    sizes = [_size(shape) for shape in shapes.values()]
    return f"One recorded sentence: {'; '.join(dict.fromkeys(sizes))}."


def _size(shape: Sequence[int]) -> str:
    layers = "1 layer" if shape[0] == 1 else f"{shape[0]} layers"
    return f"{layers}, {shape[1]} head{'' if shape[1] == 1 else 's'}"


#: What a model of one stack was trained to do.
_TASKS = {
    "continue": "Decoder only (GPT), continues a text",
    "fill": "Encoder only (BERT), fills in hidden words",
    "translate": "Decoder only, translates",
}


def _about_stack(config: StackConfig) -> str:
    layers = "1 layer" if config.n_layers == 1 else f"{config.n_layers} layers"
    return (
        f"{_TASKS[config.task]}: {layers}, d_model {config.d_model:,}, "
        f"{config.blocks.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters."
    )


def _about_huggingface(folder: Path) -> tuple[str, tuple[str, ...]]:
    from transformer.huggingface import files

    files.check_installed(folder)
    files.check_folder(folder)
    values = files.read_values(folder)
    about = f"A model of the transformers library ({values['model_type'][:40]})."
    return about, files.unused_settings(folder, values)


def _import_first(folder: Path) -> str:
    values = _config(folder) or {}
    named = values.get("model_type")
    found = next((each for each in FORMATS.values() if each.fits(folder)), None)
    name = "marian" if named == "marian" else found.name if found is not None else "FORMAT"
    title = FORMATS[name].title if name in FORMATS else "another library's"
    return (
        f"{folder}: a model of {title}, which is imported first: "
        f"python -m transformer import {name} {folder} --out PATH"
    )
