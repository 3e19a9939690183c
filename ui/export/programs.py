"""The programs in downloads: the lines that open a model and make its trace."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any

from figures.exhibit import Exhibit
from transformer.checkpoint.reference import Kind
from transformer.trace.records import Trace

#: A caption's facts, in order.
_FACTS = ("Translation", "Sentence", "Checkpoint", "Attention")

_START = """import os
import sys
from pathlib import Path

import numpy as np

{imports}

# HEADLIGHT_CHECKPOINTS names other checkpoint folders.
roots = ["checkpoints", str(Path(sys.prefix).parent / "checkpoints")]
roots = os.environ.get("HEADLIGHT_CHECKPOINTS", os.pathsep.join(roots)).split(os.pathsep)


def path_of(name):
    paths = [Path(root) / name for root in roots]
    return next(path for path in paths if ModelRef.of(path).folder.exists())


"""


@dataclass(frozen=True)
class Source:
    """The model, sentence and arguments from which a program makes a trace."""

    checkpoint: str  # name of a folder or file in one of the roots
    kind: Kind = "checkpoint"  # model kind
    device: str = "cpu"  # "cpu" or "cuda"
    sentence: str = ""  # the model's input, including any language tag
    #: other arguments of `Tracer.trace`, by name and in order
    arguments: tuple[tuple[str, Any], ...] = ()
    edits: str = ""  # the model's edits
    #: arguments of `transformer.attribution.cells.measured`, () for weights
    cells: tuple[tuple[str, Any], ...] = ()

    def figure(self, figure: Exhibit, function: Callable[..., Exhibit], **choice: Any) -> Exhibit:
        """Return a figure with its origin and the program that makes it.

        Args:
            function: of `headlight`; its arguments `model` and `trace` come from this source.
            choice: the other arguments.
        """
        traced = "trace" in signature(function).parameters
        facts = dict(figure.facts)
        edited = f", edited: {self.edits}" if self.edits else ""
        if self.checkpoint or edited:
            facts["Checkpoint"] = f"{self.checkpoint}{edited}"
        if traced and self.sentence:
            facts["Sentence"] = f"“{self.sentence}”"
        ordered = {name: facts[name] for name in _FACTS if name in facts}
        start = header(self, "import headlight", traced=traced)
        return replace(figure, facts=ordered, snippet=f"{start}\n{call(figure, function, choice)}")

    def of(self, function: Callable[..., Exhibit], trace: Trace, **choice: Any) -> Exhibit:
        """Return the figure of a `headlight` function that needs only a trace."""
        return self.figure(function(trace, **choice), function, **choice)

    def opened(self, model: str = "model") -> str:
        """Return the line that opens the model as a variable."""
        line = f"{model} = open_tracer(path_of({self.checkpoint!r}), device={self.device!r})"
        return f"{line}.edited({self.edits!r})\n" if self.edits else f"{line}\n"

    def traced(self, model: str = "model", trace: str = "trace", **changed: object) -> str:
        """Return the line that makes the trace; `changed` are other arguments, as Python code."""
        arguments = changed or {name: repr(value) for name, value in self.arguments}
        lines = "".join(f"    {name}={value},\n" for name, value in arguments.items())
        traced = f"{trace} = {model}.trace(\n    {self.sentence!r},\n{lines})\n"
        if not self.cells:
            return traced
        chosen = "".join(f"    {name}={value!r},\n" for name, value in self.cells)
        return f"{traced}{trace} = measured(\n    {model}, {trace},\n{chosen})\n"


def facts_of(trace: Trace, where: str = "") -> dict[str, str]:
    """Return a caption's facts about a trace: its sentence, and the layer and head."""
    facts = {"Sentence": trace.source and f"“{trace.source}”", "Attention": where}
    return {name: fact for name, fact in facts.items() if fact}


def call(figure: Exhibit, function: Callable[..., Exhibit], choice: Mapping[str, Any]) -> str:
    """Return the call that makes a figure, and lines that name its arrays.

    Required arguments that `choice` lacks are variables of the program; arguments equal to their
    default are omitted.
    """
    parameters = signature(function).parameters
    arguments = [name for name, parameter in parameters.items()
                 if name not in choice and parameter.default is Parameter.empty]  # fmt: skip
    arguments += [
        f"{name}={value!r}" for name, value in choice.items() if value != parameters[name].default
    ]
    line = f"figure = headlight.{function.__name__}({', '.join(arguments)})\n"
    if len(line) > 90:
        lines = "".join(f"    {argument},\n" for argument in arguments)
        line = f"figure = headlight.{function.__name__}(\n{lines})\n"
    arrays = "".join(f"{name} = figure.arrays[{name!r}]\n" for name in figure.arrays)
    return f"{line}{arrays}# headlight.save(figure, {figure.name + '.pdf'!r})\n"


def called(function: Callable[..., Exhibit], **choice: Any) -> Exhibit:
    """Return the figure of a `headlight` function that needs no model, with its program."""
    figure = function(**choice)
    return replace(figure, snippet="import headlight\n\n" + call(figure, function, choice))


def header(source: Source, *imports: str, traced: bool = True) -> str:
    """Return the lines that open a source as `model` and make its `trace`.

    User text is written as Python literals and cannot become code.

    Args:
        imports: further import lines.
        traced: False to omit the trace.
    """
    start = start_of((source,) if traced else (), *imports)
    return start + source.opened() + (source.traced() if traced else "")


def of_two(
    sources: tuple[Source, Source], names: tuple[str, str], between: str = "", *,
    traced: bool = True,
) -> str:  # fmt: skip
    """Return the lines that open two models as `model_NAME` and make their traces as `NAME`.

    Args: between: lines to append.
    """
    program = start_of(sources if traced else (), "import headlight")
    for source, name in zip(sources, names, strict=True):
        program += source.opened(f"model_{name}")
        program += source.traced(f"model_{name}", name) if traced else ""
    return f"{program}{between}\n"


def start_of(traced: tuple[Source, ...], *imports: str) -> str:
    """Return a program's imports, and `path_of`, which finds a checkpoint by name."""
    lines = {"from transformer.models.catalogue import ModelRef, open_tracer", *imports}
    if any(name == "sampling" for source in traced for name, _ in source.arguments):
        lines.add("from transformer.search.rules import Sampling")
    if any(source.cells for source in traced):
        lines.add("from transformer.attribution.cells import measured")
    return _START.format(imports="\n".join(sorted(lines)))
