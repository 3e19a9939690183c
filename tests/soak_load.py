"""A class that uses the app without a pause: no errors, and memory stays flat after warm-up.

    python -m tests.soak_load BYTES [OPTIONS OF STREAMLIT]

is the app with a cache of so many bytes.
"""

import statistics
import sys
import time
from pathlib import Path

import pytest

from benchmarks.load import Crowd, gather, resident
from tests.servers import children, serving
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


def test_memory_is_flat_under_load(tmp_path: Path) -> None:
    crowds: list[Crowd] = []
    samples: list[tuple[float, float]] = []
    with serving(tmp_path / "log", ["-m", "tests.soak_load", str(CACHE)]) as (address, pid):
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < WHOLE:
            crowds.append(gather(address, VISITORS, STAY, seed=SEED + len(crowds)))
            samples.append((passed, sum(map(resident, (pid, *children(pid))))))
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    warm = [nbytes for seconds, nbytes in samples if seconds >= WARM]
    part = max(1, len(warm) // 3)
    first, last = statistics.median(warm[:part]), statistics.median(warm[-part:])
    note(
        test="load", seconds=round(passed), visitors=VISITORS, visits=VISITORS * len(crowds),
        actions=sum(len(times) for each in crowds for times in each.seconds.values()),
        errors=sum(each.errors for each in crowds), megabytes_after_warm_up=round(first),
        megabytes_at_the_end=round(last), most=round(max(warm)), growth=round(last / first, 3),
        threads=threads, descriptors=descriptors, megabytes=[round(each[1]) for each in samples],
    )  # fmt: skip
    assert not any(each.errors for each in crowds)
    assert not LONG or last / first <= GROWTH


if __name__ == "__main__":
    from streamlit.web import cli

    from ui.work import results

    results.CACHE.limit = int(sys.argv[1])
    sys.argv[:2] = ["streamlit", "run", "app.py"]
    cli.main()
