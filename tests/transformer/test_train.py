"""Training: killed at any moment it goes on to the same bits; two processes make what one makes."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from transformer import train as training
from transformer.__main__ import main
from transformer.checkpoint import CheckpointError, load_checkpoint
from transformer.config import ConfigError
from transformer.data import DataError
from transformer.inputs import InputError
from transformer.recipe import Recipe
from transformer.run_folder import Progress, RunFolder
from transformer.train import Trainer, TrainingError, train

ROOT = Path(__file__).parents[2]

#: Two epochs of about nine updates; the large epsilon keeps Adam from amplifying rounding.
RECIPE = """
[model]
d_model = 12
n_heads = 3
d_ff = 16
n_encoder_layers = 1
n_decoder_layers = 2
dropout = {dropout}
max_positions = 30

[tokenizer]
vocab_size = 40

[data]
corpora = ["pairs"]
val = "held_out"

[training]
epochs = {epochs}
batch_tokens = 90
warmup = 5
average = 2
epsilon = 1e-3
precision = "float32"
save_every = {save_every}
{more}
"""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums are rounded alike in this process and in those that it starts."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with two parallel files for training and two for validation."""
    rng, folder = random.Random(0), tmp_path / "data"
    folder.mkdir()
    words = ["anna", "ben", "cara", "sees", "hears", "a", "dog", "cat", "now", "here"]
    for name, n in (("pairs", 81), ("held_out", 6)):
        rows = [[rng.choice(words) for _ in range(rng.randint(1, 6))] for _ in range(n)]
        (folder / f"{name}.en").write_text("".join(" ".join(row) + f" {n}\n" for row in rows))
        (folder / f"{name}.de").write_text("".join(" ".join(row[::-1]) + "\n" for row in rows))
    return folder


def recipe(
    folder: Path, more: str = "", *, epochs: int = 2, dropout: float = 0.2, save_every: int = 4
) -> Path:
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(epochs=epochs, dropout=dropout, save_every=save_every, more=more))
    return path


def run(path: Path, out: Path, **options: Any) -> Path:
    options = {"device": "cpu", "show_progress": False} | options
    return train(Recipe.load(str(path)), path.parent, out, **options)


