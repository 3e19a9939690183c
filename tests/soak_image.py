"""Servers without a network and without a home: the app's, and the image's as its Dockerfile says.

There is no container engine here. The packages of `locks/cpu.txt` go into a fresh environment, the
files that the Dockerfile copies into a folder; the image's server then runs as the compose file
says: user 1000 without capabilities, everything read-only but `/tmp`, no network but a loopback.
That needs root, and a CPU build of torch that pip can find.
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
from tests.servers import APP, serving
from tests.soaking import note
from tests.waiting import wait_until

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text("utf-8"))
#: The only name that leads to a network without any other machine.
NAME = "localhost"

PAGES = (
    "", "beam", "attention", "head", "floor", "tokens", "positions", "cost", "compare", "models",
    "training", "tours", "glossary",
)  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder outside /tmp, removed at once: an environment is large."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        os.chmod(made, 0o755)  # noqa: S103 - user 1000 reads it
        yield Path(made)


def test_the_image_serves(folder: Path) -> None:
    if os.geteuid() or not all(map(shutil.which, ("unshare", "setpriv", "nsenter", "ip"))):
        pytest.skip("needs root, util-linux and iproute2")
    began = time.monotonic()
    install(folder / "venv")
    note(installed_after=round(time.monotonic() - began, 1))
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
            ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-euc",
             script(folder)], stdout=output, stderr=subprocess.STDOUT,
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


def install(venv: Path) -> None:
    """Install the lock of servers as the Dockerfile does; skip where torch is out of reach."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    (line,) = re.findall(r"/venv/bin/(pip install [^\"]+)", DOCKERFILE)
    index = os.environ.get("TORCH_INDEX", "")
    more = ["--extra-index-url", index] if index else []
    lock = ["-r", str(ROOT / "locks" / "cpu.txt"), *more]
    command = [str(venv / "bin" / "python"), "-m", *line.split(), "-q", *lock]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution found for torch" in done.stderr:
        pytest.skip("no CPU build of torch is in reach; say TORCH_INDEX=ADDRESS")
    assert done.returncode == 0, done.stderr


def script(folder: Path) -> str:
    """Return a shell script that serves as the Dockerfile and the compose file say."""
    service = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))["services"]
    given = service["headlight"]
    assert given["read_only"] and given["cap_drop"] == ["ALL"]
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.M)
    (user,) = re.findall(r"^USER (.+)$", DOCKERFILE, re.M)
    own = re.findall(r"(\w+)=(\S+)", re.findall(r"^ENV HEADLIGHT.+$", DOCKERFILE, re.M)[0])
    path = f"{folder}/venv/bin:/usr/bin:/bin"
    variables = {**dict(own), **given["environment"], "PATH": path, "HOME": "/nonexistent"}
    command = [NAME if "${HOST" in each else each for each in given["command"]]
    uid, gid = user.split(":")
    who = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    program = str(folder / "venv" / "bin" / "streamlit")
    bare = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    if subprocess.run(["setpriv", *who, *bare, "env", program, "version"], check=False).returncode:
        who = []  # only root may enter the folder of this machine's Python
    note(user=who and user)
    at = shlex.quote(str(folder))
    run = [
        "setpriv", *who, *bare, "env", "-i",
        *(f"{name}={value}" for name, value in variables.items()), *json.loads(entry), *command,
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
    command = ["nsenter", "--target", str(inside(server)), "--net", sys.executable]
    done = subprocess.run([*command, "-m", "tests.soak_image", what], cwd=ROOT, check=False)
    return done.returncode == 0


def test_the_app_serves() -> None:
    tools = [shutil.which(name) for name in ("unshare", "ip")]
    if not all(tools):
        pytest.fail("unshare and ip are needed: on Debian, apt-get install util-linux iproute2")
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "-r"]
    inside = f"ip link set lo up && exec {shlex.quote(sys.executable)} -m tests.soak_image app"
    done = subprocess.run(
        [*namespace, "sh", "-c", inside], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "HOME": "/proc/no-home", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def visit(address: str) -> None:
    with Session(address) as visitor:
        for page in PAGES:
            visitor.open(page, sentence="The cat is here.")
            assert visitor.elements, page


def serve() -> None:
    with pytest.raises(OSError, match="unreachable"):
        socket.create_connection(("192.0.2.1", 80), timeout=5)
    environment = {"HEADLIGHT_PUBLIC": "1", "HEADLIGHT_IMPORT": "", "HOME": "/proc/no-home"}
    command = [*APP, "--server.allowedHosts", "127.0.0.1"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        with serving(log, command, importing=False, environment=environment) as (address, _):
            visit(address)
        assert "Traceback" not in log.read_text()


def main(what: str) -> None:
    """Ask whether the image's server is ready, visit it, or serve."""
    if what == "ready":
        urlopen(f"http://{NAME}:8501/_headlight/ready", timeout=4)
    elif what == "visit":
        visit(f"http://{NAME}:8501")
    else:
        serve()


if __name__ == "__main__":
    main(sys.argv[1])
