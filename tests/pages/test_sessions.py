"""Many visitors at once, and many interactions: everyone sees their own, and memory has a bound.

Real sessions on a real server with the smallest shipped checkpoint, without a browser.
"""

from __future__ import annotations

import json
import random
import string
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.pages.session import PATIENCE, Session
from tests.servers import ROOT, serving
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS
from ui.core import url_state
from ui.work.lru import seal

N_SESSIONS = 32
N_INTERACTIONS = 1_000

#: Bytes for each of the two caches of the server under test: two dozen sentences fill the first.
CACHE_BYTES = 3 * 2**20

#: For a moment a cache holds what is new beside what has to go.
MOST_BYTES = 1.1 * CACHE_BYTES

#: Visits that do `N_INTERACTIONS` in all, and visits before them.
N_VISITS, N_WARM = 20, 3

#: What the server may grow by over `N_VISITS` after `N_WARM` others: three times what was
#: measured, and less than the traces of all sentences in them take.
GROWTH_BYTES = 32 * 2**20

MODEL = "reverse-toy"


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server writes what its caches hold."""
    return tmp_path_factory.mktemp("server") / "caches.json"


@pytest.fixture(scope="module")
def server(caches: Path) -> Iterator[tuple[str, int]]:
    """The app's address and process."""
    command = ["-m", "tests.pages.small_caches", str(caches), str(CACHE_BYTES)]
    with serving(caches.with_name("log.txt"), command, fresh=True) as running:
        yield running


@pytest.fixture(scope="module")
def model() -> Translator:
    return Translator.load(ROOT / "checkpoints" / MODEL, device="cpu")


def sentences(count: int, seed: int, letters: int = 9) -> list[str]:
    """So many different rows of letters."""
    source = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made[" ".join(source.choices(string.ascii_lowercase, k=letters))] = None
    return list(made)


def sees(session: Session, trace: Trace) -> None:
    """The player shows this sentence and its translation."""
    header, _ = session.message_to("headlight.player")
    assert tuple(header["source"]) == trace.src_tokens
    assert tuple(header["predicted"]) == trace.predicted_tokens


def together(work: Callable[[int], None]) -> None:
    """`work` of every session at once; the first error of any is raised."""
    with ThreadPoolExecutor(N_SESSIONS) as pool:
        for done in [pool.submit(work, each) for each in range(N_SESSIONS)]:
            done.result(timeout=2 * PATIENCE)


@pytest.mark.timeout(1200)
def test_32_sessions_at_once_see_their_own_sentences_only(
    server: tuple[str, int], caches: Path, model: Translator
) -> None:
    opened, typed = sentences(N_SESSIONS, seed=1), sentences(N_SESSIONS, seed=2)
    traces = {each: model.trace(each) for each in (*opened, *typed)}
    start = threading.Barrier(N_SESSIONS, timeout=PATIENCE)
    everything: list[bytes] = [b""] * N_SESSIONS

    def visit(index: int) -> None:
        with Session(server[0]) as session:
            look_around(session, index)

    def look_around(session: Session, index: int) -> None:
        def received() -> None:
            everything[index] += session.received

        start.wait()
        session.open(checkpoint=MODEL, sentence=opened[index])
        received()
        sees(session, traces[opened[index]])
        start.wait()
        session.type("Sentence", typed[index], "Translate")
        received()
        sees(session, traces[typed[index]])
        # Within this time an address from before is taken for the browser's late word.
        time.sleep(2 * url_state._SETTLING)
        start.wait()
        session.open("attention", checkpoint=MODEL, sentence=opened[index], kind="cross")
        received()
        grid = session.grid()
        assert tuple(grid["key_tokens"]) == traces[opened[index]].src_tokens
        assert tuple(grid["query_tokens"]) == traces[opened[index]].tgt_tokens

    together(visit)
    for index, seen in enumerate(everything):
        assert opened[index].encode() in seen and typed[index].encode() in seen
        for other in range(N_SESSIONS):
            if other != index:
                assert opened[other].encode() not in seen
                assert typed[other].encode() not in seen
    held = json.loads(caches.read_text())
    assert 0 < held["most"] < MOST_BYTES


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_is_bounded_over_1000_interactions(
    server: tuple[str, int], caches: Path, model: Translator
) -> None:
    address, pid = server
    fresh = iter(sentences(2 * N_INTERACTIONS, seed=4, letters=18))
    layers, heads = model.config.n_decoder_layers, model.config.n_heads

    def visit(seed: int) -> tuple[int, int]:
        """A new sentence on one page or another, then cells of its grid, one click each.

        Returns: how often something was done, and how many sentences were new.
        """
        source = random.Random(seed)
        done = traced = 0
        with Session(address) as session:
            while done < N_INTERACTIONS // N_VISITS:
                page = source.choice(("", "beam", "head", "attention", "attention", "attention"))
                session.open(page, checkpoint=MODEL, sentence=next(fresh))
                done, traced = done + 1, traced + 1
                if page == "":
                    session.type("Sentence", next(fresh), "Translate")
                    done, traced = done + 1, traced + 1
                for count in range(1, 9 if page == "attention" else 1):
                    layer = source.choice([None, *range(layers)])
                    head = source.choice([None, *range(heads)])
                    kind = source.choice(ATTENTION_KINDS)
                    session.hold("headlight.grid", count, [layer, head, [], kind])
                    done += 1
        return done, traced

    def visits(seeds: range) -> tuple[int, int]:
        """Two at a time: a server waits for each of its visitors between their messages."""
        with ThreadPoolExecutor(2) as pool:
            done, traced = zip(*pool.map(visit, seeds), strict=True)
        return sum(done), sum(traced)

    visits(range(N_WARM))
    before = resident(pid)
    done, traced = visits(range(N_WARM, N_WARM + N_VISITS))
    after = resident(pid)
    held = json.loads(caches.read_text())
    assert done >= N_INTERACTIONS
    assert traced * seal(model.trace(next(fresh))) > GROWTH_BYTES
    assert CACHE_BYTES / 2 < held["most"] < MOST_BYTES
    assert after - before < GROWTH_BYTES, held
