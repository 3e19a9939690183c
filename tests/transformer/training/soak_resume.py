"""Resuming runs that are killed within every kind of save, and at random moments."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.transformer.training.runs import (
    ROOT,
    assert_same_bits,
    environment,
    recipe,
    run,
)
from transformer.__main__ import main

#: Starts the run again and again in forked processes. Each is killed at one of the calls that make
#: a file safe or name it, a later one each time: before, within and after saves of every kind.
KILLS_WITHIN_SAVES = """
import os, signal, sys
from transformer.training import run as _  # what takes long to import
from transformer.__main__ import main

def run(kill_at):
    calls = iter(range(1, 10**9))
    for name in ("fsync", "replace"):
        def deadly(*args, real=getattr(os, name)):
            if next(calls) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)
        setattr(os, name, deadly)
    return main(["train", *sys.argv[1:], "--resume", "--quiet", "--device", "cpu"])

kills = 0
for kill_at in (*range(1, 13), 0):
    child = os.fork()
    if child == 0:
        os._exit(run(kill_at))
    status = os.waitpid(child, 0)[1]
    kills += os.WIFSIGNALED(status)
print(kills, status)
"""


def test_killed_in_the_middle_of_saves(data: Path, tmp_path: Path) -> None:
    path = recipe(data, save_every=2)
    run(path, tmp_path / "whole")
    command = [sys.executable, "-c", KILLS_WITHIN_SAVES, str(path)]
    command += ["--data", str(data), "--out", str(tmp_path / "cut")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=200)
    kills, status = map(int, done.stdout.split()[-2:])
    assert status == 0, done.stderr
    assert kills == 12
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


def test_the_command_killed_at_a_random_moment(data: Path, tmp_path: Path) -> None:
    path = recipe(data, "word_dropout = 0.2", epochs=20, save_every=3)
    run(path, tmp_path / "whole")
    out = tmp_path / "cut"
    command = [sys.executable, "-m", "transformer", "train", str(path), "--data", str(data)]
    command += ["--out", str(out), "--device", "cpu", "--quiet"]
    process = subprocess.Popen(command, env=environment(), cwd=ROOT, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (out / "state.pt").exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.3))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (out / "model.safetensors").exists()
    assert main([*command[3:], "--resume"]) == 0
    assert_same_bits(tmp_path / "whole", out)
