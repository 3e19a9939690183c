"""Models of other libraries, read into this project's own: afterwards they are checkpoints."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

#: Called with (how far, of how much) while something is read; may raise, which stops the import.
Report = Callable[[int, int], None]


class Importer(Protocol):
    """Reads a model of another library and writes it as a checkpoint.

    Args:
        folder: holds the model's files.
        out: the checkpoint's folder, which must not exist yet or be empty; it appears whole or
            not at all.
        name: what the model card calls the source.
        report: see `Report`.

    Returns: `out`. Raises: `CheckpointError`, one line.
    """

    def __call__(  # noqa: D102 - said above
        self, folder: Path, out: Path, *, name: str | None = None, report: Report | None = None
    ) -> Path: ...


@dataclass(frozen=True)
class Format:
    """A format that models come in.

    Attributes:
        name: on the command line.
        title: in words.
        module, function: where its `Importer` is, loaded when it is used.
        files: what is read of a folder, as patterns of file names.
        marks: patterns of file names that a folder of this format has a match for, each.
        holds: what a folder of this format holds, for people.
    """

    name: str
    title: str
    module: str
    function: str
    files: tuple[str, ...]
    marks: tuple[str, ...]
    holds: str

    def fits(self, folder: Path) -> bool:
        """Whether a folder looks like this format, by the names of its files alone."""
        try:
            return all(any(folder.glob(mark)) for mark in self.marks)
        except OSError:
            return False

    @property
    def importer(self) -> Importer:
        """Reads this format."""
        found: Importer = getattr(importlib.import_module(self.module), self.function)
        return found


#: Every format, by its name on the command line.
FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format(
            name="marian",
            title="Marian and OPUS-MT",
            module="transformer.importers.marian",
            function="import_marian",
            files=(
                "config.json", "generation_config.json", "vocab.json", "target_vocab.json",
                "source.spm", "target.spm", "model.safetensors", "pytorch_model.bin",
            ),
            marks=("config.json", "vocab.json", "source.spm", "target.spm"),
            holds="config.json, vocab.json, source.spm, target.spm, and model.safetensors or "
            "pytorch_model.bin",
        ),
    )
}  # fmt: skip


def add_command(commands: Any) -> None:
    """Add `import` to the command line's subparsers."""
    parser = commands.add_parser("import", help="turn another library's model into a checkpoint")
    kinds = "; ".join(f"{each.name}: {each.title}" for each in FORMATS.values())
    parser.add_argument("kind", choices=tuple(FORMATS), help=kinds)
    parser.add_argument(
        "source", metavar="DIR", help="its folder; or owner/name on the Hugging Face hub"
    )
    parser.add_argument("--out", required=True, metavar="PATH", help="the checkpoint to write")
    parser.set_defaults(run=_import)


def _import(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from transformer.importers import hub

    kind, out = FORMATS[options.kind], Path(options.out)
    with tqdm(unit="B", unit_scale=True, disable=None, leave=False) as bar:

        def report(received: int, total: int) -> None:
            bar.total = total
            bar.update(received - bar.n)

        with hub.opened(options.source, kind.files, out.parent, report) as folder:
            path = kind.importer(folder, out, name=options.source)
    print(path)  # noqa: T201 - part of the command line
