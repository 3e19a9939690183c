"""All attention maps on screen: Headlight's grid against BertViz's `model_view`.

    python benchmarks/views.py [--tokens 30 64 128 512] [--json]

Both draw the same random tensors: 6+6 layers, 8 heads, encoder, decoder and cross-attention, as
many source as target tokens. Both open in a fresh window of the same Chromium, from a local server
that has its answer ready. Measured are

- bytes sent for all three kinds: BertViz's page, which contains them all; Headlight's messages
  until each kind is on screen. Libraries do not count (d3, jQuery and require.js; Streamlit).
- the first picture: from opening the URL until the first kind is drawn;
- a change: from the click on a kind that was not drawn before until it is drawn. Both sides have
  its weights in the page by then, Headlight up to `MOST_AT_ONCE` of them; beyond that it asks its
  server, as in the app.

Times are medians, taken in the page. A drawing gets `--timeout` seconds and the whole race
`--minutes`; a drawing that exceeds its limit is reported as longer, and the race goes on. Maps
above 128 tokens a side are shrunk for Headlight's grid, as in the app, by taking the largest weight
of each block; BertViz draws a line for every weight. BertViz loads its libraries from a CDN; here
they come from npm packages in `benchmarks/cache` (jQuery 2.1.0, since npm has no 2.0.0).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import BrowserContext, Page, Route, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.turns import ratio  # noqa: E402
from tests.browser.chromium import FLAGS, find_or_install  # noqa: E402
from tests.servers import serving  # noqa: E402

CACHE = ROOT / "benchmarks" / "cache"
KINDS = ("Encoder", "Decoder", "Cross")

#: BertViz's libraries: the file that it asks for, the npm package, and the file in it.
LIBRARIES = {
    "require.min.js": ("requirejs@2.3.6", "package/require.js"),
    "d3.min.js": ("d3@5.7.0", "package/dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.0", "package/dist/jquery.min.js"),
}

CONTESTANTS = ("bertviz", "headlight")

#: The last line of a race that cannot start.
NOT_FETCHED = "BertViz's libraries could not be fetched: npm is needed once, and a network"


class NoLibrariesError(RuntimeError):
    """BertViz's libraries are missing and could not be fetched."""


#: Script that runs in the page first.
WATCH = (ROOT / "benchmarks" / "pace.js").read_text("utf-8")


@dataclass(frozen=True)
class Result:
    """One contestant at one length."""

    sent: int | None = None  # bytes
    #: prepared, first, change: seconds; None if it did not get that far
    prepared: float | None = None
    first: float | None = None
    change: float | None = None
    failed: str = ""  # the reason of a failure, or ""
    waited: float | None = None  # time limit in seconds of a drawing that exceeded it


def make_tensors(
    tokens: int, layers: int, heads: int, seed: int = 0
) -> dict[str, NDArray[np.generic]]:
    """Return random attention [layers, heads, tokens, tokens] of each kind, and tokens."""
    rng = np.random.default_rng(seed)
    made: dict[str, NDArray[np.generic]] = {}
    for kind in KINDS:
        logits = 2 * rng.standard_normal((layers, heads, tokens, tokens), dtype=np.float32)
        if kind == "Decoder":
            logits[..., ~np.tri(tokens, dtype=bool)] = -np.inf
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        made[kind] = weights / weights.sum(axis=-1, keepdims=True)
    made["source"] = np.array([f"▁source{i}" for i in range(tokens)])
    made["target"] = np.array([f"▁target{i}" for i in range(tokens)])
    return made


