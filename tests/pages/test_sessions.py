import random
import string
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from figures.labels import query_labels
from tests.pages.session import PATIENCE, Session
from tests.servers import ROOT, serving
from transformer.trace.records import Trace
from transformer.translator import Translator

#: The smallest shipped checkpoint.
MODEL = "reverse-toy"

VISITORS = 4


def _sees(session: Session, trace: Trace) -> None:
    header, _ = session.message_to("headlight.player")
    assert tuple(header["source"]) == trace.src_tokens
    assert tuple(header["predicted"]) == trace.predicted_tokens


def test_everyone_sees_their_own_sentences(tmp_path: Path) -> None:
    model = Translator.load(ROOT / "checkpoints" / MODEL, device="cpu")
    source = random.Random(1)
    typed = [" ".join(source.choices(string.ascii_lowercase, k=9)) for _ in range(2 * VISITORS)]
    opened = [typed.pop() for _ in range(VISITORS)]
    traces = {each: model.trace(each) for each in (*opened, *typed)}
    start = threading.Barrier(VISITORS, timeout=PATIENCE)
    received: list[bytes] = [b""] * VISITORS

    def visit(index: int) -> None:
        with Session(address) as session:
            start.wait()
            session.open(checkpoint=MODEL, sentence=opened[index])
            received[index] += session.received
            _sees(session, traces[opened[index]])
            start.wait()
            session.type("Sentence", typed[index], "Reverse")
            received[index] += session.received
            _sees(session, traces[typed[index]])
        with Session(address) as session:
            start.wait()
            session.open("attention", checkpoint=MODEL, sentence=opened[index], kind="cross")
            received[index] += session.received
            grid = session.grid()
            assert tuple(grid["key_tokens"]) == traces[opened[index]].src_tokens
            assert tuple(grid["query_tokens"]) == query_labels(traces[opened[index]], "cross")

    with serving(tmp_path / "log") as (address, _), ThreadPoolExecutor(VISITORS) as pool:
        for done in [pool.submit(visit, each) for each in range(VISITORS)]:
            done.result(timeout=2 * PATIENCE)
    for index, seen in enumerate(received):
        for other in range(VISITORS):
            for each in (opened[other], typed[other]):
                assert (each.encode() in seen) == (other == index)
