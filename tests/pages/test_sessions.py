"""Several visitors at once: all see their own sentences only; `make soak` has many more."""

import random
import string
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from figures.labels import query_labels
from tests.pages.session import PATIENCE, Session
from tests.servers import ROOT, Server, serving
from transformer.trace.records import Trace
from transformer.translator import Translator

#: The smallest shipped checkpoint.
MODEL = "reverse-toy"

#: Bytes for the cache of the server under test: two dozen sentences fill it.
CACHE_BYTES = 3 * 2**20


@contextmanager
def small_caches(file: Path, nbytes: int = CACHE_BYTES) -> Iterator[Server]:
    """The app with a cache of so many bytes, whose size `file` records, see altered_server.py."""
    command = ["-m", "tests.pages.altered_server", str(file), str(nbytes)]
    with serving(file.with_name("log.txt"), command) as running:
        yield running


def _sees(session: Session, trace: Trace) -> None:
    header, _ = session.message_to("headlight.player")
    assert tuple(header["source"]) == trace.src_tokens
    assert tuple(header["predicted"]) == trace.predicted_tokens


def check_isolation(address: str, count: int) -> None:
    """Check that each of `count` sessions at once is sent its own sentences only."""
    model = Translator.load(ROOT / "checkpoints" / MODEL, device="cpu")
    source = random.Random(1)
    opened, typed = (
        [" ".join(source.choices(string.ascii_lowercase, k=9)) for _ in range(count)] for _ in "ab"
    )
    traces = {each: model.trace(each) for each in (*opened, *typed)}
    start = threading.Barrier(count, timeout=PATIENCE)
    received: list[bytes] = [b""] * count

    def visit(index: int) -> None:
        with Session(address) as session:
            start.wait()
            session.open(checkpoint=MODEL, sentence=opened[index])
            received[index] += session.received
            _sees(session, traces[opened[index]])
            start.wait()
            session.type("Sentence", typed[index], "Translate")
            received[index] += session.received
            _sees(session, traces[typed[index]])
        with Session(address) as session:
            start.wait()
            session.open("attention", checkpoint=MODEL, sentence=opened[index], kind="cross")
            received[index] += session.received
            grid = session.grid()
            assert tuple(grid["key_tokens"]) == traces[opened[index]].src_tokens
            rows = query_labels(traces[opened[index]], "cross")
            assert tuple(grid["query_tokens"]) == rows

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(visit, each) for each in range(count)]:
            done.result(timeout=2 * PATIENCE)
    for index, seen in enumerate(received):
        for other in range(count):
            for each in (opened[other], typed[other]):
                assert (each.encode() in seen) == (other == index)


def test_everyone_sees_their_own_sentences(tmp_path: Path) -> None:
    with small_caches(tmp_path / "caches.json") as (address, _):
        check_isolation(address, 4)
