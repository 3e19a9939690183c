"""The programs that come with downloads: the lines that open a model and make its trace again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any

from figures.exhibit import Exhibit
from transformer.checkpoint.reference import Kind
from transformer.trace.records import Trace

#: The facts of a caption, in order.
_FACTS = ("Translation", "Sentence", "Checkpoint", "Attention")

_START = """import os
from pathlib import Path

import numpy as np

{imports}

# Run this in Headlight's folder, or say where the checkpoints are.
roots = os.environ.get("HEADLIGHT_CHECKPOINTS", "checkpoints").split(os.pathsep)


def path_of(name):
    paths = [Path(root) / name for root in roots]
    return next(path for path in paths if ModelRef.of(path).folder.exists())


"""


@dataclass(frozen=True)
class Source:
    """The source of a trace: all that a program needs to make the same trace."""

    checkpoint: str  # name of the folder or file below one of the roots
    kind: Kind = "checkpoint"  # of model
    device: str = "cpu"  # "cpu" or "cuda"
    sentence: str = ""  # as the model gets it, with its language tag if it has one
    #: further arguments of `Tracer.trace`, by name and in order
    arguments: tuple[tuple[str, Any], ...] = ()
    alpha: float = 0.6  # the chosen exponent of the length penalty, even if it has no effect
    edits: str = ""  # of the model

    def figure(self, made: Exhibit, function: Callable[..., Exhibit], **choice: Any) -> Exhibit:
        """Return a figure with its origin, and with the program that makes it.

        Args:
            function: of `headlight`; its parameters `model` and `trace` come from this source.
            choice: its other arguments.
        """
        traced = "trace" in signature(function).parameters
        edited = f", edited: {self.edits}" if self.edits else ""
        found = {"Checkpoint": f"{self.checkpoint}{edited}"}
        if traced and self.sentence:
            found["Sentence"] = f"“{self.sentence}”"
        facts = {**made.facts, **{name: fact for name, fact in found.items() if fact}}
        ordered = {name: facts[name] for name in _FACTS if name in facts}
        start = header(self, "import headlight", traced=traced)
        return replace(made, facts=ordered, snippet=f"{start}\n{call(made, function, choice)}")

    def of(self, function: Callable[..., Exhibit], trace: Trace, **choice: Any) -> Exhibit:
        """Return the figure of a function of `headlight` that needs a trace only."""
        return self.figure(function(trace, **choice), function, **choice)

    def opened(self, model: str = "model") -> str:
        """Return the line that opens the model under a name."""
        line = f"{model} = open_tracer(path_of({self.checkpoint!r}), device={self.device!r})"
        return f"{line}.edited({self.edits!r})\n" if self.edits else f"{line}\n"

    def traced(self, model: str = "model", trace: str = "trace", **changed: object) -> str:
        """Return the line that makes the trace; `changed` are other arguments, as Python code."""
        arguments = changed or {name: repr(value) for name, value in self.arguments}
        lines = "".join(f"    {name}={value},\n" for name, value in arguments.items())
        return f"{trace} = {model}.trace(\n    {self.sentence!r},\n{lines})\n"


def facts_of(trace: Trace, where: str = "") -> dict[str, str]:
    """Return what a caption says of a trace: its sentence, and the layer and head shown."""
    sentence = f"“{trace.source}”" if trace.source else ""
    return {name: fact for name, fact in (("Sentence", sentence), ("Attention", where)) if fact}


def call(made: Exhibit, function: Callable[..., Exhibit], choice: Mapping[str, Any]) -> str:
    """Return the call that makes a figure, and its arrays as variables.

    Arguments without a default that are not in `choice` are variables of the program; those that
    have their default are left out.
    """
    known = signature(function).parameters
    given = [name for name, each in known.items()
             if name not in choice and each.default is Parameter.empty]  # fmt: skip
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
    start = start_of((source,) if traced else (), *imports)
    return start + source.opened() + (source.traced() if traced else "")


def of_two(
    sources: tuple[Source, Source],
    names: tuple[str, str],
    between: str = "",
    *,
    traced: bool = True,
) -> str:
    """Return the lines that open two models as `model_NAME` and make their traces, named so.

    Args: between: lines that follow, before the call.
    """
    program = start_of(sources if traced else (), "import headlight")
    for source, name in zip(sources, names, strict=True):
        program += source.opened(f"model_{name}")
        program += source.traced(f"model_{name}", name) if traced else ""
    return f"{program}{between}\n"


def start_of(traced: tuple[Source, ...], *imports: str) -> str:
    """Return the start of a program: imports, and `path_of`, which finds a checkpoint by name."""
    lines = {"from transformer.models.catalogue import ModelRef, open_tracer", *imports}
    if any(name == "sampling" for source in traced for name, _ in source.arguments):
        lines.add("from transformer.search.sampling import Sampling")
    return _START.format(imports="\n".join(sorted(lines)))
