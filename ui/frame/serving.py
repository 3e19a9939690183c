"""Server start: app addresses, imports that take seconds, and the logo."""

import asyncio
import importlib
import logging
import threading
from base64 import b64encode
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from transformer.worker.process import WAITING
from ui.core.public import is_public
from ui.frame.import_access import invitation
from ui.hosting import gate, start
from ui.platform.session import drop_nested_messages, serve_every_address_by_the_app

#: Threads that wait for visitors' files; waiting is cheap.
_FILES = 256

#: Slow imports that do not use Streamlit, the most needed first. Altair fails while another
#: visitor's run is importing pandas.
_SLOW = ("transformer.translator", "pandas", "altair")


@asynccontextmanager
async def begin(app: Any) -> AsyncIterator[None]:
    """Adapt Streamlit to the app, import what is slow, and print the link for imports.

    Checkpoints are listed before the first visitor asks for them. A public server also loads the
    first model and starts a tracing process.
    """
    serve_every_address_by_the_app()
    drop_nested_messages()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_FILES, "file"))
    start.prepare()
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    if (line := invitation()) is not None:
        print(line, flush=True)  # noqa: T201 - for the person at the terminal
    yield


def _warm_up() -> None:
    for name in _SLOW:
        importlib.import_module(name)
    from ui.frame.page import all_pages
    from ui.work.results import WORKERS, entries

    all_pages()  # imports their modules
    entries()
    if is_public():
        gate.libraries.set()
        _load_first_model()
        # Beside many runs, a sentence traced in this process takes ten times as long.
        WORKERS.free(WAITING)


def _load_first_model() -> None:
    from transformer.device import available_devices
    from transformer.types import CheckpointError
    from ui.work.results import load, resolve

    entry, *_ = resolve("")
    if entry is None:
        gate.missing[:] = ["no checkpoint can be loaded"]
        return
    try:
        load(entry, available_devices()[0])
        gate.missing.clear()
    except (CheckpointError, MemoryError) as error:
        logging.getLogger(__name__).error("%s cannot be loaded: %s", entry.name, error)
        gate.missing[:] = [f"the first model cannot be loaded ({type(error).__name__})"]


@cache
def logo(name: str) -> str:
    """Return a logo file as a `data:` URI."""
    code = b64encode((Path(__file__).parent / f"logo/{name}.svg").read_bytes()).decode()
    return f"data:image/svg+xml;base64,{code}"
