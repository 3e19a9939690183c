"""A public server without a network and without a home: every page opens all the same."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.forks import ROOT

#: Pages opened; those with a sentence need the model.
PAGES = (
    "", "beam", "attention", "head", "floor", "tokens", "positions", "cost", "compare", "models",
    "training", "tours", "glossary",
)  # fmt: skip


def test_every_page_opens_without_a_network_and_without_a_home() -> None:
    tools = [shutil.which(name) for name in ("unshare", "ip")]
    if not all(tools):
        pytest.fail("unshare and ip are needed: on Debian, apt-get install util-linux iproute2")
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "-r"]
    inside = f"ip link set lo up && exec {shlex.quote(sys.executable)} -m tests.soak_offline"
    done = subprocess.run(
        [*namespace, "sh", "-c", inside], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "HOME": "/proc/no-home", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == [f"/{page}" for page in PAGES]


def visit() -> None:
    """Open every page of a server of this namespace, printing their addresses."""
    import socket

    from tests.pages.session import Session
    from tests.servers import APP, serving

    with pytest.raises(OSError, match="unreachable"):
        socket.create_connection(("192.0.2.1", 80), timeout=5)
    environment = {"HEADLIGHT_PUBLIC": "1", "HEADLIGHT_IMPORT": "", "HOME": "/proc/no-home"}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        command = [*APP, "--server.allowedHosts", "127.0.0.1"]
        with (
            serving(log, command, importing=False, environment=environment) as (address, _),
            Session(address) as visitor,
        ):
            for page in PAGES:
                visitor.open(page, sentence="The cat is here.")
                failed = [
                    each.exception.message for each in visitor.elements if each.exception.message
                ]
                assert not failed, (page, failed)
                print(f"/{page}")
        assert "Traceback" not in log.read_text()


if __name__ == "__main__":
    visit()
