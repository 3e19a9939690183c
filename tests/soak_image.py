"""The image's server without a container engine.

The files that the Dockerfile copies go into a folder, and the server runs from there with this
Python as the compose file says: user 1000 without capabilities and a home, everything read-only but
`/tmp`, no network but a loopback.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from tests.forks import ROOT
from tests.pages.session import Session
from tests.soaking import note
from tests.waiting import wait_until

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text("utf-8"))
#: The only name that leads to a network without any other machine.
NAME = "localhost"

#: How somebody else than root becomes root in namespaces.
ROOTED = ["--map-root-user"] if os.geteuid() else []

PAGES = (
    "", "beam", "attention", "head", "floor", "tokens", "positions", "cost", "compare", "models",
    "training", "tours", "glossary",
)  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder outside /tmp, which the server has its own of."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        os.chmod(made, 0o755)  # noqa: S103 - user 1000 reads it
        yield Path(made)


def test_the_image_serves(folder: Path) -> None:
    if not all(map(shutil.which, ("unshare", "setpriv", "nsenter", "ip"))):
        pytest.fail("on Debian, apt-get install util-linux iproute2")
    began = time.monotonic()
    for name in re.findall(r"^COPY (?!--from|locks)(\S+) ", DOCKERFILE, re.M):
        source, target = ROOT / name, folder / "app" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, ignore=ignored) if source.is_dir() else shutil.copy2(
            source, target
        )
    log = folder / "log.txt"
    with log.open("wb") as output:
        server = subprocess.Popen(
            ["unshare", *ROOTED, "--mount", "--pid", "--net", "--fork", "--kill-child",
             "sh", "-euc", script(folder)], stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        assert wait_until(lambda: server.poll() is not None or beside(server, "ready"), 120)
        assert server.poll() is None, log.read_text()[-3000:]
        note(ready_after=round(time.monotonic() - began, 1))
        assert beside(server, "visit"), log.read_text()[-3000:]
        os.kill(inside(server), signal.SIGTERM)
        assert wait_until(lambda: server.poll() is not None, 10), "it does not end when told to"
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in log.read_text()


def script(folder: Path) -> str:
    """Return a shell script that serves as the Dockerfile and the compose file say."""
    service = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))["services"]
    given = service["headlight"]
    assert given["read_only"] and given["cap_drop"] == ["ALL"]
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.M)
    (user,) = re.findall(r"^USER (.+)$", DOCKERFILE, re.M)
    own = re.findall(r"(\w+)=(\S+)", re.findall(r"^ENV HEADLIGHT.+$", DOCKERFILE, re.M)[0])
    variables = {**dict(own), **given["environment"], "PATH": "/bin", "HOME": "/nonexistent"}
    command = [NAME if "${HOST" in each else each for each in given["command"]]
    uid, gid = user.split(":")
    who = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    program = [sys.executable, "-m", *json.loads(entry)]
    bare = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    if subprocess.run(
        ["setpriv", *who, *bare, "env", *program[:3], "version"], check=False
    ).returncode:
        who = []  # only root may enter the folder of this machine's Python
    note(user=who and user)
    at = shlex.quote(str(folder))
    run = [
        "setpriv", *who, *bare, "env", "-i",
        *(f"{name}={value}" for name, value in variables.items()), *program, *command,
    ]  # fmt: skip
    return "\n".join([
        f"mount --bind {at} {at}", f"mount -o remount,bind,ro {at}",
        "mount -t tmpfs -o mode=1777,size=256m tmpfs /tmp", "mount -t proc proc /proc",
        "ip link set lo up", f"cd {at}/app", f"exec {shlex.join(run)}",
    ])  # fmt: skip


def inside(server: subprocess.Popen[bytes]) -> int:
    """Return the number of the process that `unshare` started."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return int(children[0]) if children else 0


def beside(server: subprocess.Popen[bytes], what: str) -> bool:
    """Do something in the server's network; return whether it succeeded."""
    user = ["--user", "--preserve-credentials"] if ROOTED else []
    command = ["nsenter", "--target", str(inside(server)), *user, "--net", sys.executable]
    done = subprocess.run([*command, "-m", "tests.soak_image", what], cwd=ROOT, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    if sys.argv[1] == "ready":
        urlopen(f"http://{NAME}:8501/_headlight/ready", timeout=4)
    else:
        with pytest.raises(OSError, match="unreachable"):
            socket.create_connection(("192.0.2.1", 80), timeout=5)
        with Session(f"http://{NAME}:8501") as visitor:
            for page in PAGES:
                visitor.open(page, sentence="The cat is here.")
                assert visitor.elements, page
