"""The training objective, compiled for this machine if possible."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn
from tqdm import tqdm

log = logging.getLogger(__name__)


def compiled(
    objective: nn.Module, try_out: Callable[[nn.Module], None], *, show_progress: bool
) -> nn.Module:
    """Return the compiled objective; if that fails, log why and return the objective itself.

    Args:
        try_out: runs the objective forward and backward once, which is what compiles it.
    """
    made = cast(nn.Module, torch.compile(objective, dynamic=True))
    try:
        with _ticking("compiling for this machine, a minute or two", show_progress):
            try_out(made)
    except Exception as error:  # noqa: BLE001 - compilers and their drivers fail in any way
        log.warning("not compiled, so updates are slower: %s", _reason(error))
        return objective
    return made


def _reason(error: Exception) -> str:
    """Return one line that says why compiling failed."""
    headers = torch.__path__[0]
    if any(character.isspace() for character in headers):  # PyTorch does not quote include paths
        return f"PyTorch cannot compile from a folder with a space in its name: {headers}"
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


@contextmanager
def _ticking(what: str, shown: bool) -> Iterator[None]:
    """Show the elapsed seconds on standard error."""
    done = threading.Event()
    with tqdm(desc=what, bar_format="{desc}: {elapsed}", disable=not shown, leave=False) as bar:

        def tick() -> None:
            while not done.wait(1):
                bar.refresh()

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
