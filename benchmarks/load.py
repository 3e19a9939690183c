"""Answer times, errors and resources of the app while many visitors use it at once.

    python benchmarks/load.py [--sessions 1 8 32] [--seconds 40]
    python benchmarks/load.py --hostile [ATTACK ...] --sessions 1 31 --seconds 12

Visitors are websockets with the default checkpoint. Each opens Translate and then, with pauses of
0.5 to 1.5 s to think, reruns the page (45%), translates a new sentence of 5 to 14 words (40%), or
opens another page (15%). One visitor alone is measured before the first crowd and after each, so
that the ratios hold on a machine whose pace changes. Reads `/proc`, so it needs Linux. The
visitors' own process runs on the same machine.

`--hostile` measures a fresh public server for each attack of `benchmarks.attacks`: visitors without
and with one attacker. One alone only translates; many think for 2 to 6 s.
"""

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from websockets.exceptions import WebSocketException  # noqa: E402

from benchmarks.attacks import ATTACKS, attacker  # noqa: E402
from benchmarks.turns import Figure, report  # noqa: E402
from tests.pages import session as sessions  # noqa: E402
from tests.pages.session import Session  # noqa: E402
from tests.servers import APP, children, serving  # noqa: E402

#: What a visitor does next, and how often out of 100.
MIX = {"rerun": 45, "sentence": 40, "page": 15}

PAGES = ("beam", "attention", "head", "tokens", "positions")

#: Seconds that a visitor thinks, from and to, in a lively class, and in one that reads.
THINK, READ = (0.5, 1.5), (2.0, 6.0)

#: Largest p95 of a new sentence among 32, in seconds, and of a rerun as a multiple of one alone.
MOST_SECONDS, MOST_TIMES = 3.0, 2.0

_SUBJECTS = ("my brother", "the teacher", "a little girl", "our neighbour", "the old man", "she")
_VERBS = ("reads", "buys", "sees", "wants", "likes", "finds", "needs", "sells")
_OBJECTS = ("a red car", "the big house", "two books", "some fresh bread", "an apple", "the dog")
_PLACES = ("in the garden", "at school", "in Berlin", "near the river", "at home", "on the bus")
_TIMES = ("today", "every morning", "on Sunday", "after dinner", "again", "this year")


@dataclass
class Crowd:
    """Measurements of simultaneous visitors."""

    #: answer times by kind of action
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: int = 0  # actions that failed
    lasted: float = 0.0  # seconds from the first action to the last answer

    @property
    def pace(self) -> float:
        """Actions a second."""
        return sum(map(len, self.seconds.values())) / self.lasted

    def percentile(self, kind: str, share: int) -> float:
        """Return the answer time below which `share` percent lie, in seconds; NaN without any."""
        times = self.seconds[kind]
        if len(times) < 2:
            return times[0] if times else float("nan")
        return statistics.quantiles(times, n=100, method="inclusive")[share - 1]


def sentence(rng: random.Random) -> str:
    """Return a sentence of 5 to 14 words that hardly ever comes twice."""
    parts = [rng.choice(_SUBJECTS), rng.choice(_VERBS), rng.choice(_OBJECTS)]
    parts += rng.sample([rng.choice(_PLACES), rng.choice(_TIMES)], rng.randint(1, 2))
    if rng.random() < 0.3:
        parts += ["and", rng.choice(_VERBS), rng.choice(_OBJECTS)]
    return f"{' '.join(parts).capitalize()} {rng.randint(2, 999)}."


def gather(
    address: str, count: int, seconds: float, seed: int, mix: Mapping[str, int] = MIX,
    think: tuple[float, float] = THINK, begin: Callable[[], object] | None = None,
) -> Crowd:  # fmt: skip
    """Simulate `count` visitors for some seconds.

    Args: mix, think: as `MIX` and `THINK`.  begin: called when all have come.
    """
    crowd, lock = Crowd(), threading.Lock()
    start = threading.Barrier(count, begin, timeout=600)
    began: list[float] = []

    def visit(number: int) -> None:
        rng = random.Random(1000 * seed + number)
        try:
            source = f"127.0.1.{1 + number}" if number < 250 else ""
            with Session(address, source) as session:
                session.open()
                start.wait()
                began.append(time.perf_counter())
                act(session, rng)
        except (AssertionError, OSError, WebSocketException, threading.BrokenBarrierError):
            start.abort()
            with lock:
                crowd.errors += 1

    def act(session: Session, rng: random.Random) -> None:
        end = time.perf_counter() + seconds
        time.sleep(rng.uniform(0, think[1]))
        at_home = True
        while time.perf_counter() < end:
            (kind,) = rng.choices([*mix], [*mix.values()])
            if kind == "sentence" and not at_home:
                session.open()
            at_home = kind != "page" and (at_home or kind == "sentence")
            asked = time.perf_counter()
            if kind == "rerun":
                session.rerun()
            elif kind == "page":
                session.open(rng.choice(PAGES))
            else:
                session.type("Sentence", sentence(rng), "Translate")
            with lock:
                crowd.seconds[kind].append(time.perf_counter() - asked)
            time.sleep(rng.uniform(*think))

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(visit, range(count)))
    crowd.lasted = time.perf_counter() - min(began, default=0.0)
    return crowd


