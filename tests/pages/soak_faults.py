"""A real server under faults: who is concerned reads one line, others notice nothing."""

import os
import random
import re
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
from tests.tiny_models import random_model
from tests.waiting import wait_until
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer

pytestmark = pytest.mark.timeout(7200)

WORDS = ("the", "a", "cat", "dog", "sat", "ran", "on", "mat", "green", "grass", "two", "men")

#: What a visitor whose checkpoint is changed may read.
CHANGED = re.compile(
    r"changed since this page was drawn|is not here|cannot be used|changes while it is read|"
    r"changed while it was read|no such checkpoint folder|the file is missing|not valid|not UTF-8|"
    r"not a whole safetensors file|pieces, but|config\.json|tokenizer|tensor"
)


@pytest.fixture
def rng() -> random.Random:
    return random.Random(SEED)


@pytest.fixture
def root(tmp_path: Path, tiny_checkpoint: Path) -> Iterator[Path]:
    """Two checkpoints, of which alpha suffers; the log beside them has no traceback at the end."""
    (tmp_path / "temporary").mkdir()
    for name in ("alpha", "beta"):
        shutil.copytree(tiny_checkpoint, tmp_path / "root" / name)
    yield tmp_path / "root"
    assert "Traceback" not in (tmp_path / "log.txt").read_text(errors="replace")


def sentence(rng: random.Random, words: int = 7) -> str:
    return " ".join(rng.choices(WORDS, k=words)) + "."


@contextmanager
def faulty(root: Path, port: int = 0, **environment: str) -> Iterator[Server]:
    command = ["-m", "tests.pages.altered_server", str(root.with_name("caches")), str(320 * 2**20)]
    variables = {"TMPDIR": str(root.with_name("temporary")), **environment}
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


@contextmanager
def class_of(
    server: Server, visitors: int, read: Counter[str], done: Counter[str]
) -> Iterator[threading.Event]:
    """Visitors who open pages on either checkpoint until the event, or until one fails.

    Counts the lines that they read and the pages that they opened. Who comes afterwards notices
    nothing.
    """
    over = threading.Event()

    def visit(number: int) -> None:
        own, name = random.Random(f"{SEED} {number}"), ("alpha", "beta")[number % 2]
        try:
            with Session(server.address) as session:
                while not over.is_set():
                    page = own.choice(("", "", "attention", "beam", "tokens", "positions"))
                    words = sentence(own, own.choice((4, 12, 90)))
                    session.open(page, checkpoint=name, sentence=words)
                    done[name] += 1
                    said = notices(session)
                    assert len(said) <= 1, said
                    read.update(f"{name}: {line}" for line in said)
        finally:
            over.set()

    with ThreadPoolExecutor(visitors) as pool:
        visits = [pool.submit(visit, number) for number in range(visitors)]
        try:
            yield over
        finally:
            over.set()
        for each in visits:
            each.result()
    with Session(server.address) as session:
        session.open(checkpoint="alpha", sentence="the cat sat")
        assert not notices(session)


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


def test_a_killed_worker_is_one_line_for_its_visitor(root: Path, rng: random.Random) -> None:
    read, done, killed = Counter[str](), Counter[str](), 0
    with faulty(root, HEADLIGHT_WORKERS="1") as server, class_of(server, 6, read, done) as over:
        while killed < trials(4) and not over.is_set():
            time.sleep(rng.uniform(0, 0.6))
            for pid in children(server.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
    note(test="killed workers", killed=killed, seed=SEED, pages=done, read=read)
    assert killed >= trials(4)
    assert all("the computing process was killed" in line for line in read), read
    assert read.total() <= killed


def harm(folder: Path, tokenizer: Tokenizer, way: str, rng: random.Random) -> None:
    file = rng.choice([*folder.iterdir()])
    size = file.stat().st_size
    match way:
        case "replace":
            config = ModelConfig(
                vocab_size=tokenizer.vocab_size, d_model=12, n_heads=3,
                d_ff=rng.choice((16, 24)), n_encoder_layers=1, n_decoder_layers=2,
            )  # fmt: skip
            save_checkpoint(folder, random_model(config), tokenizer)
        case "remove":
            shutil.rmtree(folder)
        case "remove file":
            file.unlink()
        case "cut":
            os.truncate(file, rng.randrange(size))
        case "overwrite":  # nonsense, of the same size
            with open(file, "r+b") as out:
                out.seek(rng.randrange(size))
                out.write(rng.randbytes(40)[: size - out.tell()])
        case "date":  # as a clock that jumps does
            for each in folder.iterdir():
                os.utime(each, (rng.choice((0, 4_000_000_000)),) * 2)


def test_a_checkpoint_changed_in_use(
    root: Path, rng: random.Random, tiny_checkpoint: Path, tiny_tokenizer: Tokenizer
) -> None:
    read, done, folder = Counter[str](), Counter[str](), root / "alpha"
    ways = ("replace", "remove", "remove file", "cut", "overwrite", "date")
    with faulty(root, HEADLIGHT_WORKERS="1") as server, class_of(server, 4, read, done) as over:
        for number in range(trials(8)):
            harm(folder, tiny_tokenizer, ways[number % len(ways)], rng)
            time.sleep(rng.uniform(0, 0.5))
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(tiny_checkpoint, folder)
            time.sleep(rng.uniform(0, 0.3))
            if over.is_set():
                break
    note(test="changed checkpoints", trials=trials(8), seed=SEED, pages=done, read=read.total())
    for line in read:
        assert line.startswith("alpha") and CHANGED.search(line.replace("\\", "")), read  # as shown
