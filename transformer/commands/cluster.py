"""Parts of a whole file, made in turn or by the workers of a Dask cluster."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Annotated, Any, TypeVar

from transformer.commands.options import Model, Steering, of_kind
from transformer.search.records import Translation
from transformer.types import InputError

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
