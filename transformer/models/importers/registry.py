"""Formats of other libraries, and the steps that every import shares, such as renaming weights."""

import importlib
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer.checkpoint import weights
from transformer.checkpoint.folder import POSITION_TABLES, TWO_STACKS
from transformer.checkpoint.shards import Stored
from transformer.config import ModelConfig
from transformer.files.folders import replaced_folder
from transformer.files.torch_file import DTYPES
from transformer.files.unread import unread
from transformer.models.importers.settings import LISTS
from transformer.positions import sinusoids
from transformer.search.request import DEFAULT_DECODING, Decoding
from transformer.text.tokenizer import Tokenizer
from transformer.types import CheckpointError, Report

#: Parts of tensor names in a layer, here and in fairseq and Marian.
LAYER_PARTS: dict[str, str] = LISTS["names"]["fairseq_and_marian"]


class Alias(NamedTuple):
    """A place where a tensor may be stored."""

    name: str  # in the file
    first: int = 0  # first row of this tensor in the stored tensor
    total: int | None = None  # rows of the stored tensor, or None if it has no others
    leading: bool = False  # the stored tensor has a leading axis of 1


def renamed(name: str, parts: Mapping[str, str]) -> str:
    """Return the other library's name of a tensor in a stack.

    Args: parts: replacements in the names of a layer, in this order.
    """
    stack, number, part = [*name.split(".", 2), ""][:3]
    if not number.isdigit():
        return name.replace("_norm.", ".layer_norm.")
    for ours, theirs in parts.items():
        part = part.replace(ours, theirs)
    return f"{stack}.layers.{number}.{part}"


def embedding_aliases(
    name: str, config: ModelConfig, source: str, target: str, *output: str
) -> list[Alias]:
    """Return the places of an embedding or the output matrix, or [] for other tensors.

    Args: source, target, output: the library's names of the three.
    """
    tied = config.tie_embeddings
    names = {
        "src_embedding.weight": (source, target, *output) if tied == "all" else (source,),
        "tgt_embedding.weight": (target, *output) if tied == "decoder" else (target,),
        "generator.weight": output,
    }
    return [Alias(theirs) for theirs in names.get(name, ())]


def with_tables(
    config: ModelConfig, state: dict[str, Tensor], rounding: Callable[[int], Tensor | float]
) -> ModelConfig:
    """Remove position tables from `state` if they equal the config's sinusoids.

    Args: rounding: maps the number of positions n to the largest difference, one or [n, 1].

    Returns: the config, with stored positions if the tables stay.
    """
    tables = {name: state.pop(name) for name in POSITION_TABLES if name in state}
    n = min((len(table) for table in tables.values()), default=0)
    exact = sinusoids(config, n)
    if all(((table[:n] - exact).abs() <= rounding(n)).all() for table in tables.values()):
        return config
    state |= {name: tables.get(name, exact)[:n].contiguous() for name in POSITION_TABLES}
    return config.replace(positions="stored", max_positions=n)


