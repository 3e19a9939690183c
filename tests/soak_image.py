"""The Dockerfile's steps in a fresh root, then its server as `deploy/compose.yaml` runs it.

Needs root, debootstrap, a package index and a CPU build of torch; skipped, with the reason, where
one of them is missing. The figures say what was run of each instruction, and what was not.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from tests.forks import ROOT
from tests.image.build import Build, Image
from tests.image.context import Context
from tests.image.dockerfile import Instruction, read
from tests.image.limits import group, size
from tests.image.root import (
    As,
    OutOfReachError,
    first_of,
    fresh_root,
    join,
    keep_in_memory,
    run,
    start,
)
from tests.soaking import note
from tests.waiting import wait_until

#: HOST of the compose file: the only name that leads to a network without any other machine.
NAME = "localhost"

#: What is taken from the compose file; the rest needs its engine.
APPLIED = {
    "command", "environment", "read_only", "tmpfs", "cap_drop", "security_opt", "ulimits",
}  # fmt: skip

#: The same, where this machine lets its root limit what processes use.
LIMITS = {"mem_limit", "cpus", "pids_limit"}

#: Seconds for a start and for a stop; a container is killed ten seconds after it was told to stop.
START, STOP = 120, 10


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is removed at once: roots are large, and pytest keeps its own."""
    with tempfile.TemporaryDirectory() as made:
        mounted = keep_in_memory(Path(made))
        yield Path(made)
        if mounted:
            subprocess.run(["umount", made], check=True)


def test_the_dockerfile_in_a_fresh_root(folder: Path) -> None:
    instructions = read((ROOT / "Dockerfile").read_text("utf-8"))
    service = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))["services"]
    log = folder / "log.txt"
    log.touch()
    try:
        image = build(instructions, folder, log)
    except OutOfReachError as error:
        pytest.skip(str(error))
    assert find(image, "cc", "gcc", "c++", "make") == []
    serve(image, service["headlight"], log)


def test_a_group_holds_what_is_in_it_to_its_limits() -> None:
    with group(memory=size("64m"), processors=0.5, processes=20) as within:
        if within is None:
            pytest.skip("only root, where control groups are mounted, may limit processes")

        def status(program: str) -> int:
            joined = [f"echo $$ > {each / 'cgroup.procs'}" for each in within.folders]
            script = "\n".join([*joined, 'exec "$0" -c "$1"'])
            command = ["sh", "-eu", "-c", script, sys.executable, program]
            return subprocess.run(command, check=False, capture_output=True).returncode

        assert status("x = bytearray(8 << 20)") == 0 and within.killed() == 0
        assert status("x = bytearray(256 << 20)") == -signal.SIGKILL and within.killed() == 1
        threads = "import threading, time\nfor n in range({}):\n    threading.Thread("
        threads += "target=time.sleep, args=[1], daemon=True).start()"
        assert status(threads.format(10)) == 0
        assert status(threads.format(30)) == 1  # "can't start new thread"
        assert 20 >= within.most_processes() > 10 and within.most_memory() <= size("64m")


def build(instructions: list[Instruction], folder: Path, log: Path) -> Image:
    """Follow the instructions. Raises: `OutOfReachError`."""
    began = time.monotonic()
    base = folder / "base"
    fresh_root(base, release_of(instructions))
    note(root=release_of(instructions), seconds=round(time.monotonic() - began, 1))
    with index_of_torch(folder / "index", python_of(base, log)) as address:
        work = Build(Context(ROOT), base, folder, {"TORCH_INDEX": address}, log)
        try:
            return work.follow(instructions)
        finally:
            for step in work.steps:
                note(instruction=step.instruction, done=step.done, seconds=round(step.seconds, 1))


def serve(image: Image, service: Mapping[str, Any], log: Path) -> None:
    """Let the server live its life as the compose file says, within its limits."""
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    most = size(service["mem_limit"])
    with group(
        memory=most, processors=service["cpus"], processes=service["pids_limit"]
    ) as within:  # fmt: skip
        note(not_applied=sorted(set(service) - APPLIED - (LIMITS if within else set())))
        how = As(
            image.user, image.folder, {**image.environment(), **service["environment"]},
            tmpfs=dict(each.split(":", 1) for each in service["tmpfs"]), read_only=True,
            network=False, descriptors=service["ulimits"]["nofile"]["soft"],
            groups=within.folders if within else (),
        )  # fmt: skip
        serve_within(image, service, how, log)
        if within:
            memory, processes = within.most_memory(), within.most_processes()
            note(most_memory=f"{memory / 1e6:.0f} MB", most_processes=processes)
            assert within.killed() == 0
            assert 0 < memory < most and 0 < processes < service["pids_limit"]


