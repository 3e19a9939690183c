"""`show`: attention maps from a file of arrays, in the app or as a page.

Both are programs of their own: nothing here imports them, the command line starts them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

from transformer.commands.options import of_kind

#: The app, where the project's folder is there.
ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "HEADLIGHT_CHECKPOINTS"

#: Seconds that the app may take to answer, on a machine that is busy with other things.
_PATIENCE = 180


def show(
    file: Annotated[Path, "FILE.npz", "see docs/arrays.md; trace --out writes it"],
    *,
    html: Annotated[Path | None, "OUT.html", "write a page instead of starting the app"] = None,
    port: Annotated[int | None, "N", "where the app answers; default: free"] = None,
    open_: Annotated[bool, "open it in the browser"] = False,
) -> None:
    """Show attention maps from a file of arrays."""
    from transformer.errors import InputError
    from transformer.models.arrays.trace_file import load_arrays

    if port is not None and not 1 <= port <= 65_535:
        raise InputError(f"--port {port} is not a port; allowed are 1 to 65535")
    if file.is_dir():
        of_kind(file, "archive")
    if html is not None:
        if port is not None:
            raise InputError(f"--port {port} is for the app, which --html does not start")
        # Only a page whose file could be read comes into being; it says what is wrong by itself.
        command = [sys.executable, "-m", "headlight", str(file), str(html)]
        done = subprocess.run(command, env=_environment(), check=False)
        if done.returncode:
            raise SystemExit(done.returncode)
        if open_:
            webbrowser.open(html.resolve().as_uri())
        return
    load_arrays(file)  # says what is wrong before anything is started
    if not (ROOT / "app.py").is_file():
        raise InputError("the app is not installed here; --html OUT.html writes a page instead")
    _run_app(file, port or _free_port(), open_it=open_)


def _run_app(path: Path, port: int, *, open_it: bool) -> None:
    """Run the app on the file until Ctrl-C, or until it ends by itself."""
    named = (os.environ.get(VARIABLE) or str(ROOT / "checkpoints")).split(os.pathsep)
    others = [Path(each).resolve() for each in named if each.strip()]
    with _alone(path, others) as place:
        roots = os.pathsep.join(map(str, [*others, place.parent]))
        environment = _environment() | {VARIABLE: roots}
        command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py")]
        command += ["--server.headless=true", "--server.address=localhost", f"--server.port={port}"]
        address = f"http://localhost:{port}"
        # In its own process group, so that Ctrl-C ends it through us, once.
        app = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
        )
        with _ended(app):
            if not _answers(app, f"{address}/_stcore/health"):
                raise OSError(0, f"the app did not start on port {port}", str(path))
            page = f"{address}/attention?{urlencode({'checkpoint': place.name})}"
            print(f"{path.name} is shown at {page}")
            print("Ctrl-C ends it.", flush=True)
            if open_it:
                webbrowser.open(page)
            app.wait()


@contextmanager
def _alone(path: Path, others: Sequence[Path]) -> Iterator[Path]:
    """Yield the file in its own folder, under a name that no other root has."""
    name = path.name if path.suffix == ".npz" else f"{path.name}.npz"
    while any((root / name).exists() for root in others):
        name = f"shown-{name}"
    with tempfile.TemporaryDirectory(prefix="headlight-") as folder:
        place = Path(folder) / name
        try:
            os.link(path.resolve(), place)
        except OSError:  # on another disk
            shutil.copyfile(path, place)
        yield place


@contextmanager
def _ended(app: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the app when the block ends; Ctrl-C is the normal way out."""
    # A shell starts background processes with SIGINT ignored, so it is handled explicitly.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        app.terminate()
        try:
            app.wait(10)
        except subprocess.TimeoutExpired:
            app.kill()
            app.wait()


def _answers(app: subprocess.Popen[bytes], address: str) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and app.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=2):  # noqa: S310 - our own, on localhost
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False


def _environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(paths))


def _free_port() -> int:
    """Return 8501, the app's usual port, or any free one if it is taken."""
    for port in (8501, 0):
        with socket.socket() as tried:
            try:
                tried.bind(("localhost", port))
            except OSError:
                continue
            return int(tried.getsockname()[1])
    raise OSError(0, "no port is free", "localhost")
