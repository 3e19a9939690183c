"""Commands as functions whose parameters are their options, shared options, and Dask clusters.

A parameter is `Annotated[type, metavar, help]`, with further argparse settings in a dict. Those
before `*` are positional. An option without a default is required, and a bool is a flag.
"""

import argparse
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from transformer.search.records import Translation
from transformer.search.rules import Sampling
from transformer.training.data import find_file, read_lines
from transformer.types import InputError

if TYPE_CHECKING:
    from transformer.models.catalogue import Kind, ModelRef
    from transformer.translator import Translator

Checkpoint = Annotated[Path, "PATH", "a checkpoint folder"]
Data = Annotated[Path, "DIR", "folder of the text"]
Device = Annotated[str, "auto, cpu or cuda"]
Json = Annotated[bool, "print JSON"]
Quiet = Annotated[bool, "no progress bar"]
RunFolder = Annotated[Path, "RUN", "the --out folder of train"]
Beam = Annotated[int | None, "N", "beam size, 1 is greedy; default: the checkpoint's, see info"]
Alpha = Annotated[
    float | None, "A", "exponent of the length penalty; default: the checkpoint's, see info"
]
Sentences = Annotated[
    Sequence[str], "SENTENCE", "default: one sentence a line on standard input", {"nargs": "*"}
]
#: Settings from which a default decoding is chosen.
Beams = Annotated[Sequence[int], "N", "beam sizes to try on the validation text"]
Alphas = Annotated[Sequence[float], "A", "length penalties to try"]
BEAMS, ALPHAS = (1, 4, 5, 8), (0.0, 0.3, 0.6, 1.0, 1.4, 1.8, 2.0)

#: Kinds of models, and commands for them.
_WORKS: "dict[Kind, str]" = {
    "checkpoint": "an encoder-decoder; `translate` and `trace` work with it",
    "one_stack": "a one-stack model; `complete` and `trace` work with it",
    "huggingface": "a model of the transformers library; `trace` works with it, and `translate` or "
    "`complete`, with and without an encoder",
    "archive": "a file of attention maps; `show` opens it",
}


def of_kind(path: Path, *kinds: "Kind") -> "ModelRef":
    """Return the reference to a model of one of these kinds.

    Raises: `InputError` saying which commands accept another kind, or what is wrong with the
        folder, such as a model to import first.
    """
    from transformer.models.catalogue import describe, resolve

    ref = resolve(path)
    if error := describe(ref).error:
        raise InputError(error)
    if ref.kind not in kinds:
        raise InputError(f"{path} is {_WORKS[ref.kind]}")
    return ref


@dataclass(frozen=True, kw_only=True)
class Model:
    """Options for a translator and its search; a parameter of this type adds them all."""

    checkpoint: Checkpoint
    device: Device = "auto"
    beam: Beam = None
    alpha: Alpha = None

    def load(self) -> "Translator":
        """Load the translator."""
        from transformer.translator import Translator

        return Translator.load(of_kind(self.checkpoint, "checkpoint"), device=self.device)


@dataclass(frozen=True, kw_only=True)
class Steering(Model):
    """Further options for decoding."""

    prefix: Annotated[str | None, "TEXT", "begin every translation with this text"] = None
    prefix_text: Annotated[
        str, "TEXT", "put this text, or the prefix of this task, before every sentence"
    ] = ""
    sample: Annotated[bool, "sample tokens instead of searching for the best"] = False
    temperature: Annotated[
        float | None, "T", "with --sample: below 1 sharpens, above 1 flattens; default: 1"
    ] = None
    sample_top_k: Annotated[
        int | None, "K", "with --sample: only the K most probable tokens; default: all"
    ] = None
    top_p: Annotated[
        float | None, "P", "with --sample: only the nucleus of probability P; default: 1"
    ] = None
    seed: Annotated[int | None, "N", "with --sample: the random seed; default: 0"] = None
    edit: Annotated[
        str | None, "EDITS", "first take parts out of the model: “off cross.3.5; no positions”"
    ] = None
    mean_of: Annotated[
        Path | None, "FILE", "with --edit: sentences for “mean”; default: the checkpoint's means"
    ] = None

    def open(self, ref: "ModelRef") -> Any:
        """Open the edited model. Raises `InputError` for an edit that it cannot take."""
        from transformer.models.catalogue import open_tracer

        if self.mean_of is None:
            return open_tracer(ref.edited(self.edit or ""), self.device)
        if not self.edit or ref.kind != "checkpoint":
            raise InputError("--mean-of needs --edit, and an encoder-decoder of this project")
        lines = [line for line in read_lines(find_file(self.mean_of)) if line.strip()]
        translator: Any = open_tracer(ref, self.device)
        return translator.edited(self.edit, sentences=lines)

    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments of `Translator.translate` and `trace`."""
        for name in ("temperature", "sample_top_k", "top_p", "seed"):
            value = getattr(self, name)
            if value is not None and not self.sample:
                raise InputError(f"--{name.replace('_', '-')} {value} needs --sample")
        sampling = Sampling(
            1.0 if self.temperature is None else self.temperature,
            self.sample_top_k or 0,
            1.0 if self.top_p is None else self.top_p,
            self.seed or 0,
        )
        return {
            "beam_size": self.beam, "alpha": self.alpha, "prefix": self.prefix,
            "sampling": sampling if self.sample else None,
        }  # fmt: skip


def _parameters(command: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, Any]]:
    hints = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        yield parameter, hints[parameter.name]


def add_options(parser: argparse.ArgumentParser, command: Callable[..., Any]) -> None:
    """Add a command's options to its parser."""
    for parameter, hint in _parameters(command):
        if isinstance(hint, type):
            add_options(parser, hint)
            continue
        kind, *about = get_args(hint)
        more = about.pop() if isinstance(about[-1], dict) else {}
        *metavar, text = about
        default = parameter.default
        default = list(default) if isinstance(default, tuple) else default
        settings: dict[str, Any] = {"help": text, "default": default}
        if default not in (parameter.empty, None, False, "", []):
            settings["help"] += f"; default: {str(default).strip('[]').replace(',', '')}"
        if isinstance(kind, UnionType):
            kind = get_args(kind)[0]
        if get_origin(kind) is Sequence:
            kind, settings["nargs"] = get_args(kind)[0], "+"
        if kind is bool:
            settings["action"] = "store_true"
        else:
            settings["type"] = _path if kind is Path else kind
            settings["metavar"] = metavar[0] if metavar else None
        if parameter.kind is parameter.KEYWORD_ONLY:
            name = f"--{parameter.name.rstrip('_').replace('_', '-')}"
            settings |= {"dest": parameter.name, "required": default is parameter.empty}
        else:
            name = parameter.name
        parser.add_argument(name, **settings | more)


