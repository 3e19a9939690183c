"""A real server that is killed: its successor shows every view again."""

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException

from tests.pages.session import Session
from tests.servers import Server, free_port, serving
from tests.soaking import SEED, note, trials
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(7200)

WORDS = ("the", "a", "cat", "dog", "sat", "ran", "on", "mat", "green", "grass", "two", "men")


@pytest.fixture
def rng() -> random.Random:
    return random.Random(SEED)


@pytest.fixture
def root(tmp_path: Path, tiny_checkpoint: Path) -> Iterator[Path]:
    """Two checkpoints; the log beside them has no traceback at the end."""
    (tmp_path / "temporary").mkdir()
    for name in ("alpha", "beta"):
        shutil.copytree(tiny_checkpoint, tmp_path / "root" / name)
    yield tmp_path / "root"
    assert "Traceback" not in (tmp_path / "log.txt").read_text(errors="replace")


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=7)) + "."


@contextmanager
def faulty(root: Path, port: int) -> Iterator[Server]:
    command = ["-m", "tests.pages.altered_server", str(root.with_name("caches")), str(320 * 2**20)]
    variables = {"TMPDIR": str(root.with_name("temporary"))}
    with serving(
        root.with_name("log.txt"), command, checkpoints=root, environment=variables, port=port
    ) as server:
        yield server


def children(pid: int) -> list[int]:
    """Return the processes that a process started, and theirs."""
    found: list[int] = []
    for task in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(task.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(task.parent.name))
    return found + [each for child in found for each in children(child)]


def _trains(pid: int) -> bool:
    """Return whether a thread of a process trains, at low priority; others trace sentences."""
    low = os.getpriority(os.PRIO_PROCESS, 0) + 10
    with suppress(OSError):
        threads = [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]
        return any(os.getpriority(os.PRIO_PROCESS, each) == min(19, low) for each in threads)
    return False


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def notices(session: Session) -> list[str]:
    """Return the lines that a visitor reads in boxes, but those on what a random model writes."""
    lines = [each.alert.body for each in session.elements if each.WhichOneof("type") == "alert"]
    return [line for line in lines if "length limit" not in line]


def _act(address: str, page: str, link: dict[str, str], over: threading.Event) -> None:
    with (
        suppress(OSError, WebSocketException, AssertionError, TimeoutError),
        Session(address) as session,
    ):
        while not over.is_set():
            session.open(page, **link)
            session.rerun()


def test_a_killed_server_comes_back_and_so_does_every_view(root: Path, rng: random.Random) -> None:
    """Views come back from their links; nothing of the server stays, and its successor says so."""
    port, found = free_port(), Counter[str]()
    log = root.with_name("log.txt")
    for number in range(trials(3)):
        asked = sentence(rng)
        links = {
            "": {"sentence": asked, "checkpoint": "alpha"},
            "attention": {"sentence": asked, "checkpoint": "beta", "beam": "3", "step": "2"},
        }
        trained, over = number % 3 == 0, threading.Event()
        with faulty(root, port) as server, ThreadPoolExecutor(4) as pool:
            for page, link in links.items():
                pool.submit(_act, server.address, page, link, over)
            try:
                if trained:
                    with Session(server.address) as session:
                        session.open("training", toy_updates="3000")
                        session.press("Start")
                        assert wait_until(lambda: any(map(_trains, children(server.pid))))
                theirs = children(server.pid)
                time.sleep(rng.uniform(0, 1.0))
                os.kill(server.pid, signal.SIGKILL)
            finally:
                over.set()
        assert wait_until(lambda theirs=theirs: not any(map(runs, theirs)), 300)  # type: ignore[misc]
        with faulty(root, port) as server:
            said = "Removed training runs of a killed process" in log.read_text(errors="replace")
            assert said == trained and not list(root.with_name("temporary").glob("headlight-*"))
            found["training taken away"] += trained
            for page, link in links.items():
                with Session(server.address) as session:
                    session.open(page, **link)
                    assert not notices(session)
                    assert f"checkpoint={link['checkpoint']}" in session._query or page == ""
                    assert asked.split()[0].encode() in session.received
                    found["views back"] += 1
    note(test="killed servers", trials=trials(3), seed=SEED, **found)
