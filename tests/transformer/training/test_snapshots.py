"""Keeping a run's snapshots beside a checkpoint."""

import shutil
from pathlib import Path

import pytest

from tests.transformer.conftest import parallel_text
from tests.transformer.training.runs import log_lines, recipe, run
from transformer.__main__ import main
from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import FILE, read_history, read_snapshot
from transformer.checkpoint.weights import layout_of
from transformer.config import ConfigError
from transformer.errors import CheckpointError
from transformer.training.snapshots import keep_snapshots


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parallel_text(tmp_path_factory.mktemp("text") / "data")


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose last weights are its result."""
    out = tmp_path_factory.mktemp("run") / "out"
    return run(recipe(text, "snapshots = 4\npeak_lr = 2e-2", epochs=3, average=1), out)


def test_the_last_snapshot_is_the_end_of_the_run(
    trained: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = shutil.copytree(trained, tmp_path / "kept")
    arguments = [str(trained), "--checkpoint", str(kept), "--data", str(text)]
    assert main(["snapshots", *arguments]) == 0
    history = read_history(kept)
    lines = log_lines(trained)
    assert history.continues
    assert history.snapshots[0].updates == 0
    assert history.snapshots[-1].updates == lines[-1]["update"]
    # Half precision and the grid cost next to nothing.
    measured = [line["val_nll"] for line in lines if line["kind"] == "epoch"][-1]
    assert history.snapshots[-1].val_nll == pytest.approx(measured, abs=0.02)
    assert history.snapshots[0].val_nll > history.snapshots[-1].val_nll
    printed = capsys.readouterr().out
    for each in history.snapshots:
        assert f"{each.updates:>9,} updates  {each.val_nll:6.3f} nats" in printed
    last = load_checkpoint(trained)
    for name, tensor in read_snapshot(
        ModelRef(kept, lines[-1]["update"]), layout_of(last.config).stored
    ).items():
        error = (tensor - last.model.state_dict()[name]).abs().max()
        assert float(error) <= max(float(last.model.state_dict()[name].std()) / 64, 1e-3)


def test_what_is_refused_or_interrupted_leaves_nothing(
    trained: Path, text: Path, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    def stop(done: int, most: int) -> None:
        raise KeyboardInterrupt

    kept = shutil.copytree(trained, tmp_path / "kept")
    with pytest.raises(ConfigError, match="more than 1,000 bytes"):
        keep_snapshots(trained, kept, text, max_bytes=1000)
    with pytest.raises(CheckpointError, match="pieces differ"):
        keep_snapshots(trained, tiny_checkpoint, text)
    with pytest.raises(ConfigError, match="set `snapshots` in the recipe"):
        keep_snapshots(tmp_path, kept, text)
    with pytest.raises(KeyboardInterrupt):
        keep_snapshots(trained, kept, text, progress=stop)
    assert not (kept / FILE).exists()


def test_a_run_with_the_pieces_of_a_checkpoint(trained: Path, data: Path, tmp_path: Path) -> None:
    pairs = data / "pairs.en"
    pairs.write_text(pairs.read_text().replace("anna", "otto"))  # text of its own
    path = recipe(data, "snapshots = 3", epochs=1)
    path.write_text(path.read_text().replace("vocab_size = 40", f'checkpoint = "{trained}"'))
    other = run(path, tmp_path / "other")
    assert (other / "tokenizer.model").read_bytes() == (trained / "tokenizer.model").read_bytes()
    kept = shutil.copytree(trained, tmp_path / "kept")
    keep_snapshots(other, kept, data)
    assert not read_history(kept).continues
