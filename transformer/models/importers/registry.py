"""Formats of other libraries, and the steps that every import shares."""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer.checkpoint.folder import POSITION_TABLES, TWO_STACKS
from transformer.checkpoint.weights import about_stored
from transformer.config import ModelConfig
from transformer.files.folders import replaced_folder
from transformer.files.unread import unread
from transformer.models.importers.settings import LISTS
from transformer.search.request import DEFAULT_DECODING, Decoding
from transformer.text.tokenizer import Tokenizer
from transformer.types import CheckpointError, Report


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
            notes.append(about_stored(both, config))
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
