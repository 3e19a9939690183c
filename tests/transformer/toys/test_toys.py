"""Toy tasks, the changes to the model, and the protocol of a job."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from transformer.checkpoint.folder import load_checkpoint
from transformer.config import ConfigError
from transformer.toys import job
from transformer.toys.files import (
    KEPT,
    Control,
    JobFolder,
    map_updates,
    read_maps,
    read_probe,
)
from transformer.toys.job import Job, run_job
from transformer.toys.lane import Lane
from transformer.toys.settings import NoResidual, ToySettings
from transformer.toys.tasks import TASKS, make_corpus, make_tokenizer
from transformer.training.data import collate
from transformer.training.watching import read_metrics

TINY = ToySettings(d_model=16, n_heads=2, n_layers=1, updates=12, warmup=4)


def never() -> bool:
    raise AssertionError("waited without being paused")


@pytest.mark.parametrize(
    ("task", "source", "answer"),
    [
        ("reverse", "abca", "acba"), ("copy", "abca", "abca"), ("sort", "cabc", "abcc"),
        ("add", "38+07", "045"), ("translate", "red dog black cat", "chien rouge chat noir"),
    ],
)  # fmt: skip
def test_tasks_hold_out_text_and_cut_it_without_unknown_pieces(
    task: str, source: str, answer: str
) -> None:
    assert TASKS[task].answer(source) == answer
    corpus = make_corpus(task, 600)
    assert corpus.val[0][0] == TASKS[task].probe and len(corpus.val) > 5
    assert not {pair[0] for pair in corpus.val} & {pair[0] for pair in corpus.train}
    tokenizer = make_tokenizer(task, corpus)
    for pair in corpus.val[:20]:
        ids = tokenizer.encode_many(pair)
        assert tokenizer.unk_id not in (ids[0] + ids[1])
        assert tuple(tokenizer.decode(each) for each in ids) == pair


def test_without_residual_a_layer_returns_its_normalised_output() -> None:
    from transformer.context import Context
    from transformer.layers import EncoderLayer

    layer = EncoderLayer(TINY.model(20))
    x = torch.randn(2, 5, 16)
    inner = layer.around_self.norm(layer.self_attention(x, x))
    expected = layer.around_feed_forward.norm(layer.feed_forward(inner))
    assert torch.allclose(
        layer(x, None, Context("encoder", NoResidual()).layer(0)), expected, atol=1e-5
    )


@pytest.mark.parametrize("change", ["no_scaling", "no_positions"])
def test_a_kept_model_computes_what_was_trained(change: str, tmp_path: Path) -> None:
    lane = Lane(TINY.replace(change=change), tmp_path / "0")
    before = lane.step()[0]
    assert before > 0
    batch = collate(lane._held_out[0][:3], lane._held_out[1][:3])
    with torch.no_grad():
        expected = lane.objective.logits(batch.src, batch.tgt_in)
    kept = load_checkpoint(lane.save(tmp_path / "kept", 0.5)).model
    with torch.no_grad():
        assert torch.allclose(kept(batch.src, batch.tgt_in), expected, atol=1e-4)
        moved = kept.embed_source(batch.src[:1, :1]) - kept.embed_source(
            batch.src[:1, :1].expand(1, 2)
        )
    # Without positions the same token is the same vector everywhere.
    assert bool((moved == 0).all()) == (change == "no_positions")


def test_a_paused_job_steps_goes_on_and_stops_when_asked(tmp_path: Path) -> None:
    folder = JobFolder.create(tmp_path / "job", [TINY, TINY.replace(change="one_head")])
    folder.ask(Control("pause"))
    seen: list[tuple[str, int]] = []

    def wait() -> bool:
        seen.append((folder.status().phase, folder.status().update))
        script: list[Control] = [
            Control("pause", until=1), Control("pause", until=3), Control("run", factor=3.0),
        ]  # fmt: skip
        folder.ask(script[len(seen) - 1])
        return True

    job = Job(folder, wait)
    rates: list[float] = []
    step: Callable[[], None] = job._step

    def counted() -> None:
        rates.append(job.factor)
        step()
        if job.update == 6:
            folder.ask(Control("stop"))

    job._step = counted  # type: ignore[method-assign]
    assert job.run() == "stopped"
    assert seen == [("paused", 0), ("paused", 1), ("paused", 3)]
    assert rates == [1.0] * 3 + [3.0] * 3
    assert folder.status().update == 6 and not folder.status().live
    for lane in (0, 1):
        assert map_updates(folder.lane(lane)) == [0, 1, 3, 6]
        assert {line["update"] for line in read_metrics(folder.lane(lane))} >= {1, 5, 6}
        source, target = read_probe(folder.lane(lane)) or ([], [])
        cross = read_maps(folder.lane(lane), 6)["cross"]
        assert cross.shape == (1, 2 - lane, len(target), len(source))
        assert load_checkpoint(folder.lane(lane) / KEPT).config.n_heads == 2 - lane


def test_a_job_nobody_waits_for_ends(tmp_path: Path) -> None:
    folder = JobFolder.create(tmp_path / "job", [TINY])
    folder.ask(Control("pause"))
    assert run_job(folder.path, lambda: False).phase == "stopped"
    assert not (folder.lane(0) / KEPT).exists()


def test_a_diverging_job_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Lane.step

    def spoiled(self: Lane, factor: float = 1.0) -> tuple[float, float]:
        if self.progress.update == 3:
            self.trainer.model.src_embedding.weight.data.fill_(torch.inf)
        return real(self, factor)

    monkeypatch.setattr(Lane, "step", spoiled)
    folder = JobFolder.create(tmp_path / "job", [TINY])
    status = run_job(folder.path, never)
    assert (status.phase, status.update) == ("failed", 3)
    assert "not finite" in status.error and "\n" not in status.error


def test_settings_out_of_bounds_are_refused() -> None:
    for wrong in ({"task": "x"}, {"d_model": 4096}, {"n_heads": 3}, {"peak_lr": 9.0}, {"seed": 0}):
        with pytest.raises(ConfigError):
            TINY.replace(**wrong)
    with pytest.raises(ConfigError):
        ToySettings.from_dict({"path": "/"})


def test_a_job_without_room_for_its_files_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = JobFolder.create(tmp_path / "job", [TINY])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JobFolder, "tell", full)
    assert run_job(folder.path, never).error == "No space left on device"
    monkeypatch.setattr(job.sys, "argv", ["job", str(folder.path), str(os.getppid())])
    with pytest.raises(SystemExit) as ended:
        job.main()
    assert ended.value.code == job.DISK_FULL


def test_a_job_whose_server_was_killed_before_it_began_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = JobFolder.create(tmp_path / "job", [TINY])
    monkeypatch.setattr(job.sys, "argv", ["job", str(folder.path), str(os.getpid())])
    job.main()
    assert folder.status().phase == "stopped" and folder.status().update == 0
