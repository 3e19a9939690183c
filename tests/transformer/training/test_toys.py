from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from transformer.checkpoint.folder import load_checkpoint
from transformer.config import ConfigError
from transformer.training.data import collate
from transformer.training.toys.files import KEPT, Control, map_updates, read_maps, read_probe
from transformer.training.toys.run import Lane, ToyRun
from transformer.training.toys.settings import (
    TASKS,
    NoResidual,
    ToySettings,
    make_corpus,
    make_tokenizer,
)
from transformer.training.watching import read_metrics
from transformer.worker.job import Job

TINY = ToySettings(d_model=16, n_heads=2, n_layers=1, updates=12, warmup=4)


@pytest.mark.parametrize(("task", "source", "answer"), [
    ("reverse", "abca", "acba"), ("copy", "abca", "abca"), ("sort", "cabc", "abcc"),
    ("add", "38+07", "045"), ("translate", "red dog black cat", "chien rouge chat noir"),
])  # fmt: skip
def test_tasks_hold_text_out_and_know_its_pieces(task: str, source: str, answer: str) -> None:
    assert TASKS[task].answer(source) == answer
    corpus = make_corpus(task, 600)
    assert corpus.val[0][0] == TASKS[task].probe and len(corpus.val) > 5
    assert not {pair[0] for pair in corpus.val} & {pair[0] for pair in corpus.train}
    tokenizer = make_tokenizer(task, corpus)
    for pair in corpus.val[:20]:
        ids = tokenizer.encode_many(pair)
        assert tokenizer.unk_id not in (ids[0] + ids[1])
        assert tuple(map(tokenizer.decode, ids)) == pair


def test_without_residual_a_layer_returns_its_normalised_output() -> None:
    from transformer.hooks import Context
    from transformer.layers import EncoderLayer

    layer = EncoderLayer(TINY.model(20))
    x = torch.randn(2, 5, 16)
    inner = layer.around_self.norm(layer.self_attention(x, x))
    expected = layer.around_feed_forward.norm(layer.feed_forward(inner))
    changed = layer(x, None, Context("encoder", NoResidual()).layer(0))
    assert torch.allclose(changed, expected, atol=1e-5)


@pytest.mark.parametrize("change", ["no_scaling", "no_positions"])
def test_a_kept_model_computes_what_was_trained(change: str, tmp_path: Path) -> None:
    lane = Lane(replace(TINY, change=change), tmp_path / "0")
    assert lane.step()[0] > 0
    batch = collate(lane._held_out[0][:3], lane._held_out[1][:3])
    with torch.no_grad():
        expected = lane.model(batch.src, batch.tgt_in, lane.objective.hooks)
    kept = load_checkpoint(lane.save(tmp_path / "kept", 0.5)).model
    with torch.no_grad():
        assert torch.allclose(kept(batch.src, batch.tgt_in), expected, atol=1e-4)
        first, second = kept.embed_source(batch.src[:1, :1].expand(1, 2))[0]
    # Without positions the same token is the same vector everywhere.
    assert torch.equal(first, second) == (change == "no_positions")


class Watched(Job[bool]):
    """Changes its request when a run pauses, by the number of updates."""

    def __init__(self, script: dict[int, Control]) -> None:
        super().__init__()
        self.script, self.request, self.last = script, Control("pause"), -1

    def __call__(self, step: int, most: int) -> None:
        super().__call__(step, most)
        if self.last == step:  # paused for a second look
            self.request = self.script.get(step, self.request)
        self.last = step


def test_a_paused_run_steps_continues_and_stops_on_request(tmp_path: Path) -> None:
    script = {0: Control("pause", until=1), 1: Control("pause", until=3), 3: Control(factor=3.0)}
    job = Watched(script)
    run = ToyRun(tmp_path, [TINY, replace(TINY, change="one_head")], job)
    rates: list[float] = []
    step: Callable[[], None] = run._step

    def counted() -> None:
        rates.append(run.factor)
        step()
        if run.update == 6:
            job.ask(Control("stop"))

    run._step = counted  # type: ignore[method-assign]
    assert not run.run()
    assert rates == [1.0] * 3 + [3.0] * 3 and job.progress == (6, 12)
    for number in (0, 1):
        lane = tmp_path / str(number)
        assert map_updates(lane) == [0, 1, 3, 6]
        assert {line["update"] for line in read_metrics(lane)} >= {1, 5, 6}
        source, target = read_probe(lane) or ([], [])
        assert read_maps(lane, 6)["cross"].shape == (1, 2 - number, len(target), len(source))
        assert load_checkpoint(lane / KEPT).config.n_heads == 2 - number


def test_pauses_and_settings_have_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.training.toys.run.MOST_PAUSE", 0.0)
    assert not ToyRun(tmp_path, [TINY], Watched({})).run()
    assert not (tmp_path / "0" / KEPT).exists()
    for wrong in ({"task": "x"}, {"d_model": 4096}, {"n_heads": 3}, {"peak_lr": 9.0}, {"seed": 0}):
        with pytest.raises(ConfigError):
            replace(TINY, **wrong)


def test_a_diverging_job_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Lane.step

    def spoiled(self: Lane, factor: float = 1.0) -> tuple[float, float]:
        if self.progress.update == 3:
            self.trainer.model.src_embedding.weight.data.fill_(torch.inf)
        return real(self, factor)

    monkeypatch.setattr(Lane, "step", spoiled)
    job: Job[bool] = Job()
    job.start(lambda job: ToyRun(tmp_path, [TINY], job).run())
    assert job.ended(60) and job.progress == (3, 12)
    assert job.phase == "failed" and "not finite" in job.error
