"""A real server under faults: who is concerned reads one line, others notice nothing."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
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
def root(tmp_path: Path, tiny_checkpoint: Path) -> Path:
    """Two checkpoints, of which alpha suffers."""
    for name in ("alpha", "beta"):
        shutil.copytree(tiny_checkpoint, tmp_path / "root" / name)
    return tmp_path / "root"


def sentence(rng: random.Random, words: int = 7) -> str:
    return " ".join(rng.choices(WORDS, k=words)) + "."


@contextmanager
def faulty(
    root: Path, port: int = 0, environment: dict[str, str] | None = None
) -> Iterator[Server]:
    clock, log = root.with_name("clock"), root.with_name("log.txt")
    command = ["-m", "tests.pages.altered_server", "clock", str(clock)]
    temporary = root.with_name("temporary")
    temporary.mkdir(exist_ok=True)
    variables = {"TMPDIR": str(temporary), **(environment or {})}
    with serving(log, command, checkpoints=root, environment=variables, port=port) as server:
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


def is_there(log: Path) -> str:
    return log.read_text(errors="replace")


def _act(address: str, page: str, link: dict[str, str], over: threading.Event) -> None:
    """Use a page until the server is gone."""
    with (
        suppress(OSError, WebSocketException, AssertionError, TimeoutError),
        Session(address) as session,
    ):
        while not over.is_set():
            session.open(page, **link)
            session.rerun()


def _serves_another(address: str, rng: random.Random) -> None:
    """A visitor who comes afterwards notices nothing."""
    with Session(address) as session:
        session.open(checkpoint="alpha", sentence=sentence(rng))
        assert not notices(session)


def _ended(pids: list[int]) -> bool:
    return not any(map(runs, pids))


def test_a_killed_server_comes_back_and_so_does_every_view(root: Path, rng: random.Random) -> None:
    """Views come back from their links; nothing of the server stays, and its successor says so."""
    port, found = free_port(), Counter[str]()
    log = root.with_name("log.txt")
    for number in range(trials(3)):
        asked = sentence(rng)
        links = [
            {"sentence": asked, "checkpoint": "alpha"},
            {"sentence": asked, "checkpoint": "beta", "beam": "3", "step": "2"},
        ]
        with faulty(root, port) as server:
            trained = number % 3 == 0
            over = threading.Event()

            with ThreadPoolExecutor(4) as pool:
                for link, page in zip(links, ("", "attention"), strict=True):
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
            assert wait_until(partial(_ended, theirs), 300)
        with faulty(root, port) as server:
            said = "Removed training runs of a killed process" in is_there(log)
            assert said == trained and not list(root.with_name("temporary").glob("headlight-*"))
            found["training taken away"] += trained
            for link, page in zip(links, ("", "attention"), strict=True):
                with Session(server.address) as session:
                    session.open(page, **link)
                    assert not notices(session)
                    held = session._query
                    assert f"checkpoint={link['checkpoint']}" in held or "alpha" in link.values()
                    words = asked.split()[0]
                    assert words.encode() in session.received
                    found["views back"] += 1
        assert "Traceback" not in is_there(log)
    note(test="killed servers", trials=trials(3), seed=SEED, **found)


def test_a_killed_worker_is_one_line_and_others_notice_nothing(
    root: Path, rng: random.Random
) -> None:
    read: Counter[str] = Counter()
    done = Counter[str]()
    over = threading.Event()
    with faulty(root, environment={"HEADLIGHT_WORKERS": "1"}) as server:

        def visit(number: int) -> None:
            own = random.Random(f"{SEED} {number}")
            with Session(server.address) as session:
                session.open(checkpoint="beta" if number % 2 else "alpha")
                while not over.is_set():
                    session.type("Sentence", sentence(own, own.choice((4, 12, 90))), "Translate")
                    done["sentences"] += 1
                    for line in notices(session):
                        read[line] += 1

        with ThreadPoolExecutor(6) as pool:
            visits = [pool.submit(visit, number) for number in range(6)]
            killed = 0
            while killed < trials(4) and not any(each.done() for each in visits):
                time.sleep(rng.uniform(0, 0.6))
                for pid in children(server.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
            over.set()
            for each in visits:
                each.result()
        _serves_another(server.address, rng)
    note(test="killed workers", killed=killed, seed=SEED, sentences=done["sentences"], read=read)
    assert killed >= trials(4)
    assert all("the computing process was killed" in line for line in read), read
    assert read.total() <= killed
    assert "Traceback" not in is_there(root.with_name("log.txt"))


class Harm:
    """Ways in which a checkpoint in use may be changed."""

    def __init__(self, folder: Path, good: Path, tokenizer: Tokenizer) -> None:
        self.folder, self.good, self.tokenizer = folder, good, tokenizer

    def replace(self, rng: random.Random) -> None:
        config = ModelConfig(
            vocab_size=self.tokenizer.vocab_size, d_model=12, n_heads=3,
            d_ff=rng.choice((16, 24)), n_encoder_layers=1, n_decoder_layers=2,
        )  # fmt: skip
        save_checkpoint(self.folder, random_model(config), self.tokenizer)

    def remove(self, rng: random.Random) -> None:
        shutil.rmtree(self.folder)

    def remove_file(self, rng: random.Random) -> None:
        rng.choice([*self.folder.iterdir()]).unlink()

    def cut(self, rng: random.Random) -> None:
        file = rng.choice([*self.folder.iterdir()])
        os.truncate(file, rng.randrange(file.stat().st_size))

    def overwrite(self, rng: random.Random) -> None:
        """Write nonsense into a file without changing its size."""
        file = rng.choice([*self.folder.iterdir()])
        with open(file, "r+b") as out:
            out.seek(rng.randrange(file.stat().st_size))
            out.write(rng.randbytes(40)[: file.stat().st_size - out.tell()])

    def date(self, rng: random.Random) -> None:
        """Give the files other times, as a clock that jumps does."""
        for file in self.folder.iterdir():
            os.utime(file, (rng.choice((0, 4_000_000_000)),) * 2)

    def mend(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.good, self.folder)


def test_a_checkpoint_changed_in_use(
    root: Path, rng: random.Random, tiny_checkpoint: Path, tiny_tokenizer: Tokenizer
) -> None:
    harm = Harm(root / "alpha", tiny_checkpoint, tiny_tokenizer)
    ways: list[Callable[[random.Random], None]] = [
        harm.replace, harm.remove, harm.remove_file, harm.cut, harm.overwrite, harm.date,
    ]  # fmt: skip
    read: Counter[str] = Counter()
    done: Counter[str] = Counter()
    over = threading.Event()
    with faulty(root, environment={"HEADLIGHT_WORKERS": "1"}) as server:

        def visit(name: str, number: int) -> None:
            own = random.Random(f"{SEED} {name} {number}")
            with Session(server.address) as session:
                while not over.is_set():
                    page = own.choice(("", "attention", "beam", "tokens", "positions", "models"))
                    session.open(page, checkpoint=name, sentence=sentence(own))
                    done[name] += 1
                    said = notices(session)
                    if page != "models":
                        assert len(said) <= 1, said
                    assert not said or name == "alpha" or page == "models", said
                    for line in said:
                        read[line] += 1

        with ThreadPoolExecutor(4) as pool:
            visits = [
                pool.submit(visit, name, number) for name in ("alpha", "beta") for number in (0, 1)
            ]
            for number in range(trials(8)):
                ways[number % len(ways)](rng)
                time.sleep(rng.uniform(0, 0.5))
                harm.mend()
                time.sleep(rng.uniform(0, 0.3))
                if any(each.done() for each in visits):
                    break
            over.set()
            for each in visits:
                each.result()
        _serves_another(server.address, rng)
    note(test="changed checkpoints", trials=trials(8), seed=SEED, pages=done, read=read.total())
    assert all(CHANGED.search(line.replace("\\", "")) for line in read), read  # as shown
    assert "Traceback" not in is_there(root.with_name("log.txt"))


def test_the_clock_jumps(root: Path, rng: random.Random) -> None:
    clock = root.with_name("clock")
    clock.write_text("0")
    seen: list[str] = []
    with (
        faulty(root, environment={"HEADLIGHT_BUDGET_TOKENS": "1000000"}) as server,
        Session(server.address) as session,
        Session(server.address) as trainer,
    ):
        trainer.open("training", toy_updates="3000")
        trainer.press("Start")
        session.open(checkpoint="alpha")
        for _ in range(trials(6)):
            years = rng.uniform(-40, 60)
            clock.with_suffix(".new").write_text(f"{years * 365 * 86400:.0f}")
            clock.with_suffix(".new").replace(clock)
            session.type("Sentence", sentence(rng), "Translate")
            seen += notices(session)
            session.open(rng.choice(("attention", "beam", "models", "")), checkpoint="alpha")
            seen += notices(session)
            trainer.rerun()
            seen += notices(trainer)
    note(test="clock", trials=trials(6), seed=SEED, read=len(seen))
    assert not [line for line in seen if "import" not in line.lower()], seen
    assert "Traceback" not in is_there(root.with_name("log.txt"))
