"""The last part of every import: a checkpoint's folder that appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from transformer.checkpoint.folder import inspect_checkpoint, write_files
from transformer.checkpoint.position_tables import about_stored
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.folders import replaced_folder
from transformer.text.tokenizer import Tokenizer


def check_place(out: Path) -> None:
    """Refuse to write over anything."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise _taken(out)


def finish(
    out: Path,
    config: ModelConfig,
    state: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    *,
    dtype: str,
    kind: str,
    source: str,
    card: str,
) -> Path:
    """Write an imported model to `out`, which appears whole or not at all.

    Args:
        dtype: how the weights are stored.
        kind: name of the format.  source: what the model was called.
        card: the model card, in Markdown.

    Returns: `out`. Raises: `CheckpointError`, one line.
    """
    metrics = {"imported": {"format": kind, "source": source}, "stored_as": dtype}
    try:
        with replaced_folder(out, over=False) as new:
            write_files(new, config, state, tokenizer, metrics=metrics, dtype=dtype, card=card)
            error = inspect_checkpoint(new).error
            if error is not None:
                raise CheckpointError(error)
    except FileExistsError:
        raise _taken(out) from None
    return out


def _taken(out: Path) -> CheckpointError:
    return CheckpointError(f"{out}: exists already; give a folder that does not")


def put_in_place(unfinished: Path, out: Path) -> None:
    """Give a finished folder its name, unless another got there first."""
    try:
        os.replace(unfinished, out)
    except OSError as error:
        if out.exists():
            raise _taken(out) from None
        raise CheckpointError(f"{out}: {error.strerror or error}") from None


def called(name: str | None, path: Path) -> str:
    """What a model card calls a source: one line."""
    return " ".join((name or path.resolve().name).split())


def stored_note(config: ModelConfig, state: Mapping[str, Tensor]) -> str:
    """A sentence for the card on stored tables of positions; "" for a model without."""
    if config.positions != "stored":
        return ""
    tables = {"encoder": state["src_positions.table"], "decoder": state["tgt_positions.table"]}
    return f" {about_stored(tables, config)}"


def card_of(
    name: str, title: str, command: str, source: str, config: ModelConfig, dtype: str, notes: str
) -> str:
    """The model card, in Markdown; what comes from outside stands in code.

    Args:
        title: of the format, with its article.  command: its name on the command line.
        notes: how the model differs from the paper's.
    """
    sizes = f"{config.vocab_size:,} source and {config.target_vocab_size:,} target"
    pieces = f"{config.vocab_size:,} shared" if config.tie_embeddings == "all" else sizes
    return f"""# {_code(name)}

{title} model, imported from {_code(source)} by `python -m transformer import {command}`:
{config.n_encoder_layers}+{config.n_decoder_layers} layers, d_model {config.d_model}, d_ff {config.d_ff}, {config.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters, {pieces} pieces, stored as {dtype}.

## Data, figures, licence

See the card of the model that was imported; nothing was measured or trained here.

## What differs from the paper

{notes}
"""  # noqa: E501 - one line in the card


def _code(text: str) -> str:
    return f"`{text.replace('`', ' ')}`"