def libraries() -> dict[str, Path]:
    """Return BertViz's libraries, fetched with npm if they are missing.

    Raises: `NoLibrariesError` if they cannot be fetched.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    missing = [package for name, (package, _) in LIBRARIES.items() if not (CACHE / name).exists()]
    if missing:
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            command = ["npm", "pack", "--silent", "--pack-destination", folder, *missing]
            try:
                subprocess.run(command, check=True, cwd=folder, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError) as error:
                raise NoLibrariesError(NOT_FETCHED) from error
            for archive in Path(folder).glob("*.tgz"):
                _unpack(archive)
    return {name: CACHE / name for name in LIBRARIES}


def _unpack(archive: Path) -> None:
    for name, (package, member) in LIBRARIES.items():
        if archive.name.startswith(package.replace("@", "-")):
            with tarfile.open(archive) as packed:
                content = packed.extractfile(member)
                assert content is not None
                partly = CACHE / f"{name}.part"
                partly.write_bytes(content.read())
                partly.rename(CACHE / name)


def bertviz_page(tensors: dict[str, NDArray[np.generic]]) -> str:
    """Return the page that `model_view` makes."""
    import torch
    from bertviz import model_view

    layers = {kind: [torch.from_numpy(layer[None]) for layer in tensors[kind]] for kind in KINDS}
    view = model_view(
        encoder_attention=layers["Encoder"],
        decoder_attention=layers["Decoder"],
        cross_attention=layers["Cross"],
        encoder_tokens=tensors["source"].tolist(),
        decoder_tokens=tensors["target"].tolist(),
        html_action="return",
    )
    return (
        f'<!doctype html><html><head><meta charset="utf-8"></head><body>{view.data}</body></html>'
    )


@contextmanager
def browser_context() -> Iterator[Callable[[], BrowserContext]]:
    """Yield a function that opens fresh windows of one Chromium."""
    path = find_or_install()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield lambda: chromium.new_context(viewport={"width": 1280, "height": 720})
        chromium.close()


def time_views(
    page: Page, who: str, address: str, names: tuple[str, ...],
    choose: Callable[[Page, str], None], timeout: float,
) -> tuple[float, list[float]]:  # fmt: skip
    """Return the seconds until the first kind is drawn, and of each change to another."""
    page.set_default_timeout(1000 * timeout)
    ready = {"bertviz": "lines", "headlight": "drawn"}[who]
    page.add_init_script(f"{WATCH}\npace.since(0, {json.dumps(ready)}, {json.dumps(names[0])});")
    page.goto(address, wait_until="commit")

    def seconds() -> float:
        page.wait_for_function("() => pace.took !== null", polling=20)
        return float(page.evaluate("() => pace.took")) / 1000

    first, changes = seconds(), []
    for name in names[1:]:
        page.evaluate("([ready, name]) => { pace.age(); pace.arm(ready, name); }", [ready, name])
        choose(page, name)
        changes.append(seconds())
    return first, changes


def race_bertviz(folder: Path, tokens: int, repeats: int, timeout: float) -> Iterator[Result]:
    """Yield BertViz's results, each more complete than the one before."""
    with np.load(folder / f"{tokens}.npz") as held:
        tensors = dict(held)
    bertviz_page(make_tensors(2, 1, 1))  # imports
    began = time.perf_counter()
    page_text = bertviz_page(tensors)
    prepared = time.perf_counter() - began
    path = folder / f"{tokens}.html"
    path.write_text(page_text, encoding="utf-8")
    del page_text, tensors
    known = Result(sent=path.stat().st_size, prepared=prepared)
    yield known
    scripts = libraries()

    def from_cache(route: Route) -> None:
        route.fulfill(path=scripts[route.request.url.rpartition("/")[2]])

    def choose(page: Page, value: str) -> None:
        page.select_option("#filter", value, no_wait_after=True)

    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/{tokens}.html"
    firsts, changes = [], []
    with browser_context() as window:
        for _ in range(repeats):
            context = window()
            for name in LIBRARIES:
                context.route(f"**/{name}", from_cache)
            page = context.new_page()
            first, changed = time_views(page, "bertviz", address, ("0", "1", "2"), choose, timeout)
            firsts.append(first)
            changes += changed
            context.close()
    server.shutdown()
    yield Result(known.sent, prepared, statistics.median(firsts), statistics.median(changes))


def race_headlight(folder: Path, tokens: int, repeats: int, timeout: float) -> Iterator[Result]:
    """Yield Headlight's results in the same way."""
    from ui.components.grid import grid_sheet

    with np.load(folder / f"{tokens}.npz") as held:
        tensors = dict(held)
    began = time.perf_counter()
    for kind in KINDS:
        grid_sheet(
            tensors[kind], tensors["target"].tolist(), tensors["source"].tolist(), label=kind
        )
    prepared = time.perf_counter() - began
    del tensors
    firsts, changes, sent = [], [], []

    def choose(page: Page, kind: str) -> None:
        page.get_by_role("radio", name=kind).click()

    script = ("-m", "streamlit", "run", "benchmarks/grid_app.py", str(folder))
    log = folder / "grid.log"
    with serving(log, script, fresh=True) as server, browser_context() as window:
        address = f"{server.address}/?tokens={tokens}"
        for visit in range(repeats + 1):
            context = window()
            page = context.new_page()
            received = [0]
            count = partial(_count, received)
            page.on("websocket", lambda socket, count=count: socket.on("framereceived", count))
            first, changed = time_views(page, "headlight", address, KINDS, choose, timeout)
            # The answer to the last change counts too.
            page.get_by_test_id("stCaptionContainer").get_by_text(KINDS[-1]).wait_for()
            context.close()
            if visit:  # the first visit warms the server; BertViz's page is ready too
                firsts.append(first)
                changes += changed
                sent.append(received[0])
    yield Result(
        int(statistics.median(sent)), prepared, statistics.median(firsts),
        statistics.median(changes),
    )  # fmt: skip


def _count(received: list[int], frame: str | bytes) -> None:
    received[0] += len(frame if isinstance(frame, bytes) else frame.encode())