def weights(out: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(out / "model.safetensors")


def assert_same_bits(out: Path, other: Path) -> None:
    assert (out / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    first, second = (torch.load(folder / "state.pt") for folder in (out, other))
    for name, tensor in first["model"].items():
        assert torch.equal(tensor, second["model"][name]), name
    for index, moments in first["optimizer"]["state"].items():
        for name, tensor in moments.items():
            assert torch.equal(tensor, second["optimizer"]["state"][index][name])
    first["progress"]["seconds"] = second["progress"]["seconds"] = 0.0
    assert first["progress"] == second["progress"]


def log_lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


class Killed(BaseException):
    """Stands for a kill where a test wants one at an exact place."""


def kill_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
    """Let the `call`-th call of owner.name raise `Killed` instead."""
    real, calls = getattr(owner, name), iter(range(1, 10**9))

    def deadly(*args: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise Killed
        return real(*args, **options)

    monkeypatch.setattr(owner, name, deadly)


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


PATHS = {
    "dropout": "",
    "r_drop": "r_drop = 2.0",
    "subword sampling": "subword_alpha = 0.2",
    "accumulation": "micro_tokens = 30\nclip_norm = 1.0",
    "cooldown": "cooldown = 0.5\npeak_lr = 1e-2",
    "bfloat16": 'precision = "bfloat16"',
}


@pytest.mark.parametrize("name", PATHS)
def test_resuming_in_mid_epoch_gives_the_same_bits(
    name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PATHS[name]
    path = recipe(data, text)
    if "precision" in text:
        path.write_text(path.read_text().replace('precision = "float32"\n', ""))
    run(path, tmp_path / "whole")
    # Killed in the first epoch with a state behind it, then between two saves of the second.
    for call in (6, 12):
        with monkeypatch.context() as patch:
            kill_at(patch, Trainer, "update", call)
            with pytest.raises(Killed):
                run(path, tmp_path / "cut", resume=True)
    run(path, tmp_path / "cut", resume=True)
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


def test_log_lines_come_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "LOG_EVERY", 1)
    path = recipe(data, save_every=1)
    run(path, tmp_path / "whole")
    whole = [
        (line["kind"], line["update"], line["epoch"]) for line in log_lines(tmp_path / "whole")
    ]
    n_first = next(update for kind, update, _ in whole if kind == "epoch")
    # Between the line of the first epoch's end and the state that follows it, and elsewhere.
    for call in (n_first + 1, 3):
        with monkeypatch.context() as patch:
            kill_at(patch, RunFolder, "save_state", call)
            with pytest.raises(Killed):
                run(path, tmp_path / "cut", resume=True)
    with open(tmp_path / "cut" / "metrics.jsonl", "a") as file:
        file.write('{"kind": "update", "upda')  # cut off in the middle of a line
    run(path, tmp_path / "cut", resume=True)
    cut = [(line["kind"], line["update"], line["epoch"]) for line in log_lines(tmp_path / "cut")]
    assert cut == whole
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


#: Starts the run again and again in forked processes. Each is killed at one of the calls that make
#: a file safe or name it, a later one each time: before, within and after saves of every kind.
KILLS_WITHIN_SAVES = """
import os, signal, sys
from transformer import train  # what takes long to import
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


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


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
    path = recipe(data, epochs=20, save_every=3)
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


def test_two_processes_match_one(data: Path, tmp_path: Path) -> None:
    """Real torchrun with gloo; odd batches and those of one row leave a rank with less or none."""
    longest = " ".join(["dog"] * 16)  # a batch of its own
    for end in ("en", "de"):
        with open(data / f"pairs.{end}", "a") as file:
            file.write(longest + "\n")
    path = recipe(data, "micro_tokens = 40\nclip_norm = 1.0", epochs=1, dropout=0.0)
    run(path, tmp_path / "one")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    command += ["-m", "transformer", "train", str(path), "--data", str(data)]
    command += ["--out", str(tmp_path / "two"), "--device", "cpu", "--quiet"]
    done = subprocess.run(
        command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=1e-6, rtol=1e-5)
    first, second = log_lines(tmp_path / "one")[-1], log_lines(tmp_path / "two")[-1]
    assert first["val_nll"] == pytest.approx(second["val_nll"], abs=1e-5)
    assert first["tokens"] == second["tokens"]
    about = json.loads((tmp_path / "two" / "metrics.json").read_text())["training"]
    assert about["processes"] == 2


@pytest.mark.parametrize("more", ["micro_tokens = 25", "micro_tokens = 1", "micro_tokens = 9999"])
def test_accumulated_gradients_equal_one_part(data: Path, tmp_path: Path, more: str) -> None:
    run(recipe(data, epochs=1, dropout=0.0), tmp_path / "one")
    run(recipe(data, more, epochs=1, dropout=0.0), tmp_path / "parts")
    parts = weights(tmp_path / "parts")
    for name, tensor in weights(tmp_path / "one").items():
        torch.testing.assert_close(parts[name], tensor, atol=1e-5, rtol=1e-4)


def test_the_result_is_the_mean_of_the_last_epochs(data: Path, tmp_path: Path) -> None:
    out = run(recipe(data, epochs=3), tmp_path / "out")
    files = sorted((out / "epochs").iterdir())
    assert [file.name for file in files] == ["0002.safetensors", "0003.safetensors"]
    second, third = (safetensors.torch.load_file(file) for file in files)
    for name, tensor in weights(out).items():
        torch.testing.assert_close(tensor, (second[name] + third[name]) / 2, atol=1e-7, rtol=1e-6)
    state = torch.load(out / "state.pt")["model"]
    assert torch.equal(state["src_embedding.weight"], third["src_embedding.weight"])


def test_the_last_weights_of_a_run_cut_short_count(data: Path, tmp_path: Path) -> None:
    """With max_updates inside an epoch, its weights at that point are one of those averaged."""
    path = recipe(data, "max_updates = 12")
    path.write_text(path.read_text().replace("average = 2", "average = 1"))
    out = run(path, tmp_path / "out")
    assert log_lines(out)[-1]["update"] <= 12
    last = torch.load(out / "state.pt")
    assert last["progress"]["update"] == 12
    assert last["progress"]["batch"] > 0
    for name, tensor in weights(out).items():
        assert torch.equal(tensor, last["model"][name])


def test_a_longer_run_goes_on_from_a_finished_one(data: Path, tmp_path: Path) -> None:
    run(recipe(data, epochs=3), tmp_path / "whole")
    run(recipe(data, epochs=2), tmp_path / "longer")
    run(recipe(data, epochs=3), tmp_path / "longer", resume=True)
    assert_same_bits(tmp_path / "whole", tmp_path / "longer")


def test_another_run_is_refused(data: Path, tmp_path: Path) -> None:
    out = run(recipe(data), tmp_path / "out")
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(ConfigError, match=r"holds a run already; use --resume or another --out"):
        run(recipe(data), out)
    with pytest.raises(ConfigError, match=r"\[training\] seed was 1 and is now 2"):
        run(recipe(data, "seed = 2"), out, resume=True)
    with pytest.raises(ConfigError, match=r"\[model\] dropout was 0.2 and is now 0.1"):
        run(recipe(data, dropout=0.1), out, resume=True)
    assert (out / "model.safetensors").read_bytes() == before
    (out / "recipe.json").unlink()
    with pytest.raises(ConfigError, match="cannot resume without it"):
        run(recipe(data), out, resume=True)


def test_a_run_that_never_began_can_be_corrected(data: Path, tmp_path: Path) -> None:
    """Nothing is lost, so a mistake in the first recipe does not block the folder."""
    path = recipe(data)
    text = path.read_text()
    path.write_text(text.replace("vocab_size = 40", "vocab_size = 10"))
    with pytest.raises(ValueError, match="cannot train a tokenizer of 10 pieces"):
        run(path, tmp_path / "out")
    path.write_text(text)
    run(path, tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", "whole"])
def test_a_damaged_state_is_named(data: Path, tmp_path: Path, content: bytes | str) -> None:
    out = run(recipe(data), tmp_path / "out")
    state = out / "state.pt"
    if isinstance(content, bytes):
        state.write_bytes(content)
    else:
        torch.save({"model": {}, "optimizer": {}, "progress": {}}, state)
    with pytest.raises(CheckpointError, match=r"state\.pt: cannot resume from it"):
        run(recipe(data), out, resume=True)


def test_a_loss_that_is_no_number_ends_the_run(data: Path, tmp_path: Path) -> None:
    path = recipe(data, "peak_lr = 1e18", save_every=1)
    with pytest.raises(TrainingError, match=r"the loss at update \d+ is not finite.*peak_lr"):
        run(path, tmp_path / "out")


def test_starting_from_another_checkpoint(data: Path, tmp_path: Path) -> None:
    """Its weights and its tokenizer, although the new text would give other pieces."""
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
            "train.en: no such file (nor train.en.gz); --download",
        ),
        ("[data]\ncorpora = ['tatoeba']\n", "en-de.tsv: no such file (nor en-de.tsv.gz); --downl"),
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


def test_partial_files_are_never_read(data: Path, tmp_path: Path) -> None:
    out = run(recipe(data), tmp_path / "whole")
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "state.pt.partial").write_bytes(b"cut off")
    (cut / "epochs").mkdir()
    (cut / "epochs" / ".0001.safetensors.77.new").write_bytes(b"cut off")
    run(recipe(data), cut, resume=True)
    assert_same_bits(out, cut)


def test_progress_is_what_it_was(tmp_path: Path) -> None:
    folder, progress = RunFolder(tmp_path), Progress(7, 1, 2, 3.5, 99)
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters())
    folder.save_state(model, optimizer, progress)
    assert folder.load_state(model, optimizer, torch.device("cpu")) == progress
