"""The last step of every import: write the checkpoint and its card, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from transformer.checkpoint.folder import check_checkpoint, write_files
from transformer.checkpoint.position_tables import about_stored
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.folders import replaced_folder
from transformer.text.tokenizer import Tokenizer

#: Names of formats as model cards write them, where they differ from those of commands.
TITLES = {"marian": "Marian", "joeynmt": "JoeyNMT", "fairseq": "fairseq"}


def check_place(out: Path) -> None:
    """Raise `CheckpointError` if there is something at `out` already."""
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
    notes: str,
) -> Path:
    """Write an imported model to `out`, which appears whole or not at all.

    Args:
        dtype: the type to store the weights in.
        kind: name of the format.  source: name of the original model.
        notes: for the model card, in Markdown: how the model differs from the paper's.

    Returns: `out`. Raises: `CheckpointError`, one line.
    """
    source = " ".join(source.split())
    metrics = {"imported": {"format": kind, "source": source}, "stored_as": dtype}
    card = _card(out.name, kind, source, config, dtype, notes + _stored_note(config, state))
    try:
        with replaced_folder(out, over=False) as new:
            write_files(new, config, state, tokenizer, metrics=metrics, dtype=dtype, card=card)
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


def _stored_note(config: ModelConfig, state: Mapping[str, Tensor]) -> str:
    """Describe stored tables of positions in a sentence; "" for a model without."""
    if config.positions != "stored":
        return ""
    tables = {"encoder": state["src_positions.table"], "decoder": state["tgt_positions.table"]}
    return f" {about_stored(tables, config)}"


def _card(name: str, kind: str, source: str, config: ModelConfig, dtype: str, notes: str) -> str:
    """Return the model card in Markdown; text from outside is set as code."""
    sizes = f"{config.vocab_size:,} source and {config.target_vocab_size:,} target"
    pieces = f"{config.vocab_size:,} shared" if config.tie_embeddings == "all" else sizes
    return f"""# {code(name)}

A {TITLES.get(kind, kind)} model, imported from {code(source)} by `python -m transformer import {kind}`:
{config.n_encoder_layers}+{config.n_decoder_layers} layers, d_model {config.d_model}, d_ff {config.d_ff}, {config.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters, {pieces} pieces, stored as {dtype}.

## Data, figures, licence

See the card of the original model; nothing was measured or trained here.

## What differs from the paper

{notes}
"""  # noqa: E501 - one line in the card


def code(text: str) -> str:
    """Return text as code in Markdown."""
    return f"`{text.replace('`', ' ')}`"
