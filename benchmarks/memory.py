"""Growth of a server's memory over 1,000 interactions, and its answers to many visitors at once.

    python benchmarks/memory.py [--interactions 1000] [--sessions 32] [--json]

The server's cache is limited to 3 MB and full after the first visits, so later growth is a leak.
Visitors are websockets that translate new sentences on the smallest shipped checkpoint and click
the cells of their grids. The sessions open the same page at the same moment. Reads `/proc`, so it
needs Linux.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.aims import Figure, report  # noqa: E402
from tests.pages.session import Session  # noqa: E402
from tests.pages.visits import MODEL, Clicks, sentences, small_caches  # noqa: E402
from transformer.translator import Translator  # noqa: E402

#: Interactions of one visit, and those before the first measurement.
PER_VISIT, WARM = 50, 150


def resident(pid: int) -> float:
    """Return a process's resident memory in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / 1e6


def growth(address: str, pid: int, interactions: int) -> float:
    """Return by how many megabytes the server grows over a number of interactions."""
    clicks = Clicks(address, Translator.load(ROOT / "checkpoints" / MODEL, device="cpu"))
    while clicks.done < WARM:
        clicks.visit(clicks.done, PER_VISIT)
    before = resident(pid)
    end = clicks.done + interactions
    while clicks.done < end:
        clicks.visit(clicks.done, PER_VISIT)
    return resident(pid) - before


def slowest_answer(address: str, count: int) -> float:
    """Return the seconds until the last of `count` sessions shows its new sentence."""
    start = threading.Barrier(count, timeout=120)

    def visit(sentence: str) -> float:
        with Session(address) as session:
            start.wait()
            began = time.perf_counter()
            session.open(checkpoint=MODEL, sentence=sentence)
            return time.perf_counter() - began

    with ThreadPoolExecutor(count) as pool:
        return max(pool.map(visit, sentences(count, seed=9)))


def measure(interactions: int, sessions: int) -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory() as folder,
        small_caches(Path(folder) / "caches.json") as (address, pid),
    ):
        grown = growth(address, pid, interactions)
        yield Figure(f"growth over {interactions} interactions", grown, 32, "MB")
        yield Figure(f"slowest of {sessions} sessions", slowest_answer(address, sessions), 10, "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--interactions", type=int, default=1_000)
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    arguments = parser.parse_args()
    report(measure(arguments.interactions, arguments.sessions), arguments.json)


if __name__ == "__main__":
    main()
