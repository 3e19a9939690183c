"""Training: what a run leaves behind."""

import itertools
import json
import math
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.transformer.conftest import parallel_text
from tests.transformer.training.runs import (
    log_lines,
    recipe,
    run,
    weights,
)
from transformer.checkpoint.folder import load_checkpoint
from transformer.config import ConfigError
from transformer.errors import CheckpointError, InputError
from transformer.text.tokenizer import EOS_ID, PAD_ID, UNK_ID
from transformer.training.data import DataError, collate
from transformer.training.trainer import TrainingError, snapshot_updates, with_word_dropout


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A run of three epochs with snapshots and a log for TensorBoard."""
    data = parallel_text(tmp_path_factory.mktemp("run") / "data")
    path, out = recipe(data, "snapshots = 5", epochs=3), data.parent / "out"
    assert run(path, out, tensorboard=True) == out
    return out


def test_a_run_leaves_a_checkpoint_the_mean_of_its_last_epochs(finished: Path) -> None:
    about, last = load_checkpoint(finished).metrics["training"], log_lines(finished)[-1]
    assert about["recipe"]["training"]["batch_tokens"] == 90
    assert (about["epochs"], about["averaged_epochs"]) == (3, 2)
    assert about["updates"] == last["update"] > 10
    assert about["val_nll"] == pytest.approx(last["val_nll"], abs=0.2)
    assert {file.name for file in finished.iterdir()} == {
        "config.json", "epochs", "metrics.json", "metrics.jsonl", "model.safetensors",
        "recipe.json", "snapshots", "state.pt", "tensorboard", "tokenizer.model",
    }  # fmt: skip
    files = sorted((finished / "epochs").iterdir())
    assert [file.name for file in files] == ["0002.safetensors", "0003.safetensors"]
    second, third = (safetensors.torch.load_file(file) for file in files)
    for name, tensor in weights(finished).items():
        torch.testing.assert_close(tensor, (second[name] + third[name]) / 2, atol=1e-7, rtol=1e-6)
    state = torch.load(finished / "state.pt", weights_only=True)["model"]
    assert torch.equal(state["src_embedding.weight"], third["src_embedding.weight"])


def test_tensorboard_on_request(
    finished: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = event_accumulator.EventAccumulator(str(finished / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("val_nll")] == [
        line["update"] for line in log_lines(finished) if line["kind"] == "epoch"
    ]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match="pip install tensorboard"):
        run(recipe(data), tmp_path / "out", tensorboard=True)


def test_training_learns_until_a_loss_is_no_number(data: Path, tmp_path: Path) -> None:
    run(recipe(data, "peak_lr = 2e-2", epochs=5, dropout=0.0), tmp_path / "out")
    losses = [line["val_nll"] for line in log_lines(tmp_path / "out") if line["kind"] == "epoch"]
    assert losses[-1] < 0.9 * losses[0]
    with pytest.raises(TrainingError, match=r"update \d+ is not finite.*peak_lr"):
        run(recipe(data, "peak_lr = 1e18", save_every=1), tmp_path / "bad")


def test_snapshots_lie_evenly_in_the_log_of_updates(finished: Path) -> None:
    files = sorted((finished / "snapshots").iterdir())
    updates = [int(file.stem) for file in files]
    assert updates[:2] == [0, 1] and len(updates) == 5
    assert updates[-1] == log_lines(finished)[-1]["update"]
    steps = [math.log(after / before) for before, after in itertools.pairwise(updates[1:])]
    assert max(steps) - min(steps) < 0.6
    final = safetensors.torch.load_file(files[-1])
    state = torch.load(finished / "state.pt", weights_only=True)["model"]
    assert "generator.weight" not in final
    assert all(torch.equal(tensor, state[name].half()) for name, tensor in final.items())
    updates = sorted(snapshot_updates(12, 16, 3000))  # the first may come later
    assert updates[:2] == [0, 16] and len(updates) == 11
    ratios = [after / before for before, after in itertools.pairwise([*updates[1:], 3000])]
    assert max(ratios) / min(ratios) < 1.1
    assert snapshot_updates(12, 16, 9) == {0, 9} and not snapshot_updates(0, 1, 100)


def test_word_dropout_hides_a_share_of_the_source() -> None:
    batch = collate([[5] * 400, [6] * 300], [[7, 8]] * 2)
    hidden = with_word_dropout(batch, 0.25)
    assert torch.equal(hidden.tgt_in, batch.tgt_in)
    gaps = hidden.src == UNK_ID
    assert 0.15 < gaps.sum() / 700 < 0.35
    assert torch.equal(hidden.src[~gaps], batch.src[~gaps])
    assert not gaps[(batch.src == PAD_ID) | (batch.src == EOS_ID)].any()


def test_a_run_cut_short_without_validation_text(data: Path, tmp_path: Path) -> None:
    """If max_updates ends the run within an epoch, its last weights are averaged too."""
    for end in ("en", "de"):
        (data / f"held_out.{end}").write_text("")
    out = run(recipe(data, "max_updates = 12", average=1), tmp_path / "out")
    assert log_lines(out)[-1]["update"] <= 12
    assert all("val_nll" not in line for line in log_lines(out))
    assert json.loads((out / "metrics.json").read_text())["training"]["val_nll"] is None
    last = torch.load(out / "state.pt", weights_only=True)
    assert last["progress"]["update"] == 12 and last["progress"]["batch"] > 0
    assert all(torch.equal(tensor, last["model"][name]) for name, tensor in weights(out).items())


@pytest.mark.parametrize("stack", ["", '\n[stack]\ntask = "continue"\n'])
def test_starting_from_another_checkpoint(stack: str, data: Path, tmp_path: Path) -> None:
    """Takes its weights and its tokenizer, although the new text would give other pieces."""
    first = run(recipe(data, stack, epochs=1), tmp_path / "first")
    for end in ("en", "de"):
        lines = (data / f"pairs.{end}").read_text().replace("dog", "zebu")
        (data / f"pairs.{end}").write_text(lines)
    more = f'init = "{first}"\npeak_lr = 1e-12{stack}'
    second = run(recipe(data, more, epochs=1), tmp_path / "second")
    assert (second / "tokenizer.model").read_bytes() == (first / "tokenizer.model").read_bytes()
    for name, tensor in weights(first).items():
        torch.testing.assert_close(weights(second)[name], tensor, atol=1e-6, rtol=0)
    with pytest.raises(CheckpointError, match="feed_forward"):
        run(recipe(data, more, d_ff=20), tmp_path / "third")


def test_other_devices_and_texts_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="device 'tpu' is not here"):
        run(recipe(data), tmp_path / "out", device="tpu")
    with pytest.raises(ConfigError, match="no training pair has from 1 to 0 tokens"):
        run(recipe(data, max_positions=1), tmp_path / "short")
    for corpus in ("multi30k", "tatoeba"):
        with pytest.raises(DataError, match=rf"use --download to fetch {corpus}"):
            run(recipe(data, corpora=[corpus]), tmp_path / "none")
    (data / "pairs.de").unlink()
    with pytest.raises(DataError, match=r"pairs\.de: no such file"):
        run(recipe(data), tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
