"""The programs that come with downloads: the lines that open a model and make its trace again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from figures.exhibit import Exhibit
from transformer.catalogue import Kind
from transformer.trace.records import Trace

#: Parameters that a program passes by position.
_SUBJECTS = ("model", "trace", "two", "one")
#: The facts of a caption, in order.
_FACTS = ("Translation", "Sentence", "Checkpoint", "Attention")

#: Module and name of what opens each kind of model.
_OPENED_WITH: dict[Kind, tuple[str, str]] = {
    "checkpoint": ("transformer.translator", "Translator"),
    "one_stack": ("transformer.one_stack.tracer", "StackModel"),
    "huggingface": ("transformer.huggingface.model", "HuggingFaceModel"),
    "archive": ("transformer.arrays.trace_file", "load_arrays"),
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

    def figure(self, made: Exhibit, function: Callable[..., Exhibit], **choice: Any) -> Exhibit:
        """Return a figure with its origin, and with the program that makes it.

        Args:
            function: of `headlight`; its parameters `model` and `trace` come from this source.
            choice: its other arguments.
        """
        traced = "trace" in signature(function).parameters
        found = {"Checkpoint": self.checkpoint}
        if traced and self.sentence:
            found["Sentence"] = f"“{self.sentence}”"
        facts = {**made.facts, **{name: fact for name, fact in found.items() if fact}}
        ordered = {name: facts[name] for name in _FACTS if name in facts}
        start = header(self, "import headlight", traced=traced)
        return replace(made, facts=ordered, snippet=f"{start}\n{call(made, function, choice)}")

    def of(self, function: Callable[..., Exhibit], trace: Trace, **choice: Any) -> Exhibit:
        """Return the figure of a function of `headlight` that needs a trace only."""
        return self.figure(function(trace, **choice), function, **choice)


def facts_of(trace: Trace, where: str = "") -> dict[str, str]:
    """Return what a caption says of a trace: its sentence, and the layer and head shown."""
    sentence = f"“{trace.source}”" if trace.source else ""
    return {name: fact for name, fact in (("Sentence", sentence), ("Attention", where)) if fact}


def call(made: Exhibit, function: Callable[..., Exhibit], choice: Mapping[str, Any]) -> str:
    """Return the call that makes a figure, and its arrays as variables.

    Arguments that have their default are left out.
    """
    known = signature(function).parameters
    given = [name for name in known if name in _SUBJECTS]
    given += [f"{name}={value!r}" for name, value in choice.items() if value != known[name].default]
    line = f"figure = headlight.{function.__name__}({', '.join(given)})\n"
    if len(line) > 90:
        lines = "".join(f"    {each},\n" for each in given)
        line = f"figure = headlight.{function.__name__}(\n{lines})\n"
    arrays = "".join(f"{name} = figure.arrays[{name!r}]\n" for name in made.arrays)
    return f"{line}{arrays}# headlight.save(figure, {made.name + '.pdf'!r})\n"


def called(function: Callable[..., Exhibit], **choice: Any) -> Exhibit:
    """Return the figure of a function of `headlight` that needs no model, with its program."""
    made = function(**choice)
    return replace(made, snippet="import headlight\n\n" + call(made, function, choice))


def header(source: Source, *imports: str, traced: bool = True) -> str:
    """Return the lines that find and open a source as `model` and make its `trace`.

    Text from users appears in them as Python literals and cannot become code.

    Args:
        imports: further lines of imports that the rest of the program needs.
        traced: whether it needs a trace.
    """
    module, name = _OPENED_WITH[source.kind]
    lines = [f"from {module} import {name}", *imports]
    if traced and any(each == "sampling" for each, _ in source.arguments):
        lines.append("from transformer.search.sampling import Sampling")
    opening = f"{roots_lines(*lines)}path = path_of({source.checkpoint!r})\n"
    if source.kind == "archive":
        return f"{opening}trace = load_arrays(path)\n"
    opening += f"model = {name}.load(path, device={source.device!r})\n"
    if not traced:
        return opening
    arguments = "".join(f"    {each}={value!r},\n" for each, value in source.arguments)
    return f"{opening}trace = model.trace(\n    {source.sentence!r},\n{arguments})\n"


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
