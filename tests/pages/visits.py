"""Visitors of a running app: many at once, each with their own sentences; and many clicks."""

from __future__ import annotations

import random
import string
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from figures.labels import query_labels
from tests.pages.session import PATIENCE, Session
from tests.servers import Server, serving
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS

#: The smallest shipped checkpoint.
MODEL = "reverse-toy"

#: Bytes for the cache of the server under test: two dozen sentences fill it.
CACHE_BYTES = 3 * 2**20

#: For a moment the cache holds a new result beside those about to be evicted.
MOST_BYTES = 1.1 * CACHE_BYTES


@contextmanager
def small_caches(file: Path, nbytes: int = CACHE_BYTES) -> Iterator[Server]:
    """The app with a cache of so many bytes, whose size `file` records, see altered_server.py."""
    command = ["-m", "tests.pages.altered_server", "cache", str(file), str(nbytes)]
    with serving(file.with_name("log.txt"), command) as running:
        yield running


def sentences(count: int, seed: int, letters: int = 9) -> list[str]:
    """Return different rows of letters."""
    source = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made[" ".join(source.choices(string.ascii_lowercase, k=letters))] = None
    return list(made)


def _sees(session: Session, trace: Trace) -> None:
    """Check that the player shows this sentence and its translation."""
    header, _ = session.message_to("headlight.player")
    assert tuple(header["source"]) == trace.src_tokens
    assert tuple(header["predicted"]) == trace.predicted_tokens


def check_isolation(address: str, model: Translator, count: int) -> None:
    """Check that each of `count` sessions at once is sent its own sentences only."""
    opened, typed = sentences(count, seed=1), sentences(count, seed=2)
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


class Clicks:
    """Visits that translate new sentences and click cells of their grids."""

    def __init__(self, address: str, model: Translator) -> None:
        self._address, self._model = address, model
        self._fresh = iter(sentences(100_000, seed=4, letters=18))
        #: Interactions so far.
        self.done = 0

    def visit(self, seed: int, interactions: int) -> None:
        """Translate a new sentence, then click cells of its grid."""
        source = random.Random(seed)
        layers, heads = self._model.config.n_decoder_layers, self._model.config.n_heads
        end = self.done + interactions
        with Session(self._address) as session:
            while self.done < end:
                page = source.choice(("", "beam", "head", "attention", "attention", "attention"))
                session.open(page, checkpoint=MODEL, sentence=next(self._fresh))
                self.done += 1
                if page == "":
                    session.type("Sentence", next(self._fresh), "Translate")
                    self.done += 1
                for count in range(1, 9 if page == "attention" else 1):
                    layer = source.choice([None, *range(layers)])
                    head = source.choice([None, *range(heads)])
                    kind = source.choice(ATTENTION_KINDS)
                    session.hold("headlight.grid", count, [layer, head, [], kind])
                    self.done += 1
