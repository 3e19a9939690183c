"""Formats of other libraries that can be imported, and the last step of every import."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer.checkpoint.folder import POSITION_TABLES, TWO_STACKS
from transformer.checkpoint.weights import about_stored
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.folders import replaced_folder
from transformer.search.decoding import DEFAULT_DECODING, Decoding
from transformer.text.tokenizer import Tokenizer
from transformer.types import Report


@dataclass(frozen=True, eq=False)
class Imported:
    """A model of another library, read and checked."""

    config: ModelConfig
    state: Mapping[str, Tensor]  # weights in float32 by this project's names
    tokenizer: Tokenizer
    dtype: str  # the type to store them in
    notes: str  # for the model card, in Markdown: departures from the paper
    decoding: Decoding | None = None  # its own, if its files name one
    unused: tuple[str, ...] = ()  # its settings that have no effect here, as `name=value`


@dataclass(frozen=True)
class Format:
    """A format of models, read by the module of its name."""

    name: str  # on the command line
    title: str  # in words
    files: tuple[str, ...]  # patterns of the files that may be read
    marks: tuple[str, ...]  # patterns of file names; a folder of this format matches all
    holds: str  # the content of such a folder, in words

    def fits(self, folder: Path) -> bool:
        """Return whether a folder looks like this format, by the names of its files alone."""
        return self.lacks(folder) is None

    def lacks(self, folder: Path) -> str | None:
        """Return the first of `marks` that no file in a folder matches, or None."""
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
            name: of the source in the model card; default: the folder's name.
            more: options of the format's `read`.

        Returns: `out`. Raises: `CheckpointError`, one line that names the file and what is wrong.
        """
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise _taken(out)
        if reason := unusable(folder):
            raise CheckpointError(f"{folder}: {reason}")
        module = importlib.import_module(f"transformer.models.importers.{self.name}")
        found: Imported = module.read(folder, report, **more)
        source = " ".join((name or folder.resolve().name).split())
        said: dict[str, Any] = {"format": self.name, "source": source}
        metrics = {"imported": said, "stored_as": found.dtype}
        if found.unused:
            said["unused"] = list(found.unused)
        if found.decoding is not None:
            metrics[DEFAULT_DECODING] = found.decoding.to_dict()
        try:
            with replaced_folder(out, over=False) as new:
                TWO_STACKS.write(
                    new, found.config, found.state, found.tokenizer, metrics=metrics,
                    dtype=found.dtype, card=self._card(out.name, source, found),
                )  # fmt: skip
                TWO_STACKS.check(new)
        except FileExistsError:
            raise _taken(out) from None
        return out

    def _card(self, name: str, source: str, found: Imported) -> str:
        """Return the model card in Markdown; text from outside is set as code."""
        config, notes = found.config, found.notes
        sizes = f"{config.vocab_size:,} source and {config.target_vocab_size:,} target"
        pieces = f"{config.vocab_size:,} shared" if config.tie_embeddings == "all" else sizes
        if config.positions == "stored":
            tables = (found.state[table] for table in POSITION_TABLES)
            both = dict(zip(("encoder", "decoder"), tables, strict=True))
            notes += f" {about_stored(both, config)}"
        if found.decoding is not None:
            notes += f"\nIts own decoding is the default here: {found.decoding}."
        if found.unused:
            notes += f"\nSettings that have no effect here: {', '.join(map(code, found.unused))}."
        return f"""# {code(name)}

A {self.title} model, imported from {code(source)} by `python -m transformer import {self.name}`:
{config.n_encoder_layers}+{config.n_decoder_layers} layers, d_model {config.d_model}, d_ff {config.d_ff}, {config.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters, {pieces} pieces, stored as {found.dtype}.

## Data, figures, licence

See the card of the original model; nothing was measured or trained here.

## What differs from the paper

{notes}
"""  # noqa: E501 - one line in the card


def put_in_place(unfinished: Path, out: Path) -> None:
    """Give a finished folder its name, unless the name is taken."""
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


#: Files that neither open nor import: a pattern for each file, and what they are with the way out.
UNUSABLE: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("adapter_model.*",),
        "holds a LoRA adapter, which is a part of a model; merge it in Python by "
        "PeftModel.from_pretrained(...).merge_and_unload().save_pretrained(DIR), and open DIR",
    ),
    (
        ("*.npz", "*decoder.yml"),
        "holds a model in Marian's own format; convert it with transformers 4, python -m "
        "transformers.models.marian.convert_marian_to_pytorch --src DIR --dest OUT, which keeps "
        "the beam size of decoder.yml, and import OUT",
    ),
)
#: Files of the same sort, where no weights that can be read lie beside them.
WITHOUT_WEIGHTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("model.bin", "*vocabulary.*"),
        "holds a model of CTranslate2, which has no attention by head; import the model that it "
        "was converted from",
    ),
    (
        ("tf_model.h5",),
        "holds weights of TensorFlow; save them with transformers 4 as safetensors, by "
        "from_pretrained(DIR, from_tf=True).save_pretrained(OUT), and open OUT",
    ),
    (("*.gguf",), "holds a model of llama.cpp (GGUF); open the folder that it was made from"),
    (("*.onnx",), "holds a model as ONNX; open the folder that it was exported from"),
)
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.index.json", "*.ckpt", "*.pt")


def unusable(path: Path) -> str | None:
    """Return what a folder or file holds that neither opens nor imports, and the way out, or None.

    Args: path: of a file, what lies beside it counts if it matches a first pattern itself.
    """
    folder = path.parent if path.is_file() else path
    more = () if any(any(folder.glob(each)) for each in _WEIGHTS) else WITHOUT_WEIGHTS
    for patterns, reason in (*UNUSABLE, *more):
        if path != folder and not path.match(patterns[0]):
            continue
        if all(any(folder.glob(pattern)) for pattern in patterns):
            return reason
    return None


#: Every format, by its name on the command line.
FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format(
            name="marian",
            title="Marian (OPUS-MT)",
            files=(
                "config.json", "generation_config.json", "vocab.json", "target_vocab.json",
                "source.spm", "target.spm", "tokenizer_config.json", "special_tokens_map.json",
                "added_tokens.json", "tokenizer.json", "model.safetensors", "pytorch_model.bin",
                "model.safetensors.index.json", "pytorch_model.bin.index.json",
                "model-*.safetensors", "pytorch_model-*.bin",
            ),
            marks=("config.json", "vocab.json", "source.spm", "target.spm"),
            holds="config.json, vocab.json, source.spm, target.spm, and model.safetensors or "
            "pytorch_model.bin",
        ),
        Format(
            name="joeynmt",
            title="JoeyNMT",
            files=("*.ckpt", "config.yaml", "*vocab*.txt", "*.model", "*codes*", "bpe.*"),
            marks=("config.yaml", "*.ckpt", "src_vocab.txt", "trg_vocab.txt"),
            holds="config.yaml, a checkpoint (*.ckpt), src_vocab.txt, trg_vocab.txt, and the "
            "SentencePiece models or files of merges that text is cut with",
        ),
        Format(
            name="fairseq",
            title="fairseq",
            files=("*.pt", "dict*.txt", "*.model", "*codes*", "code", "code.*", "bpe.code"),
            marks=("*.pt", "dict*.txt"),
            holds="a checkpoint (*.pt), dict.LANG.txt for both languages, and the SentencePiece "
            "models or files of merges that text is cut with",
        ),
    )
}  # fmt: skip