def _path(text: str) -> Path:
    if not text:  # would be the current folder
        raise argparse.ArgumentTypeError("is empty")
    return Path(text)


def call(command: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a command with its parsed options."""
    return command(**{
        parameter.name: call(hint, values) if isinstance(hint, type) else values[parameter.name]
        for parameter, hint in _parameters(command)
    })  # fmt: skip


def listed(texts: Iterable[str], most: int = 20) -> str:
    """Quote distinct texts in one line, at most `most` of them."""
    quoted = [repr(text) for text in dict.fromkeys(texts)]
    return ", ".join(quoted[:most]) + (" …" if len(quoted) > most else "")


@contextmanager
def progress_bar(**settings: Any) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error after a second, if it is a terminal.

    Yields: a callback that moves it, called with (done, total) or (step name, done, total).
    """
    from tqdm import tqdm

    with tqdm(file=sys.stderr, **{"delay": 1, "disable": None} | settings) as bar:

        def report(*step: Any) -> None:
            *name, done, bar.total = step
            bar.update(done - bar.n)
            if name:
                bar.set_description(name[0])

        yield report


Part = TypeVar("Part")
Result = TypeVar("Result")

Dask = Annotated[
    str | None, "ADDRESS",
    "split the work among the workers of this Dask scheduler, such as tcp://HOST:8786; they need "
    "the same files at the same paths",
]  # fmt: skip

#: Lines of a file in one part.
LINES = 64


def spread(
    address: str | None, make: Callable[[Part], Result], parts: Iterable[Part]
) -> Iterator[Result]:
    """Yield `make(part)` for every part, in order.

    Parts go to a cluster a few at a time, so memory holds few. Dask makes the parts of a lost
    worker again on another; every part counts once.

    Args:
        address: of a Dask scheduler; None makes the parts in this process.
        make: a function of a module, or a partial one.

    Raises: `InputError` if there is no scheduler or its workers die; what `make` raises.
    """
    if address is None:
        yield from map(make, parts)
        return
    import distributed

    dask: Any = distributed

    try:
        client: Any = dask.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"--dask {address}: no scheduler answers ({error})") from None
    with client:
        remaining = iter(parts)
        waiting = deque(client.submit(make, part, pure=False) for part in islice(remaining, 8))
        while waiting:
            try:
                result: Result = waiting[0].result()
            except dask.KilledWorker as error:
                raise InputError(f"--dask {address}: {error}") from None
            waiting.popleft()
            ahead = max(8, 3 * sum(client.nthreads().values()))
            for part in islice(remaining, ahead - len(waiting)):
                waiting.append(client.submit(make, part, pure=False))
            yield result


@lru_cache(maxsize=1)
def opened(model: Model) -> tuple[Any, dict[str, Any]]:
    """Return a command's model, open once in each process, and its settings."""
    if isinstance(model, Steering):
        return model.open(of_kind(model.checkpoint, "checkpoint", "huggingface")), model.settings()
    return model.load(), {"beam_size": model.beam, "alpha": model.alpha}


def translated(model: Model, lines: Sequence[str]) -> "list[Translation]":
    """Translate one part of a file."""
    translator, settings = opened(model)
    done: list[Translation] = translator.translate(lines, **settings)
    return done


def whole_file(
    address: str | None, model: Model, lines: Sequence[str],
    show: Callable[[int, int], None] = lambda done, most: None,
) -> "list[Translation]":  # fmt: skip
    """Translate the lines of a file in parts, see `spread`.

    Args: show: called with (lines done, all lines).
    """
    model = replace(model, checkpoint=model.checkpoint.absolute())
    done: list[Translation] = []
    for some in spread(address, partial(translated, model), in_parts(lines)):
        done += some
        show(len(done), len(lines))
    return done


def in_parts(items: Iterable[Part]) -> Iterator[Sequence[Part]]:
    """Yield items in lists of at most `LINES`."""
    remaining = iter(items)
    while some := [*islice(remaining, LINES)]:
        yield some