def gather(
    stored: Stored,
    shapes: Mapping[str, weights.Shape],
    names: Mapping[str, Sequence[Alias]],
    *,
    ignored: str = "(?!)",
    origin: str,
    report: Report | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Return weights in float32 by this project's names, and the type to store them in.

    Args:
        stored: description of the other library's weights.
        shapes: expected shapes by this project's names.
        names: places of every tensor. If several exist, they are tied and must be equal.
        ignored: pattern of tensor names that are not needed.
        origin: file with the expected shapes, for messages.
        report: called with (tensors read, total).

    Raises: `CheckpointError`, one line that names the file.
    """
    places: dict[str, list[Alias]] = {}
    for name, aliases in names.items():
        places[name] = [alias for alias in aliases if alias.name in stored.found]
        if not places[name]:
            raise CheckpointError(f"{stored.path}: tensor {aliases[0].name!r} is missing")
        for alias in places[name]:
            expected = shapes[name] if alias.total is None else (alias.total, *shapes[name][1:])
            expected = (1, *expected) if alias.leading else expected
            shape, kind = stored.found[alias.name]
            path = stored.files[alias.name]
            weights.check_shape(path, alias.name, shape, expected, origin)
            weights.check_type(path, alias.name, kind)
    used = {alias.name for aliases in places.values() for alias in aliases}
    for name in stored.found:
        if name not in used and not re.fullmatch(ignored, name):
            raise CheckpointError(f"{stored.path}: tensor {name!r} does not belong to this model")
    weights.check_memory(stored.path, sum(math.prod(shapes[name]) for name in names), stored.size)
    tensors = stored.tensors()
    state: dict[str, Tensor] = {}
    for name, (alias, *others) in places.items():
        if report is not None:
            report(len(state), len(places))
        state[name] = _part(stored, tensors, alias, shapes[name])
        for other in others:
            if not torch.equal(state[name], _part(stored, tensors, other, shapes[name])):
                raise CheckpointError(
                    f"{stored.path}: tensors {alias.name!r} and {other.name!r} differ, "
                    f"but {origin} ties them"
                )
    types = {
        stored.found[alias.name][1]
        for name, aliases in places.items() if name not in POSITION_TABLES
        for alias in aliases
    }  # fmt: skip
    dtype = DTYPES[types.pop()] if len(types) == 1 else torch.float32
    return state, str(dtype).removeprefix("torch.")


def _part(
    stored: Stored, tensors: Mapping[str, Tensor], alias: Alias, shape: weights.Shape
) -> Tensor:
    tensor = tensors[alias.name]
    if alias.total is not None:
        tensor = tensor[alias.first : alias.first + shape[0]]
    return weights.in_memory(stored.files[alias.name], alias.name, tensor).reshape(shape)


@dataclass(frozen=True, eq=False)
class Imported:
    """A model of another library, read and checked."""

    config: ModelConfig
    state: Mapping[str, Tensor]  # weights in float32 by this project's names
    tokenizer: Tokenizer
    dtype: str  # type of the stored weights
    notes: str = ""  # a further line of the model card, in Markdown
    decoding: Decoding | None = None  # the model's own decoding, if its files name one
    unused: tuple[str, ...] = ()  # settings without effect here, as `name=value`


@dataclass(frozen=True, eq=False)
class Format:
    """A model format, read by the module of the same name; lists.toml explains the fields."""

    name: str
    title: str
    files: Sequence[str]
    marks: Sequence[str]
    holds: str

    def fits(self, folder: Path) -> bool:
        """Return True if the file names in a folder match this format."""
        return self.lacks(folder) is None

    def lacks(self, folder: Path) -> str | None:
        """Return the first of `marks` that matches no file in a folder, or None."""
        try:
            return next((mark for mark in self.marks if not any(folder.glob(mark))), None)
        except (OSError, ValueError):
            return self.marks[0]

    def convert(
        self,
        folder: Path,
        out: Path,
        report: Report | None = None,
        *,
        name: str | None = None,
        **more: Any,
    ) -> Path:
        """Read a model of this format and write it as a checkpoint.

        Args:
            folder: the model's folder; for some formats also a file in it.
            out: the checkpoint's folder, new or empty; it appears whole or not at all.
            report: see `Report`; if it raises, nothing is left behind.
            name: source name in the model card; default: the folder's name.
            more: options of the format's `read`.

        Returns: `out`. Raises: `CheckpointError`, one line with the file and its fault.
        """
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise _taken(out)
        if reason := unread(folder, self.name):
            raise CheckpointError(f"{folder}: {reason}")
        module = importlib.import_module(f"transformer.models.importers.{self.name}")
        model: Imported = module.read(folder, report, **more)
        source = " ".join((name or folder.resolve().name).split())
        origin: dict[str, Any] = {"format": self.name, "source": source}
        metrics = {"imported": origin, "stored_as": model.dtype}
        if model.unused:
            origin["unused"] = list(model.unused)
        if model.decoding is not None:
            metrics[DEFAULT_DECODING] = model.decoding.to_dict()
        try:
            with replaced_folder(out, over=False) as new:
                TWO_STACKS.write(
                    new, model.config, model.state, model.tokenizer, metrics=metrics,
                    dtype=model.dtype, card=self._card(out.name, source, model),
                )  # fmt: skip
                TWO_STACKS.check(new)
        except FileExistsError:
            raise _taken(out) from None
        return out

    def _card(self, name: str, source: str, model: Imported) -> str:
        """Return the model card in Markdown, with text from outside as code."""
        config = model.config
        sizes = f"{config.vocab_size:,} source and {config.target_vocab_size:,} target"
        pieces = f"{config.vocab_size:,} shared" if config.tie_embeddings == "all" else sizes
        notes = [departures(config, model.tokenizer), model.notes]
        if config.positions == "stored":
            tables = (model.state[table] for table in POSITION_TABLES)
            both = dict(zip(("encoder", "decoder"), tables, strict=True))
            notes.append(weights.about_stored(both, config))
        if model.decoding is not None:
            notes.append(f"Its own decoding is the default here: {model.decoding}.")
        if model.unused:
            unused = ", ".join(map(code, model.unused))
            notes.append(f"Settings that have no effect here: {unused}.")
        differences = "\n".join(filter(None, notes))
        return f"""# {code(name)}

A {self.title} model, imported from {code(source)} by `python -m transformer import {self.name}`:
{config.n_encoder_layers}+{config.n_decoder_layers} layers, d_model {config.d_model}, d_ff {config.d_ff}, {config.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters, {pieces} pieces, stored as {model.dtype}.

## Data, figures, licence

See the card of the original model; nothing was measured or trained here.

## What differs from the paper

{differences}
"""  # noqa: E501 - one line in the card


def departures(config: ModelConfig, tokenizer: Tokenizer) -> str:
    """Return a config's differences from the paper as a line of Markdown."""
    norm = "before each sub-layer" if config.norm == "pre" else "after each residual sum"
    biases = ["all projections"] * config.attention_bias + ["the logits"] * config.output_bias
    slow = ", numbered from 2, the slowest turning by 1/10000" if config.position_offset else ""
    positions = {
        "sinusoidal": f"sinusoids laid out as sines then cosines{slow}",
        "learned": "learned positions",
        "stored": "positions from a stored table",
    }[config.positions]
    paper = config.positions == "sinusoidal" and config.position_layout == "interleaved"
    parts = [
        f"{config.activation} in the feed-forward networks",
        f"layer normalisation {norm}",
        f"biases on {' and '.join(biases)}" if biases else "",
        "" if paper else positions,
        f"a decoder that starts from {code(tokenizer.target.id_to_piece(config.bos_id))}",
    ]
    return f"{', '.join(filter(None, parts))}."


def put_in_place(unfinished: Path, out: Path) -> None:
    """Rename a finished folder. Raises `CheckpointError` if the name is taken."""
    try:
        os.replace(unfinished, out)
    except OSError as error:
        if out.exists():
            raise _taken(out) from None
        raise CheckpointError(f"{out}: {error.strerror or error}") from None


def _taken(out: Path) -> CheckpointError:
    return CheckpointError(f"{out}: exists already; give a new folder")


def code(text: str) -> str:
    """Return text as code in Markdown."""
    return f"`{text.replace('`', ' ')}`"


#: Formats by their names on the command line.
FORMATS = {row["name"]: Format(**row) for row in LISTS["formats"]}
