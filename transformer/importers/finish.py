"""Last step of every import: the checkpoint and its card, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from transformer.checkpoint.folder import check_checkpoint, write_files
from transformer.checkpoint.position_tables import about_stored
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.folders import replaced_folder
from transformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Imported:
    """A model of another library, read and checked.

    Attributes:
        state: weights in float32 by this project's names.
        dtype: the type to store them in.
        notes: for the model card, in Markdown: departures from the paper.
    """

    config: ModelConfig
    state: Mapping[str, Tensor]
    tokenizer: Tokenizer
    dtype: str
    notes: str


def check_place(out: Path) -> None:
    """Raise `CheckpointError` if there is something at `out` already."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise _taken(out)


def finish(out: Path, found: Imported, *, kind: str, title: str, source: str) -> Path:
    """Write an imported model to `out`, which appears whole or not at all.

    Args:
        kind, title: the format's name on the command line, and in words.
        source: name of the original model.

    Returns: `out`. Raises: `CheckpointError`, one line.
    """
    source = " ".join(source.split())
    metrics = {"imported": {"format": kind, "source": source}, "stored_as": found.dtype}
    try:
        with replaced_folder(out, over=False) as new:
            write_files(
                new, found.config, found.state, found.tokenizer, metrics=metrics,
                dtype=found.dtype, card=_card(out.name, kind, title, source, found),
            )  # fmt: skip
            check_checkpoint(new)
    except FileExistsError:
        raise _taken(out) from None
    return out


def _taken(out: Path) -> CheckpointError:
    return CheckpointError(f"{out}: exists already; give a new folder")


def put_in_place(unfinished: Path, out: Path) -> None:
    """Give a finished folder its name, unless the name is taken."""
    try:
        os.replace(unfinished, out)
    except OSError as error:
        if out.exists():
            raise _taken(out) from None
        raise CheckpointError(f"{out}: {error.strerror or error}") from None


def _card(name: str, kind: str, title: str, source: str, found: Imported) -> str:
    """Return the model card in Markdown; text from outside is set as code."""
    config, notes = found.config, found.notes
    sizes = f"{config.vocab_size:,} source and {config.target_vocab_size:,} target"
    pieces = f"{config.vocab_size:,} shared" if config.tie_embeddings == "all" else sizes
    if config.positions == "stored":
        stacks = {"encoder": "src_positions.table", "decoder": "tgt_positions.table"}
        tables = {stack: found.state[table] for stack, table in stacks.items()}
        notes += f" {about_stored(tables, config)}"
    return f"""# {code(name)}

A {title} model, imported from {code(source)} by `python -m transformer import {kind}`:
{config.n_encoder_layers}+{config.n_decoder_layers} layers, d_model {config.d_model}, d_ff {config.d_ff}, {config.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters, {pieces} pieces, stored as {found.dtype}.

## Data, figures, licence

See the card of the original model; nothing was measured or trained here.

## What differs from the paper

{notes}
"""  # noqa: E501 - one line in the card


def code(text: str) -> str:
    """Return text as code in Markdown."""
    return f"`{text.replace('`', ' ')}`"
