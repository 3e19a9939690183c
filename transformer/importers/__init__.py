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
        self,
        folder: Path,
        out: Path,
        *,
        name: str | None = None,
        report: Report | None = None,
        **more: Any,
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
        return self.lacks(folder) is None

    def lacks(self, folder: Path) -> str | None:
        """The first of `marks` that a folder has no file for, None where it has all."""
        try:
            return next((mark for mark in self.marks if not any(folder.glob(mark))), None)
        except OSError:
            return self.marks[0]

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
            module="transformer.importers.joeynmt",
            function="import_joeynmt",
            files=("*.ckpt", "config.yaml", "*vocab*.txt", "*.model", "*codes*", "bpe.*"),
            marks=("config.yaml", "*.ckpt", "src_vocab.txt", "trg_vocab.txt"),
            holds="config.yaml, a checkpoint (*.ckpt), src_vocab.txt, trg_vocab.txt, and the "
            "SentencePiece models or files of merges that text is cut with",
        ),
        Format(
            name="fairseq",
            title="fairseq",
            module="transformer.importers.fairseq",
            function="import_fairseq",
            files=("*.pt", "dict*.txt", "*.model", "*codes*", "code", "code.*", "bpe.code"),
            marks=("*.pt", "dict*.txt"),
            holds="a checkpoint (*.pt), dict.LANG.txt for both languages, and the SentencePiece "
            "models or files of merges that text is cut with",
        ),
    )
}  # fmt: skip


def add_command(commands: Any) -> None:
    """Add `import` to the command line's subparsers."""
    parser = commands.add_parser("import", help="turn another library's model into a checkpoint")
    kinds = "; ".join(f"{each.name}: {each.title}" for each in FORMATS.values())
    parser.add_argument("kind", choices=tuple(FORMATS), help=kinds)
    parser.add_argument(
        "source", nargs="?", metavar="DIR",
        help="its folder; or owner/name on the Hugging Face hub; of joeynmt and fairseq also the "
        "checkpoint's file",
    )  # fmt: skip
    parser.add_argument("--out", metavar="PATH", help="the checkpoint to write")
    parser.add_argument(
        "--moses", action=argparse.BooleanOptionalAction,
        help="fairseq: text was prepared by the Moses tokenizer; default where merges cut it",
    )  # fmt: skip
    parser.add_argument(
        "--explain", action="store_true",
        help="joeynmt, fairseq: print how to convert a file that is refused",
    )  # fmt: skip
    parser.set_defaults(run=_import, usage_error=parser.error)


def _import(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from transformer.importers import explanations, hub

    if options.explain:
        if options.kind not in explanations.KEPT:
            options.usage_error(f"nothing is to be converted before {options.kind} is imported")
        print(explanations.explanation(options.kind), end="")  # noqa: T201 - part of the command line
        return
    if options.source is None or options.out is None:
        options.usage_error("say what to import, and where to with --out")
    more: dict[str, Any] = {} if options.moses is None else {"moses": options.moses}
    if more and options.kind != "fairseq":
        options.usage_error(f"--moses is not said of {options.kind}, whose files say it")
    kind, out = FORMATS[options.kind], Path(options.out)
    if options.kind in explanations.KEPT and Path(options.source).is_file():
        print(kind.importer(Path(options.source), out, name=options.source, **more))  # noqa: T201
        return
    with tqdm(unit="B", unit_scale=True, disable=None, leave=False) as bar:

        def report(received: int, total: int) -> None:
            bar.total = total
            bar.update(received - bar.n)

        with hub.opened(options.source, kind.files, out.parent, report) as folder:
            path = kind.importer(folder, out, name=options.source, **more)
    print(path)  # noqa: T201 - part of the command line
