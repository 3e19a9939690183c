"""Commands on one text: `trace` records its maps, `complete` continues it, `show` shows maps.

`show` starts the app or the page's writer as a separate program; nothing here imports them.
"""

import contextlib
import math
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
from typing import Annotated, Any
from urllib.parse import urlencode

from transformer.commands.options import Checkpoint, Device, Steering, listed, of_kind
from transformer.search.reader import unknown_text
from transformer.search.rules import Sampling
from transformer.types import InputError


def trace(
    *,
    model: Steering,
    src: Annotated[str, "TEXT", "the sentence"],
    tgt: Annotated[
        str | None, "TEXT", "follow this translation instead of searching for one"
    ] = None,
    top_k: Annotated[int, "N", "alternatives recorded per step"] = 10,
    cell: Annotated[
        str, "NAME", "beside the weights: norm, zeroing, contribution or effect of each edge"
    ] = "weight",
    out: Annotated[Path, "FILE.npz", "where to write the arrays"],
) -> None:
    """Record every attention map of one sentence."""
    from transformer.attribution.cells import measured
    from transformer.models.arrays.trace_file import npz_path, save_arrays
    from transformer.models.catalogue import describe
    from transformer.translator import Translator

    if tgt is not None and model.sample:
        raise InputError("--sample cannot be combined with --tgt, which is followed exactly")
    path = npz_path(out)
    ref = of_kind(model.checkpoint, "checkpoint", "one_stack", "huggingface")
    tracer = model.open(ref)
    entry = describe(ref)
    src = entry.prefixed(src, model.prefix_text)
    if note := entry.lacks_prefix(src) if not model.prefix_text else "":
        print(f"{note}; see --prefix-text", file=sys.stderr)
    settings = {name: value for name, value in model.settings().items() if value is not None}
    record = tracer.trace(src, target=tgt, top_k=top_k, **settings)
    measure: Any = cell
    cells = None if cell == "weight" else measured(tracer, record, measure).cells
    save_arrays(record, path, cells)
    unknown: tuple[str, ...] = ()
    if isinstance(tracer, Translator):
        unknown = unknown_text(tracer.tokenize(src))
        if tgt is not None:
            unknown += unknown_text(tracer.tokenize_target(tgt))
    if unknown:
        print(f"the model does not know {listed(unknown)}", file=sys.stderr)
    print(record.text)
    print(f"{path}: {len(record.src_tokens)} source tokens, {len(record.tgt_tokens)} steps")


def complete(
    text: Annotated[str, "TEXT", ""], *, checkpoint: Checkpoint,
    tokens: Annotated[int, "N", "continue by at most N tokens"] = 20,
    seed: Annotated[int | None, "N", "sample the tokens, with this seed"] = None,
    top_k: Annotated[int, "N", "guesses per [MASK]"] = 5, device: Device = "auto",
) -> None:  # fmt: skip
    """Continue a text with a one-stack model, or fill in its [MASK]."""
    from transformer.models.catalogue import open_tracer
    from transformer.models.one_stack.tracer import StackModel

    model = open_tracer(of_kind(checkpoint, "one_stack", "huggingface"), device)
    sampling = None if seed is None else Sampling(seed=seed)
    if not isinstance(model, StackModel):
        if "decoder_self" not in model.kinds or "encoder_self" in model.kinds:
            raise InputError(f"{checkpoint} does not continue texts; `trace` works with it")
        print(model.trace(text, beam_size=1, new_tokens=tokens, sampling=sampling).text)
    elif model.config.task == "fill":
        for gap in model.guesses(model.trace(text), top_k):
            shares = zip(gap.tokens, gap.log_probs, strict=True)
            guesses = ", ".join(f"{token} {100 * math.exp(value):.1f}%" for token, value in shares)
            print(f"{gap.position} {gap.token}: {guesses}")
    else:
        n_new = tokens if model.config.task == "continue" else 0
        print(model.trace(text, new_tokens=n_new, sampling=sampling).text)


#: The project's folder, which may contain the app.
ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "HEADLIGHT_CHECKPOINTS"

#: Seconds for the app to answer, on a busy machine.
_PATIENCE = 180


def show(
    file: Annotated[Path, "FILE.npz", "see docs/arrays.md; trace --out writes it"],
    *,
    html: Annotated[Path | None, "OUT.html", "write a page instead of starting the app"] = None,
    port: Annotated[int | None, "N", "port of the app; default: a free one"] = None,
    open_: Annotated[bool, "open it in the browser"] = False,
) -> None:
    """Show attention maps from an array file."""
    from transformer.models.arrays.trace_file import load_arrays

    if port is not None and not 1 <= port <= 65_535:
        raise InputError(f"--port {port} is not a port; expected 1 to 65535")
    if file.is_dir():
        of_kind(file, "archive")
    if html is not None:
        if port is not None:
            raise InputError(f"--port {port} is for the app, which --html does not start")
        command = [sys.executable, "-m", "headlight", str(file), str(html)]
        done = subprocess.run(command, env=_environment(), check=False)  # prints its own errors
        if done.returncode:
            raise SystemExit(done.returncode)
        if open_:
            webbrowser.open(html.resolve().as_uri())
        return
    load_arrays(file)  # reports errors before anything starts
    if not (ROOT / "app.py").is_file():
        raise InputError("the app is not installed here; --html OUT.html writes a page instead")
    _run_app(file, port or _free_port(), open_browser=open_)


def _run_app(path: Path, port: int, *, open_browser: bool) -> None:
    """Run the app on the file until Ctrl-C, or until it ends by itself."""
    roots = (os.environ.get(VARIABLE) or str(ROOT / "checkpoints")).split(os.pathsep)
    others = [Path(root).resolve() for root in roots if root.strip()]
    with _alone(path, others) as place:
        places = os.pathsep.join(map(str, [*others, place.parent]))
        environment = _environment() | {VARIABLE: places}
        command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py")]
        command += ["--server.headless=true", "--server.address=localhost", f"--server.port={port}"]
        address = f"http://localhost:{port}"
        # In its own process group, so that only this process handles Ctrl-C.
        app = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
        )
        with _ended(app):
            if not _answers(app, f"{address}/_stcore/health"):
                raise OSError(0, f"the app did not start on port {port}", str(path))
            page = f"{address}/attention?{urlencode({'checkpoint': place.name})}"
            print(f"{path.name} is shown at {page}")
            print("Ctrl-C ends it.", flush=True)
            if open_browser:
                webbrowser.open(page)
            app.wait()


@contextmanager
def _alone(path: Path, others: Sequence[Path]) -> Iterator[Path]:
    """Yield the file in its own folder, with a name that is unique among all roots."""
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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
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
    """Return 8501, the app's usual port, or any free port."""
    for port in (8501, 0):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("localhost", port))
            return int(candidate.getsockname()[1])
    raise OSError(0, "no port is free", "localhost")