def serve_within(image: Image, service: Mapping[str, Any], how: As, log: Path) -> None:
    """Start the server, ask after its health, visit it, and end it."""
    command = [NAME if "${HOST" in each else each for each in service["command"]]
    began = time.monotonic()
    server = start(image.root, [*image.entrypoint, *command], how, log)
    try:
        assert image.health
        health = partial(join, server, image.root, image.health.words(), how)
        wait_until(lambda: server.poll() is not None or health() == 0, START)
        assert server.poll() is None and health() == 0, log.read_text(errors="replace")[-3000:]
        note(healthy_after=round(time.monotonic() - began, 1))
        assert rights_of(first_of(server)) == {
            "Uid": ["1000"] * 4, "Gid": ["1000"] * 4, "Groups": [], "NoNewPrivs": ["1"],
            **{name: ["0" * 16] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd")},
        }  # fmt: skip
        write = 'for each in "$HOME" / /app /venv /var/tmp; do touch "$each/x" && exit 1; done; :'
        assert join(server, image.root, ["sh", "-c", write], how) == 0
        visit(first_of(server))
        os.kill(first_of(server), signal.SIGTERM)
        assert wait_until(lambda: server.poll() is not None, STOP), "it does not end when told to"
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in log.read_text(errors="replace")


def visit(pid: int) -> None:
    """Open pages as a visitor beside a server's process, who sees nothing but its network."""
    subprocess.run(
        ["nsenter", "--target", str(pid), "--net", sys.executable, "-m", "tests.soak_image"],
        cwd=ROOT, check=True,
    )  # fmt: skip


def be_a_visitor() -> None:
    """Open pages with a sentence, and read the counters, in the server's network."""
    from tests.pages.session import Session

    with Session(f"http://{NAME}:8501") as visitor:
        for page in ("", "attention", "head", "models"):
            visitor.open(page, sentence="The cat is here.")
            assert visitor.elements, page
        with urlopen(f"http://{NAME}:9100/metrics", timeout=10) as answer:
            assert "headlight_visitors 1.0" in answer.read().decode().splitlines()


def release_of(instructions: list[Instruction]) -> str:
    """Return the one release of Debian that every image is made of."""
    images = [each.words()[0] for each in instructions if each.name == "FROM"]
    found = {re.fullmatch(r"python:[\d.]+-slim-([a-z]+)", each) for each in images}
    (release,) = {each and each[1] for each in found}
    assert release, images
    return release


def python_of(base: Path, log: Path) -> str:
    """Return the version of a root's Python, as `3.12`."""
    assert run(base, ["python", "-V"], As(variables={"PATH": "/usr/bin"}), log) == 0
    return log.read_text().split()[-1].rpartition(".")[0]


@contextmanager
def index_of_torch(folder: Path, python: str) -> Iterator[str]:
    """Yield the address of an index with the CPU build of torch that the lock wants.

    `TORCH_INDEX` names one; otherwise it holds the one file that this machine's pip finds.
    Raises: `OutOfReachError` if it finds none.
    """
    if given := os.environ.get("TORCH_INDEX", ""):
        yield given
        return
    (folder / "torch").mkdir(parents=True)
    lock = (ROOT / "locks/cpu.txt").read_text("utf-8").replace("-r common.txt\n", "")
    (folder / "torch.txt").write_text(lock, "utf-8")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    hashed = ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--python-version", python]
    done = subprocess.run(
        [*pip, *hashed, "-r", str(folder / "torch.txt"), "-d", str(folder / "torch")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(
            f"no CPU build of torch for Python {python} is in reach; say TORCH_INDEX=ADDRESS"
        )
    handler = partial(Quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and lists what is in it as an index of packages does."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def find(image: Image, *programs: str) -> list[str]:
    """Return the programs that an image has, of those named."""
    folders = [image.root / each[1:] for each in image.variables["PATH"].split(":")]
    return [name for name in programs if any((each / name).exists() for each in folders)]


def rights_of(pid: int) -> dict[str, list[str]]:
    """Return who a process is, and what it may do."""
    wanted = {"Uid", "Gid", "Groups", "NoNewPrivs", "CapInh", "CapPrm", "CapEff", "CapBnd"}
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    parted = (line.partition(":") for line in lines)
    return {name: value.split() for name, _, value in parted if name in wanted}


if __name__ == "__main__":
    be_a_visitor()
