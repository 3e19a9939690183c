"""Formats of other libraries that can be imported."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.importers.finish import Imported, check_place, finish
from transformer.types import Report


@dataclass(frozen=True)
class Format:
    """A format of models.

    Attributes:
        name: on the command line.
        title: in words.
        module: loaded when used; its `read(folder, report)` returns a model as `Imported`.
        files: patterns of the files that may be read.
        marks: patterns of file names, all of which occur in a folder of this format.
        holds: the content of such a folder, in words.
    """

    name: str
    title: str
    module: str
    files: tuple[str, ...]
    marks: tuple[str, ...]
    holds: str

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
        *,
        name: str | None = None,
        report: Report | None = None,
        **more: Any,
    ) -> Path:
        """Read a model of this format and write it as a checkpoint.

        Args:
            folder: the model's folder; for some formats also a file in it.
            out: the checkpoint's folder, new or empty; it appears whole or not at all.
            name: of the source in the model card; default: the folder's name.
            report: see `Report`; if it raises, nothing is left behind.
            more: options of the format's `read`.

        Returns: `out`. Raises: `CheckpointError`, one line that names the file and what is wrong.
        """
        check_place(out)
        found: Imported = importlib.import_module(self.module).read(folder, report, **more)
        source = name or folder.resolve().name
        return finish(out, found, kind=self.name, title=self.title, source=source)


#: Every format, by its name on the command line.
FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format(
            name="marian",
            title="Marian (OPUS-MT)",
            module="transformer.importers.marian.importer",
            files=(
                "config.json", "generation_config.json", "vocab.json", "target_vocab.json",
                "source.spm", "target.spm", "model.safetensors", "pytorch_model.bin",
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
            module="transformer.importers.joeynmt.importer",
            files=("*.ckpt", "config.yaml", "*vocab*.txt", "*.model", "*codes*", "bpe.*"),
            marks=("config.yaml", "*.ckpt", "src_vocab.txt", "trg_vocab.txt"),
            holds="config.yaml, a checkpoint (*.ckpt), src_vocab.txt, trg_vocab.txt, and the "
            "SentencePiece models or files of merges that text is cut with",
        ),
        Format(
            name="fairseq",
            title="fairseq",
            module="transformer.importers.fairseq.importer",
            files=("*.pt", "dict*.txt", "*.model", "*codes*", "code", "code.*", "bpe.code"),
            marks=("*.pt", "dict*.txt"),
            holds="a checkpoint (*.pt), dict.LANG.txt for both languages, and the SentencePiece "
            "models or files of merges that text is cut with",
        ),
    )
}  # fmt: skip
