import itertools
import json
import math
import os
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.transformer.conftest import Command, parallel_text
from tests.transformer.training.runs import assert_same_bits, log_lines, recipe, run, weights
from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.reference import SNAPSHOTS, ModelRef
from transformer.checkpoint.snapshots import read_history, read_snapshot
from transformer.checkpoint.weights import layout_of
from transformer.config import ConfigError
from transformer.models.catalogue import inspect_entry
from transformer.text.tokenizer import EOS_ID, PAD_ID, UNK_ID
from transformer.training import trainer
from transformer.training.data import DataError, collate
from transformer.training.run_folder import Progress, RunFolder
from transformer.training.snapshots import keep_snapshots
from transformer.training.trainer import Begun, Trainer, TrainingError, snapshot_updates
from transformer.types import CheckpointError, InputError


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
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


def test_tensorboard(
    finished: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(finished / "tensorboard"))
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
    hidden = trainer.with_word_dropout(batch, 0.25)
    assert torch.equal(hidden.tgt_in, batch.tgt_in)
    gaps = hidden.src == UNK_ID
    assert 0.15 < gaps.sum() / 700 < 0.35
    assert torch.equal(hidden.src[~gaps], batch.src[~gaps])
    assert not gaps[(batch.src == PAD_ID) | (batch.src == EOS_ID)].any()


def test_a_run_cut_short_without_validation_text(data: Path, tmp_path: Path) -> None:
    """If max_updates ends the run within an epoch, its last weights are averaged too."""
    for file in data.glob("pairs.*"):
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:81]))
    out = run(recipe(data, "max_updates = 12", average=1), tmp_path / "out")
    assert log_lines(out)[-1]["update"] <= 12
    assert all("val_nll" not in line for line in log_lines(out))
    assert json.loads((out / "metrics.json").read_text())["training"]["val_nll"] is None
    last = torch.load(out / "state.pt", weights_only=True)
    assert last["progress"]["update"] == 12 and last["progress"]["batch"] > 0
    assert all(torch.equal(tensor, last["model"][name]) for name, tensor in weights(out).items())


@pytest.mark.parametrize("stack", ["", '\n[stack]\ntask = "continue"\n'])
def test_starting_from_another_checkpoint(stack: str, data: Path, tmp_path: Path) -> None:
    first = run(recipe(data, stack, epochs=1), tmp_path / "first")
    for file in data.glob("pairs.*"):
        file.write_text(file.read_text().replace("dog", "zebu"))
    more = f'init = "{first}"\npeak_lr = 1e-12{stack}'
    second = run(recipe(data, more, epochs=1), tmp_path / "second")
    assert (second / "tokenizer.model").read_bytes() == (first / "tokenizer.model").read_bytes()
    for name, tensor in weights(first).items():
        torch.testing.assert_close(weights(second)[name], tensor, atol=1e-6, rtol=0)
    with pytest.raises(CheckpointError, match="feed_forward"):
        run(recipe(data, more, d_ff=20), tmp_path / "third")


