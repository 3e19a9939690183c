"""All attention maps on screen: Headlight's grid against BertViz's `model_view`.

    python benchmarks/views.py [--tokens 30 64 128 512] [--json]

Both draw the same random tensors: 6+6 layers, 8 heads, encoder, decoder and cross-attention, as
many source as target tokens. Both open in a fresh window of the same Chromium, in turns, from a
local server that has its answer ready. Measured are

- bytes sent for all three kinds: BertViz's page, which contains them all; Headlight's messages
  until each kind is on screen. Libraries do not count (d3, jQuery and require.js; Streamlit).
- the first picture: from opening the URL until the first kind is drawn;
- a change: from the click on a kind that was not drawn before until it is drawn. Both sides have
  its weights in the page by then, Headlight up to `MOST_AT_ONCE` of them; beyond that it asks its
  server, as in the app.

Times are medians over visits, taken in the page. A drawing that exceeds `--timeout` ends the turns
of its contestant at that length. Maps above 128 tokens a side are shrunk for Headlight's grid, as
in the app, by taking the largest weight of each block; BertViz draws a line for every weight.
BertViz loads its libraries from a CDN; here they come from npm packages in `benchmarks/cache`
(jQuery 2.1.0, since npm has no 2.0.0), which need npm and a network the first time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Error, Page, Route, TimeoutError, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.turns import missing, say, setting  # noqa: E402
from tests.browser.chromium import FLAGS, find_or_install  # noqa: E402
from tests.servers import serving  # noqa: E402

CACHE = ROOT / "benchmarks" / "cache"
KINDS = ("Encoder", "Decoder", "Cross")

#: BertViz's libraries: the file that it asks for; the npm package, the file in it, its SHA-256.
LIBRARIES = {
    "require.min.js": (
        "requirejs@2.3.6", "package/require.js",
        "9485f0917f97fcf4f63a5ea365200ffd57f123f451382a2f9a1ad2e2fd51ac9b",
    ),
    "d3.min.js": (
        "d3@5.7.0", "package/dist/d3.min.js",
        "bdad5585ef9a965ff25458738309b006058c55f2c78d794d25fbecae35014609",
    ),
    "jquery.min.js": (
        "jquery@2.1.0", "package/dist/jquery.min.js",
        "8851e7844413ec986053d7d497ca932861b8622d2369bb291777329c2a713c72",
    ),
}  # fmt: skip

#: Tensors of one length: attention [layers, heads, queries, keys] by kind, and tokens.
Tensors = dict[str, NDArray[np.generic]]


class Visit(NamedTuple):
    """One visit: bytes received, seconds to the first kind, and median seconds of a change."""

    sent: float
    first: float
    change: float


def make_tensors(tokens: int, layers: int, heads: int, seed: int = 0) -> Tensors:
    """Return random attention of each kind and the tokens of `source` and `target`."""
    rng = np.random.default_rng(seed)
    made: Tensors = {}
    for kind in KINDS:
        logits = 2 * rng.standard_normal((layers, heads, tokens, tokens), dtype=np.float32)
        if kind == "Decoder":
            logits[..., ~np.tri(tokens, dtype=bool)] = -np.inf
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        made[kind] = weights / weights.sum(axis=-1, keepdims=True)
    for side in ("source", "target"):
        made[side] = np.array([f"▁{side}{i}" for i in range(tokens)])
    return made


def fetch_libraries() -> None:
    """Fill the cache with BertViz's libraries, by npm.

    Raises: `OSError` or `SubprocessError` if npm or a network is missing; `ValueError` if a file
        has another checksum.
    """
    CACHE.mkdir(exist_ok=True)
    for name, (package, member, digest) in LIBRARIES.items():
        if (CACHE / name).exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = ["npm", "pack", "--silent", package]
            subprocess.run(command, check=True, cwd=folder, capture_output=True, timeout=120)
            (archive,) = Path(folder).iterdir()
            with tarfile.open(archive) as packed:
                content = packed.extractfile(member)
                script = content.read() if content else b""
        if hashlib.sha256(script).hexdigest() != digest:
            raise ValueError(f"{package}: {member} has another checksum")
        (CACHE / name).write_bytes(script)


def bertviz_page(tensors: Tensors) -> str:
    """Return the page that `model_view` makes."""
    import torch
    from bertviz import model_view

    encoder, decoder, cross = (
        [torch.from_numpy(layer[None]) for layer in tensors[kind]] for kind in KINDS
    )
    source, target = tensors["source"].tolist(), tensors["target"].tolist()
    view = model_view(
        encoder_attention=encoder, decoder_attention=decoder, cross_attention=cross,
        encoder_tokens=source, decoder_tokens=target, html_action="return",
    )  # fmt: skip
    return (
        f'<!doctype html><html><head><meta charset="utf-8"></head><body>{view.data}</body></html>'
    )


def grid_page(file: Path) -> None:
    """Show the app's grid on the tensors of a file; `streamlit run` calls this.

    As in the app, the grid's message is made once and cached for all visitors, a choice reruns a
    fragment, and all kinds of map are sent together up to the app's limit.
    """
    import streamlit as st

    from ui.components.grid import MOST_AT_ONCE, Sheet, Tab, grid_component, grid_sheet
    from ui.components.mount import show

    st.set_page_config(layout="wide")

    @st.cache_resource
    def sheets(path: str) -> tuple[dict[str, Sheet], bool]:
        """Return the kinds of map, packed, and whether they are sent together."""
        with np.load(path) as tensors:
            source, target = tensors["source"].tolist(), tensors["target"].tolist()
            sides = {"Encoder": (source, source), "Decoder": (target, target)}
            maps = {kind: tensors[kind] for kind in KINDS}
        made = {
            kind: grid_sheet(maps[kind], *sides.get(kind, (target, source)), label=kind)
            for kind in KINDS
        }
        return made, sum(kind.size for kind in maps.values()) <= MOST_AT_ONCE

    @st.fragment
    def view(made: dict[str, Sheet], at_once: bool) -> None:
        chosen = st.session_state.get("kind", KINDS[0])
        tabs = {
            kind: Tab(kind, kind, made[kind] if at_once or kind == chosen else None)
            for kind in KINDS
        }
        component = grid_component(tabs, (None, None), chosen)
        show(component, key="grid", on_choose=choose)
        st.caption(chosen)

    def choose(choice: Any) -> None:
        st.session_state["kind"] = choice.kind

    view(*sheets(str(file)))


def time_views(page: Page, address: str, ready: str, names: tuple[str, ...]) -> tuple[float, float]:
    """Return the seconds to the first kind, and the median of the changes to the others.

    Args:
        ready: the function of pace.js that says whether a kind is drawn.
        names: of the kinds, for `ready`.
    """
    watch = (ROOT / "benchmarks" / "pace.js").read_text("utf-8")
    page.add_init_script(f"{watch}\npace.since(0, {json.dumps(ready)}, {json.dumps(names[0])});")
    page.goto(address, wait_until="commit")

    def seconds() -> float:
        page.wait_for_function("() => pace.took !== null", polling=20)
        return float(page.evaluate("() => pace.took")) / 1000

    first, changes = seconds(), []
    for name in names[1:]:
        page.evaluate("([ready, name]) => { pace.age(); pace.arm(ready, name); }", [ready, name])
        if ready == "lines":
            page.select_option("#filter", name, no_wait_after=True)
        else:
            page.get_by_role("radio", name=name).click()
        changes.append(seconds())
    return first, statistics.median(changes)


def visit_bertviz(page: Page, address: str, size: int) -> Visit:
    def from_cache(route: Route) -> None:
        route.fulfill(path=CACHE / route.request.url.rpartition("/")[2])

    for name in LIBRARIES:
        page.route(f"**/{name}", from_cache)
    return Visit(size, *time_views(page, address, "lines", ("0", "1", "2")))


def visit_headlight(page: Page, address: str) -> Visit:
    sizes: list[int] = []

    def count(frame: str | bytes) -> None:
        sizes.append(len(frame if isinstance(frame, bytes) else frame.encode()))

    page.on("websocket", lambda socket: socket.on("framereceived", count))
    first, change = time_views(page, address, "drawn", KINDS)
    # The answer to the last change counts too.
    page.get_by_test_id("stCaptionContainer").get_by_text(KINDS[-1]).wait_for()
    return Visit(sum(sizes), first, change)


class Result(NamedTuple):
    """A contestant at one length: medians over its visits."""

    sent: float  # bytes
    #: first, change: seconds, or the limit that a drawing exceeded
    first: float
    change: float
    failure: str = ""  # a failure in words, which stands in place of times


def race(tokens: int, layers: int, heads: int, repeats: int, timeout: float) -> dict[str, Result]:
    """Return the results of both contestants at one length."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        tensors = make_tensors(tokens, layers, heads)
        np.savez(folder / "tensors.npz", **tensors)  # type: ignore[arg-type]
        html = folder / "bertviz.html"
        html.write_text(bertviz_page(tensors), encoding="utf-8")
        del tensors
        quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
        handler = partial(quiet, directory=place)
        files = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        stack.callback(files.shutdown)
        threading.Thread(target=files.serve_forever, daemon=True).start()
        command = ("-m", "streamlit", "run", __file__, str(folder / "tensors.npz"))
        app = stack.enter_context(serving(folder / "grid.log", command, fresh=True)).address
        file_address = f"http://127.0.0.1:{files.server_address[1]}/{html.name}"
        size = html.stat().st_size
        contestants: dict[str, Callable[[Page], Visit]] = {
            "headlight": partial(visit_headlight, address=app),
            "bertviz": partial(visit_bertviz, address=file_address, size=size),
        }
        chromium, path = stack.enter_context(sync_playwright()).chromium, find_or_install()

        def visit(name: str) -> Visit:
            # A page that hangs ends with its browser.
            browser = chromium.launch(executable_path=path, args=list(FLAGS))
            try:
                page = browser.new_page(viewport={"width": 1280, "height": 720})
                page.set_default_timeout(1000 * timeout)
                return contestants[name](page)
            finally:
                browser.close()

        visit("headlight")  # the server imports and packs; BertViz's page is ready too
        visits: dict[str, list[Visit]] = {name: [] for name in contestants}
        failures: dict[str, Result] = {}
        for number in range(repeats):
            for name in [name for name in contestants if name not in failures]:
                say(f"{tokens} tokens, visit {number + 1} of {repeats}, {name} ...")
                try:
                    visits[name].append(visit(name))
                except TimeoutError:
                    failures[name] = Result(size, timeout, timeout, f"> {timeout:.0f} s")
                except Error as error:
                    say(str(error))
                    failures[name] = Result(size, timeout, timeout, "failed")
    return {
        name: failures.get(name) or Result(*map(statistics.median, zip(*visits[name], strict=True)))
        for name in contestants
    }