RACES = {"bertviz": race_bertviz, "headlight": race_headlight}


def run_one(
    who: str, folder: Path, tokens: int, repeats: int, timeout: float, limit: float
) -> Result:
    """Run one contestant in its own process, which isolates memory and hangs.

    Args:
        timeout, limit: seconds for one drawing, and for all.
    """
    command = [
        sys.executable, str(Path(__file__).resolve()), "--one", who, "--folder", str(folder),
        "--tokens", str(tokens), "--repeats", str(repeats), "--timeout", str(timeout),
    ]  # fmt: skip
    log = folder / f"{who}-{tokens}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        late = False
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    results = [Result(**json.loads(line)) for line in output.splitlines() if line[:1] == "{"]
    known = results[-1] if results else Result()
    if late or process.returncode:
        said = log.read_text(errors="replace").strip().splitlines()
        timed_out = late or any("Timeout" in line for line in said[-15:])
        if timed_out:
            waited = min(timeout, limit)
            return replace(known, failed=f"> {waited:.0f} s", waited=waited)
        return replace(known, failed=f"failed ({said[-1][:120] if said else ''})")
    return known


def summary(results: dict[int, dict[str, Result]]) -> dict[str, Any]:
    """Return the JSON output: BertViz divided by Headlight, by number of tokens.

    If BertViz exceeded the time limit, the limit stands in for its time, which is longer.
    """
    ratios: dict[str, dict[str, float | None]] = {
        f"{name}_ratio": {} for name in ("bytes", "first", "change")
    }
    for tokens, by_name in results.items():
        bertviz, ours = by_name["bertviz"], by_name["headlight"]
        ratios["bytes_ratio"][str(tokens)] = ratio(bertviz.sent, ours.sent)
        for name in ("first", "change"):
            theirs = getattr(bertviz, name) or bertviz.waited
            ratios[f"{name}_ratio"][str(tokens)] = ratio(theirs, getattr(ours, name))
    works = {
        who: max((n for n, by_name in results.items() if not by_name[who].failed), default=0)
        for who in CONTESTANTS
    }
    measured = {
        str(tokens): {who: asdict(result) for who, result in by_name.items()}
        for tokens, by_name in results.items()
    }
    return {**ratios, "largest_length": works, "measured": measured}


def table(results: dict[int, dict[str, Result]]) -> str:
    ratios = summary(results)
    lines = [
        "| tokens | | sent for all maps | first picture | change of view |",
        "|---:|---|---:|---:|---:|",
    ]
    for tokens, by_name in results.items():
        for who, label in (("bertviz", "BertViz"), ("headlight", "Headlight")):
            result = by_name[who]
            sent = "-" if result.sent is None else f"{result.sent / 1e6:,.2f} MB"
            first, change = (
                result.failed or "-" if seconds is None else f"{seconds:.2f} s"
                for seconds in (result.first, result.change)
            )
            lines.append(f"| {tokens if who == 'bertviz' else ''} | {label} | {sent} | {first} | "
                         f"{change} |")  # fmt: skip
        times = []
        for name in ("bytes", "first", "change"):
            value = ratios[f"{name}_ratio"][str(tokens)]
            least = ">" if name != "bytes" and by_name["bertviz"].failed else ""
            times.append("" if value is None else f"**{least}{value:g} x**")
        lines.append(f"| | | {' | '.join(times)} |")
    works = ratios["largest_length"]
    lines.append("")
    lines.append(
        f"Largest length that works: BertViz {works['bertviz']}, Headlight {works['headlight']}."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[30, 64, 128, 512])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3, help="visits that count")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one drawing")
    parser.add_argument("--minutes", type=float, default=14, help="for the whole race")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--one", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        for result in RACES[given.one](given.folder, given.tokens[0], given.repeats, given.timeout):
            print(json.dumps(asdict(result)), flush=True)
        return
    ends = time.monotonic() + 60 * given.minutes
    try:
        libraries()
    except NoLibrariesError as error:
        sys.exit(str(error))
    results: dict[int, dict[str, Result]] = {}
    for tokens in given.tokens:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tensors = make_tensors(tokens, given.layers, given.heads)
            np.savez(folder / f"{tokens}.npz", **tensors)  # type: ignore[arg-type]
            del tensors
            results[tokens] = {}
            for who in reversed(CONTESTANTS):  # the contestant that may exceed the limit comes last
                print(f"{tokens} tokens, {who} ...", file=sys.stderr, flush=True)
                left = max(1.0, ends - time.monotonic())
                results[tokens][who] = run_one(
                    who, folder, tokens, given.repeats, given.timeout, left
                )
                print(f"    {results[tokens][who]}", file=sys.stderr, flush=True)
    print(table(results))
    if given.json:
        print(json.dumps(summary(results)))


if __name__ == "__main__":
    main()
