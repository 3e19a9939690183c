"""The programs that come with downloads: the lines that open a model and make its trace again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformer.catalogue import Kind

#: What each kind of model is opened with: module, name, and the variable that holds the model.
_OPENED_WITH: dict[Kind, tuple[str, str, str]] = {
    "checkpoint": ("transformer.translator", "Translator", "translator"),
    "one_stack": ("transformer.one_stack.tracer", "StackModel", "model"),
    "huggingface": ("transformer.huggingface.model", "HuggingFaceModel", "model"),
    "archive": ("transformer.arrays.trace_file", "load_arrays", ""),
}


@dataclass(frozen=True)
class Source:
    """The source of a trace: all that a program needs to make the same trace.

    Attributes:
        checkpoint: name of the folder or file below one of the roots.
        kind: of model.
        device: "cpu" or "cuda".
        sentence: as the model gets it, with its language tag if it has one.
        arguments: further arguments of `Tracer.trace`, by name and in order.
        alpha: the chosen exponent of the length penalty, even if it has no effect.
    """

    checkpoint: str
    kind: Kind = "checkpoint"
    device: str = "cpu"
    sentence: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()
    alpha: float = 0.6

    def facts(self, where: str = "", sentence: str = "") -> dict[str, str]:
        """Return what a caption says of a figure's origin.

        Args:
            where: the layer and head.
            sentence: of the trace, for a source without one.
        """
        read = self.sentence or sentence
        quoted = f"“{read}”" if read else ""
        named = {"Sentence": quoted, "Checkpoint": self.checkpoint, "Attention": where}
        return {name: fact for name, fact in named.items() if fact}


def about_model(checkpoint: str) -> dict[str, str]:
    """Return what a caption says of a figure of a model without a sentence."""
    return {"Checkpoint": checkpoint} if checkpoint else {}


def header(source: Source, *imports: str) -> str:
    """Return the lines that find and open a source and make its `trace`.

    Text from users appears in them as Python literals and cannot become code.

    Args:
        imports: further lines of imports that the rest of the program needs.
    """
    module, name, model = _OPENED_WITH[source.kind]
    lines = [f"from {module} import {name}", *imports]
    if source.kind == "archive":
        return _opening(source, lines, "trace = load_arrays(path)\n")
    if any(each == "sampling" for each, _ in source.arguments):
        lines.append("from transformer.search.sampling import Sampling")
    arguments = "".join(f"    {each}={value!r},\n" for each, value in source.arguments)
    return _opening(
        source,
        lines,
        f"{model} = {name}.load(path, device={source.device!r})\n"
        f"trace = {model}.trace(\n    {source.sentence!r},\n{arguments})\n",
    )


def numpy_imports(*imports: str) -> str:
    """Return the first lines of a program that opens no model: its imports, NumPy first."""
    return "\n".join(["import numpy as np", "", *sorted(imports), ""])


def roots_lines(*imports: str) -> str:
    """Return the start of a program: imports, and `path_of`, which finds a checkpoint by name."""
    return "\n".join([
        "import os",
        "from pathlib import Path",
        "",
        numpy_imports(*imports),
        "# Run this in Headlight's folder, or say where the checkpoints are.",
        'roots = os.environ.get("HEADLIGHT_CHECKPOINTS", "checkpoints").split(os.pathsep)',
        "",
        "",
        "def path_of(name):",
        "    paths = [Path(root) / name for root in roots]",
        "    return next(path for path in paths if path.exists())",
        "",
        "",
        "",
    ])  # fmt: skip


def _opening(source: Source, imports: list[str], lines: str) -> str:
    return f"{roots_lines(*imports)}path = path_of({source.checkpoint!r})\n{lines}"