def ratios(bertviz: Result, headlight: Result) -> dict[str, float]:
    """Return BertViz divided by Headlight, to three digits: bytes sent and both times."""
    names = ("sent", "first", "change")
    return {
        name: float(f"{getattr(bertviz, name) / getattr(headlight, name):.3g}") for name in names
    }


def table(results: dict[int, dict[str, Result]]) -> str:
    """Return a row for each contestant at each length, and one with their ratios."""
    lines = [
        "| tokens | | sent for all maps | first picture | change of view |",
        "|---:|---|---:|---:|---:|",
    ]
    for tokens, result in results.items():
        for name, label in (("bertviz", f"{tokens} | BertViz"), ("headlight", " | Headlight")):
            sent, first, change, failure = result[name]
            times = [failure or f"{seconds:.2f} s" for seconds in (first, change)]
            lines.append(f"| {label} | {sent / 1e6:,.2f} MB | {' | '.join(times)} |")
        by = {name: f"{ratio:g} x" for name, ratio in ratios(**result).items()}
        least = ">" if result["bertviz"].failure else ""
        times = [f"**{least}{by[name]}**" for name in ("first", "change")]
        lines.append(f"| | | **{by['sent']}** | {' | '.join(times)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[30, 64, 128, 512])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3, help="visits of each contestant")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one drawing")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("page", type=Path, nargs="?", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.page:
        grid_page(given.page)
        return
    if absent := missing("bertviz", "IPython"):
        sys.exit(absent)
    try:
        fetch_libraries()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        sys.exit(f"BertViz's libraries could not be fetched by npm: {error}")
    results = {
        tokens: race(tokens, given.layers, given.heads, given.repeats, given.timeout)
        for tokens in given.tokens
    }
    print(setting("bertviz", "streamlit", "playwright"), "\n")
    print(table(results))
    if given.json:
        print(json.dumps({tokens: ratios(**result) for tokens, result in results.items()}))


if __name__ == "__main__":
    main()