def measure(counts: list[int], seconds: float) -> Iterator[Figure]:
    """Yield the figures of each crowd, one visitor alone between them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder, "log"), fresh=True) as (address, pid),
    ):
        gather(address, 1, 5, seed=0)  # loads the model
        alone = [gather(address, 1, seconds, seed=1)]
        for number, count in enumerate(counts, 2):
            crowd = gather(address, count, seconds, seed=number) if count > 1 else alone[-1]
            if count > 1:
                alone.append(gather(address, 1, seconds, seed=100 + number))
            for kind in MIX:
                for share in (50, 95, 99):
                    aim = MOST_SECONDS if (kind, share, count) == ("sentence", 95, 32) else None
                    name = f"{count}: {kind}, p{share}"
                    yield Figure(name, crowd.percentile(kind, share), aim, "s")
            yield Figure(f"{count}: actions a second", crowd.pace)
            yield Figure(f"{count}: errors", crowd.errors, 0)
            if count > 1:
                single = statistics.median(each.percentile("rerun", 95) for each in alone[-2:])
                ratio = crowd.percentile("rerun", 95) / single
                yield Figure(f"{count}: rerun, p95 to one alone", ratio, MOST_TIMES, "x")
            yield Figure(f"{count}: memory", resident(pid), None, "MB")
        single = statistics.median(each.percentile("sentence", 50) for each in alone)
        yield Figure("alone: sentence, p50", single, None, "s")


def endure(attack: str, counts: list[int], seconds: float) -> str:
    """Return a row of a table: visitors of a new public server without and with an attack."""
    cells, errors, ended = [attack], 0, 0
    command = [*APP, "--server.allowedHosts", "127.0.0.1"]
    public = {"HEADLIGHT_PUBLIC": "1", "HEADLIGHT_IMPORT": ""}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(log := Path(folder, "log"), command, fresh=True, environment=public) as server,
    ):

        def stay(count: int, begin: Callable[[], object] | None = None) -> Crowd:
            mix, think = ({"sentence": 1}, THINK) if count == 1 else (MIX, READ)
            seed = 2 * count + (begin is None)
            return gather(server.address, count, seconds, seed, mix, think, begin)

        gather(server.address, max(counts), 3, seed=0)  # loads the model and starts workers
        calm = [stay(count) for count in counts]  # first: a server may need long to recover
        for count, before in zip(counts, calm, strict=True):
            begin, cut = attacker(attack, server.address, seconds)
            after = stay(count, begin)
            ended += cut.value
            one, other = (each.percentile("sentence", 95) for each in (before, after))
            cells += [f"{one:.2f} s", f"{other:.2f} s", f"{other / one:.1f}"]
            errors += before.errors + after.errors
        memory = sum(resident(each, "VmHWM") for each in (server.pid, *children(server.pid)))
        log_bytes = log.stat().st_size
    cells += [f"{errors}", f"{memory:,.0f} MB", f"{log_bytes / 1e3:,.0f} kB", f"{ended:,}"]
    return f"| {' | '.join(cells)} |"


def resident(pid: int, what: str = "VmRSS") -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(f"{what}:"))
    return int(line.split()[1]) * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 8, 32], metavar="N")
    parser.add_argument("--seconds", type=float, default=40, help="that each crowd stays")
    parser.add_argument(
        "--hostile", nargs="*", choices=ATTACKS, metavar="ATTACK", help="all or some"
    )
    arguments = parser.parse_args()
    if arguments.hostile is not None:
        sessions.PATIENCE = 60
        columns = [f"{count}: without | with | times" for count in arguments.sessions]
        print("| attack |", " | ".join(columns), "| errors | memory | log | connections ended |")
        print("|---|", "---:|" * (3 * len(columns) + 4), sep="")
        for attack in arguments.hostile or ATTACKS:
            print(endure(attack, arguments.sessions, arguments.seconds), flush=True)
        return
    report(measure(arguments.sessions, arguments.seconds), as_json=False)


if __name__ == "__main__":
    main()
