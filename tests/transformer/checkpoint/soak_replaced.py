"""Overwriting a checkpoint, killed at any step, leaves the old one or the new one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.transformer.checkpoint.test_replaced import write
from transformer.text.tokenizer import Tokenizer

#: Writes a checkpoint over another in forked processes. Each is killed before one of the calls that
#: make a file safe, name it, link it or take it away, a later one each time.
KILLS = """
import os, signal, sys
from pathlib import Path
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.files import folders

path, other, with_exchange = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "True"
if not with_exchange:
    folders._exchange_call = lambda: None
new = load_checkpoint(other)
ends, calls = [], 0

def run(kill_at):
    global calls
    for module, name in (
        (os, "fsync"), (os, "replace"), (os, "rename"), (os, "link"), (os, "unlink"),
        (folders, "exchange"), (folders.shutil, "rmtree"),
    ):
        def deadly(*args, real=getattr(module, name), **options):
            global calls
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)
        setattr(module, name, deadly)
    save_checkpoint(path, new.model, new.tokenizer)

for kill_at in range(1, 100):
    child = os.fork()
    if child == 0:
        run(kill_at)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    loaded = load_checkpoint(path)
    d_ff, first = loaded.config.d_ff, float(loaded.model.generator.weight[0, 0])
    print(d_ff, (path / "notes.txt").read_text(), (path / "epochs/1").read_text(),
          loaded.metrics.get("bleu"), first == d_ff)
    if not killed:
        break
    child = os.fork()  # the old one again
    if child == 0:
        old = load_checkpoint(Path(sys.argv[4]))
        save_checkpoint(path, old.model, old.tokenizer)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("with_exchange", [True, False])
@pytest.mark.timeout(200)
def test_killed_at_every_step(
    with_exchange: bool, tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    path, old, new = (tmp_path / name for name in ("it", "old", "new"))
    for each, d_ff in ((path, 16), (old, 16), (new, 24)):
        write(each, tiny_tokenizer, d_ff)
    (path / "notes.txt").write_text("mine")
    (path / "epochs").mkdir()
    (path / "epochs" / "1").write_text("weights")
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(path), str(new), str(with_exchange), str(old)],
        capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=180,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    ends = done.stdout.splitlines()
    assert len(ends) >= 16
    assert set(ends) == {f"{d_ff} mine weights 1.0 True" for d_ff in (16, 24)}
    assert ends[-1].startswith("24")
    write(path, tiny_tokenizer, 16)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["it", "new", "old"]