def test_other_devices_and_texts_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="device 'tpu' is not available"):
        run(recipe(data), tmp_path / "out", device="tpu")
    with pytest.raises(ConfigError, match="no training pair has 1 to 0 tokens"):
        run(recipe(data, max_positions=1), tmp_path / "short")
    for corpus in ("multi30k", "tatoeba"):
        with pytest.raises(DataError, match=rf"use --download to fetch {corpus}"):
            run(recipe(data, corpora=[corpus]), tmp_path / "none")
    (data / "pairs.de").unlink()
    with pytest.raises(DataError, match=r"pairs\.de: no such file"):
        run(recipe(data), tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose result is its last weights, beside its `data`."""
    data = parallel_text(tmp_path_factory.mktemp("snapshots") / "data")
    path = recipe(data, "snapshots = 4\npeak_lr = 2e-2", epochs=3, average=1)
    return run(path, data.parent / "out")


def test_the_last_snapshot_ends_the_run(trained: Path, tmp_path: Path, command: Command) -> None:
    kept, text = shutil.copytree(trained, tmp_path / "kept"), trained.parent / "data"
    printed = command("snapshots", trained, "--checkpoint", kept, "--data", text).out
    history, lines = read_history(kept), log_lines(trained)
    assert inspect_entry(kept).relation == "end" and history.began == ""
    assert history.about["cosine"] == pytest.approx(1, abs=1e-5)
    assert history.snapshots[0].updates == 0
    assert history.snapshots[-1].updates == lines[-1]["update"]
    # Half precision and the grid cost next to nothing.
    measured = [line["val_nll"] for line in lines if line["kind"] == "epoch"][-1]
    assert history.snapshots[-1].val_nll == pytest.approx(measured, abs=0.02)
    assert history.snapshots[0].val_nll > history.snapshots[-1].val_nll
    for snapshot in history.snapshots:
        assert f"{snapshot.updates:>9,} updates  {snapshot.val_nll:6.3f} nats" in printed
    last, end = load_checkpoint(trained), ModelRef(kept, lines[-1]["update"])
    for name, tensor in read_snapshot(end, layout_of(last.config).stored).items():
        weight = last.model.state_dict()[name]
        assert float((tensor - weight).abs().max()) <= max(float(weight.std()) / 64, 1e-3)


def test_an_interrupt_leaves_nothing(trained: Path, tmp_path: Path, tiny_checkpoint: Path) -> None:
    def stop(done: int, most: int) -> None:
        raise KeyboardInterrupt

    kept, text = shutil.copytree(trained, tmp_path / "kept"), trained.parent / "data"
    with pytest.raises(ConfigError, match="more than 1,000 bytes"):
        keep_snapshots(trained, kept, text, max_bytes=1000)
    with pytest.raises(CheckpointError, match="pieces differ"):
        keep_snapshots(trained, tiny_checkpoint, text)
    with pytest.raises(ConfigError, match="set `snapshots` in the recipe"):
        keep_snapshots(tmp_path, kept, text)
    with pytest.raises(KeyboardInterrupt):
        keep_snapshots(trained, kept, text, progress=stop)
    assert not (kept / SNAPSHOTS).exists()


def test_a_run_with_the_pieces_of_a_checkpoint(trained: Path, data: Path, tmp_path: Path) -> None:
    pairs = data / "pairs.en"
    pairs.write_text(pairs.read_text().replace("anna", "otto"))  # text of its own
    path = recipe(data, "snapshots = 3", epochs=1)
    path.write_text(path.read_text().replace("vocab_size = 40", f'checkpoint = "{trained}"'))
    other = run(path, tmp_path / "other")
    assert (other / "tokenizer.model").read_bytes() == (trained / "tokenizer.model").read_bytes()
    kept = shutil.copytree(trained, tmp_path / "kept")
    keep_snapshots(other, kept, data)
    assert inspect_entry(kept).relation == "other"
    assert 0.1 < read_history(kept).about["cosine"] < 0.9  # both began with the same seed


def test_a_run_may_begin_from_a_moment(trained: Path, tmp_path: Path) -> None:
    kept, text = shutil.copytree(trained, tmp_path / "kept"), trained.parent / "data"
    keep_snapshots(trained, kept, text)
    first = read_history(kept).snapshots[1].updates
    path = recipe(tmp_path, f'snapshots = 2\ninit = "{kept}@{first}"', epochs=1)
    out = run(path.rename(text / "from-a-moment.toml"), tmp_path / "out")
    layout = layout_of(load_checkpoint(kept).config)
    begun = read_snapshot(ModelRef(kept, first), layout.stored)
    keep_snapshots(out, out, text)
    assert read_history(out).began == f"{kept}@{first}"
    for name, tensor in read_snapshot(ModelRef(out, 0), layout.stored).items():
        assert float((tensor - begun[name]).abs().max()) <= max(float(tensor.std()) / 16, 1e-3)


class Killed(BaseException):
    """Simulates a kill at an exact place."""


def run_killed(path: Path, out: Path, owner: Any, name: str, call: int) -> None:
    """Start or resume a run, and kill it at the `call`-th call to owner.name."""
    real, calls = getattr(owner, name), iter(range(1, 10**9))

    def deadly(*args: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise Killed
        return real(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, deadly)
        with pytest.raises(Killed):
            run(path, out, resume=True)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    data = parallel_text(tmp_path_factory.mktemp("whole") / "data")
    return run(recipe(data), data.parent / "out")


def logged(out: Path) -> list[dict[str, Any]]:
    times = {"seconds", "tokens_per_second"}
    return [{k: v for k, v in line.items() if k not in times} for line in log_lines(out)]


#: Every option that draws numbers or depends on the update.
OPTIONS = "clip_norm = 1.0\ncooldown = 0.5\npeak_lr = 1e-2\nword_dropout = 0.3\nsnapshots = 5"


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "fill"])
def test_resuming_gives_the_same_bits_and_log_lines_once(
    kind: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "LOG_EVERY", 5)  # not where states are saved
    stack = '\n[stack]\ntask = "fill"\nn_layers = 2\n' if kind == "fill" else ""
    path = recipe(data, OPTIONS + stack, precision="bfloat16" if kind == "bfloat16" else "float32")
    run(path, tmp_path / "whole")
    # In the first epoch with a state behind it, between the line of the epoch's end and the state
    # that follows it, and between two saves of the second.
    run_killed(path, tmp_path / "cut", Trainer, "begin_update", 6)
    run_killed(path, tmp_path / "cut", RunFolder, "save_state", 2)
    with open(tmp_path / "cut" / "metrics.jsonl", "a") as file:
        file.write('{"kind": "update", "upda')  # cut off in the middle of a line
    run_killed(path, tmp_path / "cut", Trainer, "begin_update", 7)
    run(path, tmp_path / "cut", resume=True)
    assert logged(tmp_path / "whole") == logged(tmp_path / "cut")
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


def test_lines_are_means_since_the_last(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, seen = Trainer.read, [(0.0, 0)]

    def kept(self: Trainer, begun: Begun) -> tuple[float, float, int]:
        loss, nll, n_tokens = read(self, begun)
        seen.append((nll, n_tokens))
        return loss, nll, n_tokens

    monkeypatch.setattr(trainer, "LOG_EVERY", 7)
    monkeypatch.setattr(Trainer, "read", kept)
    out = run(recipe(data, epochs=3), tmp_path / "out")
    lines = [line for line in log_lines(out) if line["kind"] == "update"]
    assert len({line["epoch"] for line in lines}) == 3
    for line in lines:
        part = seen[line["update"] - 6 : line["update"] + 1]
        mean = sum(nll for nll, _ in part) / sum(n_tokens for _, n_tokens in part)
        assert line["nll"] == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_killed_within_saves(usual: Path, data: Path, tmp_path: Path, name: str) -> None:
    path = recipe(data)
    for call in (1, 3, 8):
        run_killed(path, tmp_path / "cut", os, name, call)
    run(path, tmp_path / "cut", resume=True)
    assert_same_bits(usual, tmp_path / "cut")


def test_a_longer_run_goes_on_from_a_finished_one(
    usual: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(recipe(data, epochs=3), tmp_path / "whole")
    out = Path(shutil.copytree(usual, tmp_path / "longer"))
    for name in (".recipe.json.77.new", "epochs/.0002.safetensors.77.new", ".state.pt.77.new"):
        (out / name).write_bytes(b"cut off")
    with caplog.at_level("INFO"):
        run(recipe(data, epochs=3), out, resume=True)
    assert_same_bits(tmp_path / "whole", out)
    assert f"{out}: removed 3 temporary files" in caplog.text and "epoch 3" in caplog.text
    assert not [file for file in out.rglob("*") if file.name.endswith(".new")]


def swap_lines(data: Path) -> None:
    for file in data.glob("pairs.*"):
        first, second, *rest = file.read_text().splitlines()
        file.write_text("\n".join([second, first, *rest]) + "\n")


def test_another_run_or_a_damaged_state_is_refused(usual: Path, data: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(usual, tmp_path / "out"))
    before = {file: file.read_bytes() for file in out.iterdir() if file.is_file()}
    with pytest.raises(ConfigError, match=r"use --resume or another --out"):
        run(recipe(data), out)
    with pytest.raises(ConfigError, match=r"\[training\] seed was 1 and is now 2"):
        run(recipe(data, "seed = 2"), out, resume=True)
    with pytest.raises(ConfigError, match=r"\[model\] dropout was 0.2 and is now 0.1"):
        run(recipe(data, dropout=0.1), out, resume=True)
    swap_lines(data)  # it could not give the result that the run would have given
    with pytest.raises(ConfigError, match=r"recipe\.json: the training text has changed"):
        run(recipe(data, epochs=9), out, resume=True)
    assert {file: file.read_bytes() for file in before} == before
    (out / "recipe.json").unlink()
    with pytest.raises(ConfigError, match="cannot resume without it"):
        run(recipe(data), out, resume=True)
    swap_lines(data)
    out = Path(shutil.copytree(usual, tmp_path / "damaged"))
    state = out / "state.pt"
    torch.save({"model": {}, "optimizer": {}, "progress": {}}, state)
    for damage in (state.read_bytes(), b"", b"PK\x03\x04 cut"):
        state.write_bytes(damage)
        with pytest.raises(CheckpointError, match=r"state\.pt: cannot resume from it"):
            run(recipe(data), out, resume=True)


def test_killed_before_its_first_state(usual: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="cannot train a tokenizer of 10 pieces"):
        run(recipe(data, vocab_size=10), out)
    run_killed(recipe(data), out, RunFolder, "save_state", 1)
    assert not (out / "state.pt").exists()
    swap_lines(data)
    with pytest.raises(ConfigError, match="the training text has changed"):
        run(recipe(data), out, resume=True)
    swap_lines(data)
    run(recipe(data), out, resume=True)
    assert_same_bits(usual, out)
    assert logged(out) == logged(usual)


def test_a_full_disk_leaves_the_state_before(tmp_path: Path) -> None:
    folder, progress = RunFolder(tmp_path), Progress(7, 1, 2, 3.5, 99)
    model = torch.nn.Linear(200, 300)
    optimizer = torch.optim.Adam(model.parameters())
    folder.save_state(model, optimizer, progress)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: .*state\.pt'"):
            folder.save_state(model, optimizer, Progress())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

    assert folder.load_state(model, optimizer, torch.device("cpu")) == progress
    assert [file.name for file in tmp_path.iterdir()] == ["state.pt"]
