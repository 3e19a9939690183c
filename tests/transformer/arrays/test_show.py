"""`python -m transformer show`: a page, or the app on one file."""

import re
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from tests.factories import make_trace
from tests.forks import ENVIRONMENT, ROOT
from tests.servers import free_port
from tests.waiting import wait_until
from transformer.__main__ import main
from transformer.arrays.trace_file import save_arrays


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save_arrays(make_trace(S=5, T=4), tmp_path / "one sentence.npz")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["{tmp}/none.npz"], "none.npz: no such file"),
        (["{tmp}/bad.npz"], "row (0, 0, 0) sums to 3"),
        (["{tmp}/cut.npz", "--html", "{tmp}/x.html"], "not a whole .npz file"),
        (["{ok}", "--port", "0"], "--port 0 is not a port"),
        (["{ok}", "--port", "8000", "--html", "x.html"], "--html does not start"),
        ([], "FILE.npz"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(
    path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    np.savez(tmp_path / "bad.npz", attention=np.ones((3, 3)))
    (tmp_path / "cut.npz").write_bytes(b"PK")
    given = [each.format(tmp=tmp_path, ok=path) for each in arguments]
    try:
        status = main(["show", *given])
    except SystemExit as ended:
        status = int(ended.code or 0)
    out, err = capfd.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert why in err
    assert not (tmp_path / "x.html").exists()


def test_the_app_is_started_on_the_file_and_ended(path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "transformer", "show", str(path), "--port", str(port)]
    shown = subprocess.Popen(
        command, cwd=ROOT, env={**ENVIRONMENT, "HEADLIGHT_CHECKPOINTS": str(path.parent / "x")},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert shown.stdout is not None
        line = shown.stdout.readline()
        address = re.search(r"http://\S+", line)
        assert line.startswith("one sentence.npz is shown at ") and address is not None
        parts = urllib.parse.urlsplit(address[0])
        assert parts.path == "/attention" and parts.port == port
        assert urllib.parse.parse_qs(parts.query) == {"checkpoint": ["one sentence.npz"]}
        assert "Ctrl-C" in shown.stdout.readline()
        with urllib.request.urlopen(address[0], timeout=60) as answer:
            assert answer.status == 200
        shown.send_signal(signal.SIGINT)
        assert shown.wait(60) == 0
    finally:
        shown.kill()
        shown.communicate()
    with socket.socket() as tried:
        assert wait_until(lambda: tried.connect_ex(("localhost", port)) != 0)
