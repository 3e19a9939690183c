"""Training: what a run leaves behind."""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.transformer.training.runs import (
    log_lines,
    recipe,
    run,
    weights,
)
from transformer.__main__ import main
from transformer.checkpoint.folder import load_checkpoint
from transformer.config import ConfigError
from transformer.errors import CheckpointError, InputError
from transformer.text.tokenizer import EOS_ID, PAD_ID, UNK_ID
from transformer.training.corpus import load_corpus
from transformer.training.data import DataError, collate
from transformer.training.recipe import DataRecipe
from transformer.training.trainer import TrainingError, snapshot_updates, with_word_dropout


def test_a_run_leaves_a_checkpoint(data: Path, tmp_path: Path) -> None:
    path, out = recipe(data), tmp_path / "out"
    assert run(path, out) == out
    checkpoint = load_checkpoint(out)
    about = checkpoint.metrics["training"]
    assert about["recipe"]["training"]["batch_tokens"] == 90
    assert about["epochs"] == 2
    assert about["averaged_epochs"] == 2
    assert about["updates"] == log_lines(out)[-1]["update"] > 10
    assert about["val_nll"] == pytest.approx(log_lines(out)[-1]["val_nll"], abs=0.2)
    assert sorted(file.name for file in out.iterdir()) == [
        "config.json", "epochs", "metrics.json", "metrics.jsonl", "model.safetensors",
        "recipe.json", "state.pt", "tokenizer.model",
    ]  # fmt: skip


def test_training_learns(data: Path, tmp_path: Path) -> None:
    run(recipe(data, "peak_lr = 2e-2", epochs=12, dropout=0.0), tmp_path / "out")
    losses = [line["val_nll"] for line in log_lines(tmp_path / "out") if line["kind"] == "epoch"]
    assert losses[-1] < 0.9 * losses[0]


def test_the_result_is_the_mean_of_the_last_epochs(data: Path, tmp_path: Path) -> None:
    out = run(recipe(data, epochs=3), tmp_path / "out")
    files = sorted((out / "epochs").iterdir())
    assert [file.name for file in files] == ["0002.safetensors", "0003.safetensors"]
    second, third = (safetensors.torch.load_file(file) for file in files)
    for name, tensor in weights(out).items():
        torch.testing.assert_close(tensor, (second[name] + third[name]) / 2, atol=1e-7, rtol=1e-6)
    state = torch.load(out / "state.pt", weights_only=True)["model"]
    assert torch.equal(state["src_embedding.weight"], third["src_embedding.weight"])


def test_snapshots_lie_evenly_in_the_log_of_updates(data: Path, tmp_path: Path) -> None:
    out = run(recipe(data, "snapshots = 5"), tmp_path / "out")
    files = sorted((out / "snapshots").iterdir())
    last = log_lines(out)[-1]["update"]
    updates = [int(file.stem) for file in files]
    assert updates[:2] == [0, 1] and updates[-1] == last and len(updates) == 5
    steps = [math.log(after / before) for before, after in itertools.pairwise(updates[1:])]
    assert max(steps) - min(steps) < 0.6
    final = safetensors.torch.load_file(files[-1])
    state = torch.load(out / "state.pt", weights_only=True)["model"]
    for name, tensor in final.items():
        assert torch.equal(tensor, state[name].half())
    assert "generator.weight" not in final


def test_the_first_snapshot_may_come_later() -> None:
    updates = sorted(snapshot_updates(12, 16, 3000))
    assert updates[:2] == [0, 16] and len(updates) == 11
    ratios = [after / before for before, after in itertools.pairwise([*updates[1:], 3000])]
    assert max(ratios) / min(ratios) < 1.1
    assert snapshot_updates(12, 16, 9) == {0, 9}
    assert snapshot_updates(0, 1, 100) == set()


def test_a_repeated_corpus_is_read_as_often_and_held_out_once(tmp_path: Path) -> None:
    pairs = [f"source {n}\tSatz {n}\n" for n in range(2000)]
    (tmp_path / "p.tsv").write_text("".join(pairs))
    once = load_corpus(DataRecipe(("p.tsv",)), tmp_path)
    thrice = load_corpus(DataRecipe(("p.tsv",) * 3), tmp_path)
    assert thrice.train == once.train * 3
    assert (thrice.val, thrice.tests) == (once.val, once.tests)


def test_word_dropout_hides_a_share_of_the_source() -> None:
    batch = collate([[5] * 400, [6] * 300], [[7, 8]] * 2)
    hidden = with_word_dropout(batch, 0.25)
    assert torch.equal(hidden.tgt_in, batch.tgt_in)
    gaps = hidden.src == UNK_ID
    assert 0.15 < gaps.sum() / 700 < 0.35
    assert torch.equal(hidden.src[~gaps], batch.src[~gaps])
    assert not gaps[(batch.src == PAD_ID) | (batch.src == EOS_ID)].any()


