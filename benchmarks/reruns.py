"""Count the cost of a rerun of the app: forward passes, folder scans, keys, jobs, bytes.

    python benchmarks/reruns.py [--tree DIR] [--checkpoints DIR] [--json]

Every page is opened, rerun with nothing changed, and given a new sentence, in Streamlit's own test
runner, with the shipped checkpoints or those of another folder. Counts do not depend on the
machine, so two trees are compared by two runs: `--tree` counts in another checkout.

    forward passes   calls of the encoder and of the decoder, reference and fast; a new sentence
                     takes one, one a step, and two to check the recorded maps
    scans            folders below checkpoints/ that are listed, a listing of all of them included
    marks            fingerprints made of a checkpoint's files
    keys             records made that name a trace
    jobs             background threads started
    bytes            of all messages that the browser is sent
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: URL paths of the pages that show a model; the first page's is empty.
PAGES = ("", "beam", "attention", "head", "tokens", "positions", "compare")

#: Largest counts aimed at for one model: with nothing changed, and with a new sentence.
AIMS = {"again": {"forward passes": 0, "keys": 1, "jobs": 0}, "sentence": {"keys": 1, "jobs": 1}}

#: Functions and methods that are counted under a name, by module.
_COUNTED = {
    "forward passes": (
        ("transformer.model", "Transformer.encode"),
        ("transformer.model", "Transformer.decode"),
        ("transformer.fast.packed", "PackedEncoder.encode"),
        ("transformer.fast.steps", "PackedSteps.__call__"),
    ),
    "marks": (("transformer.checkpoint.reference", "fingerprint"),),
    "keys": (("ui.core.view", "Request.__init__"),),
}

_counts: Counter[str] = Counter()


def count(root: Path) -> None:
    """Start counting in this process; `root` is the folder of checkpoints."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.scandir", "os.listdir") and str(arguments[0]).startswith(str(root)):
            _counts["scans"] += 1

    sys.addaudithook(heard)
    for name, sources in _COUNTED.items():
        for module, what in sources:
            _wrap(name, module, what)
    start = threading.Thread.start

    def starting(thread: threading.Thread) -> None:
        _counts["jobs"] += thread.name == "headlight-job"
        start(thread)

    threading.Thread.start = starting  # type: ignore[method-assign]
    from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

    enqueue = ForwardMsgQueue.enqueue

    def queued(queue: ForwardMsgQueue, message: Any) -> None:
        _counts["bytes"] += message.ByteSize()
        enqueue(queue, message)

    ForwardMsgQueue.enqueue = queued  # type: ignore[method-assign]


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Yield the counts of the block, complete at its end."""
    before, found = _counts.copy(), Counter[str]()
    yield found
    names = ("forward passes", "scans", "marks", "keys", "jobs", "bytes")
    found.update({name: _counts[name] - before[name] for name in names})


def _wrap(name: str, module: str, what: str) -> None:
    """Count the calls of a function or method, in every module that imported it."""
    holder, _, attribute = what.rpartition(".")
    home = importlib.import_module(module)
    owner = getattr(home, holder) if holder else home
    original = getattr(owner, attribute)

    @wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        _counts[name] += 1
        return original(*args, **options)

    setattr(owner, attribute, call)
    for other in list(sys.modules.values()):  # those that imported it by its name
        if getattr(other, attribute, None) is original:
            setattr(other, attribute, call)


def open_page(tree: Path, at: str) -> Any:
    """Return the app of a tree at a page's URL, before its first run."""
    from streamlit.testing.v1 import AppTest
    from streamlit.util import calc_hash

    app = AppTest.from_file(str(tree / "app.py"), default_timeout=600)
    if at:
        app._page_hash = calc_hash(at)
        app.session_state["headlight_started"] = True
    return app


def say(app: Any, sentence: str) -> Any:
    app.sidebar.text_area(key="sentence_box").set_value(sentence)
    return app.sidebar.button[0].click()


def costs(tree: Path, at: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    app = open_page(tree, at)
    steps = {
        "opening": app.run,
        "again": app.run,
        "sentence": lambda: say(app, f"Two dogs run through the {at or 'first'} garden.").run(),
    }
    for name, step in steps.items():
        with counted() as counts:
            step()
        assert not app.exception, app.exception
        found[name] = dict(counts)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--checkpoints", type=Path, help="default: those of the tree")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    tree = given.tree.resolve()
    sys.path[0] = str(tree)
    os.chdir(tree)
    root = (given.checkpoints or tree / "checkpoints").resolve()
    os.environ["HEADLIGHT_CHECKPOINTS"] = str(root)
    for page in (tree / "ui").rglob("*.py"):  # all that may hold a name that is counted
        name = ".".join(page.relative_to(tree).with_suffix("").parts)
        importlib.import_module(name.removesuffix(".__init__"))
    count(root)
    found = {at or "translate": costs(tree, at) for at in PAGES}
    n_checkpoints = sum(each.is_dir() for each in root.iterdir())
    if given.json:
        print(json.dumps({"checkpoints": n_checkpoints, "aims": AIMS, "pages": found}, indent=1))
        return
    names = list(next(iter(found.values()))["again"])
    print(f"{n_checkpoints} checkpoints")
    print(f"{'page':11}{'run':10}" + "".join(f"{name:>16}" for name in names))
    for page, runs in found.items():
        for run, counts in runs.items():
            print(f"{page:11}{run:10}" + "".join(f"{counts[name]:16,}" for name in names))
    for run, aims in AIMS.items():
        print(f"{'aim':11}{run:10}" + "".join(f"{aims.get(name, '-'):>16}" for name in names))


if __name__ == "__main__":
    main()
