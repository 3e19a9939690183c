"""Processes that take turns, each idle between its tasks; figures beside their aims, and where
they were measured.

Libraries in one process would disturb each other: after a task, OpenMP's threads keep a processor
busy for a while, waiting for more.
"""

import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Process:
    """A library's process."""

    def __init__(
        self, name: str, script: str, folder: Path, threads: int, *options: object
    ) -> None:
        """Start a script with `--serve NAME`, which calls `answer`.

        Args: folder: of its log, passed on.  threads: of OpenMP, passed on.  options: further ones.
        """
        self.name = name
        self._log = (folder / f"{name}.log").open("w+")
        given = ("--serve", name, "--folder", folder, "--threads", threads, *options)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(script).resolve()), *map(str, given)], cwd=ROOT, text=True,
            env=dict(os.environ, OMP_NUM_THREADS=str(threads), HF_HUB_OFFLINE="1"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        self.tasks: list[str] = self._answer()

    def do(self, task: str) -> Any:
        """Request a task; return the answer, a JSON value."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"task": task}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(60)
            self._log.seek(0)
            sys.exit(f"{self.name} failed:\n{self._log.read()[-3000:]}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()


def answer(tasks: Iterable[str], do: Callable[[str], Any]) -> None:
    """Print the tasks, then the answer to each request on stdin, {"task": NAME}, until it ends."""
    print(json.dumps(sorted(tasks)), flush=True)
    for line in sys.stdin:
        print(json.dumps(do(json.loads(line)["task"])), flush=True)


def rounds(
    running: dict[str, Process], tasks: Sequence[str], number: int
) -> Iterator[tuple[str, str, Any]]:
    """Do every task in every process that has it, in turn; another one begins each round.

    Yields: the process's name, the task, and the answer.
    """
    items = list(running.items())
    for each in range(number):
        say(f"round {each + 1} of {number} ...")
        first = each % len(items)
        for task in tasks:
            for name, process in items[first:] + items[:first]:
                if task in process.tasks:
                    yield name, task, process.do(task)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def setting(*packages: str) -> str:
    """Return the day, the versions of PyTorch and of other packages, and this machine."""
    information = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"model name\s*: (.+)", information)
    versions = [f"{package} {version(package)}" for package in ("torch", *packages)]
    machine = model[1].strip() if model else platform.machine()
    day = datetime.now(UTC).date().isoformat()
    return f"{day}; {', '.join(versions)}; {processors()} cores of {machine}."


def missing(*modules: str) -> str:
    """Return a line that names a module that is not installed; empty if all are."""
    absent = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"{absent[0]} is missing; requirements-race.txt lists it" if absent else ""


def processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Figure(NamedTuple):
    """A measured value and its aim (None: no aim): the largest value aimed at, or the `least`."""

    name: str
    value: float
    aim: float | None = None
    unit: str = ""
    least: bool = False

    @property
    def verdict(self) -> str:
        """Return whether the aim was reached, in words; empty without an aim."""
        if self.aim is None:
            return ""
        reached = self.value >= self.aim if self.least else self.value <= self.aim
        bound = "at least" if self.least else "at most"
        return f"{bound} {self.aim:g}: {'reached' if reached else 'missed'}"


def report(figures: Iterable[Figure], as_json: bool, **more: Any) -> None:
    """Print each figure as it comes, as a row of a Markdown table, and then JSON on request.

    Args: more: further entries of the JSON.
    """
    print("| figure | value | aim |\n|---|---:|---|")
    found = {}
    for figure in figures:
        found[figure.name] = figure.value
        value = f"{figure.value:.3g} {figure.unit}".rstrip()
        print(f"| {figure.name} | {value} | {figure.verdict} |", flush=True)
    if as_json:
        print(json.dumps(found | more))