def test_the_last_weights_of_a_run_cut_short_count(data: Path, tmp_path: Path) -> None:
    """If max_updates ends the run within an epoch, its last weights are averaged too."""
    path = recipe(data, "max_updates = 12")
    path.write_text(path.read_text().replace("average = 2", "average = 1"))
    out = run(path, tmp_path / "out")
    assert log_lines(out)[-1]["update"] <= 12
    last = torch.load(out / "state.pt", weights_only=True)
    assert last["progress"]["update"] == 12
    assert last["progress"]["batch"] > 0
    for name, tensor in weights(out).items():
        assert torch.equal(tensor, last["model"][name])


def test_a_loss_that_is_no_number_ends_the_run(data: Path, tmp_path: Path) -> None:
    path = recipe(data, "peak_lr = 1e18", save_every=1)
    with pytest.raises(TrainingError, match=r"the loss at update \d+ is not finite.*peak_lr"):
        run(path, tmp_path / "out")


def test_starting_from_another_checkpoint(data: Path, tmp_path: Path) -> None:
    """Takes its weights and its tokenizer, although the new text would give other pieces."""
    first = run(recipe(data), tmp_path / "first")
    for end in ("en", "de"):
        lines = (data / f"pairs.{end}").read_text().replace("dog", "zebu")
        (data / f"pairs.{end}").write_text(lines)
    path = recipe(data, f'init = "{first}"\npeak_lr = 1e-12', epochs=1)
    second = run(path, tmp_path / "second")
    assert (second / "tokenizer.model").read_bytes() == (first / "tokenizer.model").read_bytes()
    for name, tensor in weights(first).items():
        torch.testing.assert_close(weights(second)[name], tensor, atol=1e-6, rtol=0)
    (first / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"first/model\.safetensors"):
        run(path, tmp_path / "third")


def test_one_file_of_pairs(data: Path, tmp_path: Path) -> None:
    """A TSV and a CSV of the same pairs train the same model; sources are held out of both."""
    src, tgt = ((data / f"pairs.{end}").read_text().splitlines() for end in ("en", "de"))
    pairs = list(zip(src, tgt, strict=True))
    (data / "p.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    (data / "p.csv").write_text("de,en\n" + "".join(f"{b},{a}\n" for a, b in pairs))
    for name in ("p.tsv", "p.csv"):
        path = recipe(data)
        text = path.read_text().replace('"pairs"', f'"{name}"').replace('val = "held_out"\n', "")
        path.write_text(text)
        run(path, tmp_path / name)
    tsv, csv = weights(tmp_path / "p.tsv"), weights(tmp_path / "p.csv")
    assert all(torch.equal(tensor, csv[name]) for name, tensor in tsv.items())


def test_without_validation_text_nothing_is_made_up(data: Path, tmp_path: Path) -> None:
    (data / "held_out.en").write_text("")
    (data / "held_out.de").write_text("")
    out = run(recipe(data), tmp_path / "out")
    assert all("val_nll" not in line for line in log_lines(out))
    assert json.loads((out / "metrics.json").read_text())["training"]["val_nll"] is None


def test_tensorboard_on_request(data: Path, tmp_path: Path) -> None:
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    out = run(recipe(data), tmp_path / "out", tensorboard=True)
    events = event_accumulator.EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("val_nll")] == [
        line["update"] for line in log_lines(out) if line["kind"] == "epoch"
    ]


def test_tensorboard_that_is_missing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match="pip install tensorboard"):
        run(recipe(data), tmp_path / "out", tensorboard=True)


def test_other_devices_and_texts_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="device 'tpu' is not here"):
        run(recipe(data), tmp_path / "out", device="tpu")
    path = recipe(data)
    path.write_text(path.read_text().replace("max_positions = 30", "max_positions = 1"))
    with pytest.raises(ConfigError, match="no training pair has from 1 to 0 tokens"):
        run(path, tmp_path / "short")
    (data / "pairs.de").unlink()
    with pytest.raises(DataError, match=r"pairs\.de: no such file"):
        run(recipe(data), tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[data]\ncorpora = ['multi30k']\n",
            "train.en: no such file (nor train.en.gz); use --download",
        ),
        ("[data]\ncorpora = ['tatoeba']\n", "en-de.tsv: no such file (nor en-de.tsv.gz); use --"),
        ("[data]\ncorpora = ['my.tsv']\n", "my.tsv: no such file"),
        ("[training]\nepochs = 'a'\n", "epochs='a' should be a whole number"),
        ("[model\n", "not valid TOML"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.toml").write_text(text)
    arguments = ["train", str(tmp_path / "r.toml"), "--data", str(tmp_path)]
    assert main([*arguments, "--out", str(tmp_path / "out"), "--device", "cpu"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not captured.out
