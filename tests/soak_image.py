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
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.forks import ROOT
from tests.pages.session import Session
from tests.servers import PATIENCE, answers, children, readiness, serving
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
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        os.chmod(made, 0o755)  # noqa: S103 - user 1000 reads it
        yield Path(made)


def test_the_image_serves(folder: Path) -> None:
    if not all(map(shutil.which, ("unshare", "setpriv", "ip"))):
        pytest.fail("on Debian, apt-get install util-linux iproute2")
    for name in re.findall(r"^COPY (?!--from|locks)(\S+) ", DOCKERFILE, re.M):
        source, target = ROOT / name, folder / "app" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, ignore=ignored) if source.is_dir() else shutil.copy2(
            source, target
        )
    at = shlex.quote(str(folder))
    script = [
        f"mount --bind {at} {at}", f"mount -o remount,bind,ro {at}",
        "mount -t tmpfs -o mode=1777,size=256m tmpfs /tmp", "mount -t proc proc /proc",
        "ip link set lo up", f"exec {shlex.quote(sys.executable)} -m tests.soak_image {at}",
    ]  # fmt: skip
    done = subprocess.run(
        ["unshare", *ROOTED, "--mount", "--pid", "--net", "--fork", "--kill-child",
         "sh", "-euc", "\n".join(script)], cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-3000:]


def serve(folder: Path) -> None:
    """Serve as in the Dockerfile and the compose file, and open every page."""
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
    server = subprocess.Popen(
        ["setpriv", *who, *bare, *program, *command], cwd=folder / "app", env=variables
    )
    try:
        ready = f"http://{NAME}:8501/_headlight/ready"
        assert wait_until(lambda: answers(ready) or server.poll() is not None, PATIENCE)
        with pytest.raises(OSError, match="unreachable"):
            socket.create_connection(("192.0.2.1", 80), timeout=5)
        with Session(f"http://{NAME}:8501") as visitor:
            for page in PAGES:
                visitor.open(page, sentence="The cat is here.")
                assert visitor.elements, page
    finally:
        server.terminate()
        server.wait(10)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))


def test_the_small_hosts_own_file_serves(tmp_path: Path) -> None:
    command = ["-m", "streamlit", "run", "deploy/cloud/streamlit_app.py"]
    allowed = ["--server.allowedHosts", "127.0.0.1"]
    variables = {"HEADLIGHT_IMPORT": ""}
    with (
        serving(
            tmp_path / "log", [*command, *allowed], fresh=True, environment=variables
        ) as server,
        Session(server.address) as visitor,
    ):
        visitor.open(sentence="A dog runs.")
        assert readiness(server.address)["most_visitors"] == 200  # a public server
        assert children(server.pid) == []
