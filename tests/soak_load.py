"""A class that uses the app without a pause: no errors, and memory stays flat after warm-up."""

import json
import statistics
import time
from pathlib import Path

import pytest

from benchmarks.load import Crowd, gather
from tests.pages.test_sessions import small_caches
from tests.servers import Server, children
from tests.soaking import LONG, SEED, note

pytestmark = pytest.mark.timeout(7200)

#: Visitors at once, seconds that each stays before another takes the place, seconds of warm-up and
#: of the whole.
VISITORS = 6
STAY, WARM, WHOLE = (45.0, 600.0, 1_800.0) if LONG else (10.0, 30.0, 60.0)

#: Bytes of the cache of results: it is full after warm-up, and so cannot hide what grows.
CACHE = 24 * 2**20

#: Most that memory may grow by after warm-up; a minute is too short to tell.
GROWTH = 1.05


def memory(server: Server) -> dict[str, float]:
    """Return the megabytes of a server and of its processes, shared pages by their share."""
    found = {"server": _share(server.pid)}
    found["workers"] = sum(map(_share, children(server.pid)))
    return found


def _share(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    (line,) = [each for each in lines if each.startswith("Pss:")]
    return int(line.split()[1]) / 1024


def test_memory_is_flat_under_load(tmp_path: Path) -> None:
    crowds: list[Crowd] = []
    samples: list[tuple[float, float, float]] = []
    with small_caches(tmp_path / "caches.json", CACHE) as server:
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < WHOLE:
            crowds.append(gather([server.address], VISITORS, STAY, seed=SEED + len(crowds)))
            now = memory(server)
            samples.append((passed, now["server"], now["workers"]))
        descriptors = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        threads = len(list(Path(f"/proc/{server.pid}/task").iterdir()))
    warm = [each[1] + each[2] for each in samples if each[0] >= WARM]
    part = max(1, len(warm) // 3)
    first, last = statistics.median(warm[:part]), statistics.median(warm[-part:])
    note(
        test="load", seconds=round(passed), visitors=VISITORS, visits=VISITORS * len(crowds),
        actions=sum(len(times) for each in crowds for times in each.seconds.values()),
        errors=sum(each.errors for each in crowds), megabytes_after_warm_up=round(first),
        megabytes_at_the_end=round(last), most=round(max(warm)), growth=round(last / first, 3),
        threads=threads, descriptors=descriptors,
        server=[round(each[1]) for each in samples], workers=[round(each[2]) for each in samples],
    )  # fmt: skip
    # The cache was in use and bounded; a new result lies beside those to be evicted.
    assert 0 < json.loads((tmp_path / "caches.json").read_text())["most"] < 1.1 * CACHE
    assert not any(each.errors for each in crowds)
    assert not LONG or last / first <= GROWTH
