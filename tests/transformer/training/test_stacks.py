"""Models of one stack: recipes, what they are asked, and runs that end in checkpoints."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.transformer.training.runs import log_lines, recipe, run
from transformer.catalogue import inspect_entry, open_tracer
from transformer.config import ConfigError
from transformer.one_stack.files import MASK, load_stack
from transformer.one_stack.tracer import StackModel
from transformer.text.tokenizer import EOS_ID, PAD_ID
from transformer.training.corpus import load_corpus, one_side
from transformer.training.data import collate
from transformer.training.recipe import DataRecipe, Recipe
from transformer.training.snapshots import keep_snapshots
from transformer.training.tasks import MASKED, PREDICTED, UNCHANGED, continuation, masked_tokens

TASKS = ("continue", "fill", "translate")


def stacked(data: Path, task: str, more: str = "", **settings: object) -> Path:
    return recipe(data, f'{more}\n[stack]\ntask = "{task}"\nn_layers = 2\n', **settings)


@pytest.mark.parametrize("task", TASKS)
def test_a_run_learns_and_leaves_its_moments(task: str, data: Path, tmp_path: Path) -> None:
    path = stacked(data, task, "snapshots = 3\npeak_lr = 2e-2", epochs=5, average=1, dropout=0.0)
    out = run(path, tmp_path / "out")
    losses = [line["val_nll"] for line in log_lines(out) if line["kind"] == "epoch"]
    assert losses[-1] < 0.97 * losses[0]
    found = load_stack(out)
    assert found.model.config.task == task and found.model.config.n_layers == 2
    assert (f"▁{MASK}" in found.tokenizer.pieces) == (task == "fill")
    assert found.metrics["training"]["recipe"]["stack"] == {"task": task, "n_layers": 2}
    assert StackModel.load(out, "cpu").trace("anna sees ben").source == "anna sees ben"
    keep_snapshots(out, out, data)
    _check_moments(out, losses[-1])


def _check_moments(out: Path, val_nll: float) -> None:
    """The snapshots of a run are checkpoints; the last one is the run's own end."""
    whole = inspect_entry(out)
    last_moment = whole.history.snapshots[-1]
    assert whole.relation == "end" and last_moment.val_nll == pytest.approx(val_nll, abs=0.02)
    entry = whole.after(0)
    assert inspect_entry(entry.path) == entry and entry.kind == "one_stack"
    finished, first, last = (
        open_tracer(whole.after(each).path, "cpu") for each in (None, 0, last_moment.updates)
    )
    assert first.name == "out@0"
    maps = [  # of the first tokens, which are the same for all
        each.trace("anna sees ben").attention(finished.kinds[0])[..., :3, :3]
        for each in (finished, first, last)
    ]
    assert np.abs(maps[1] - maps[0]).max() > 5 * np.abs(maps[2] - maps[0]).max()


def test_a_continuation_reads_one_side_once(data: Path) -> None:
    batch = continuation(collate([[7, 8], [9]], [[7, 8], [9]]))
    assert batch.src.shape == (2, 0) and batch.tgt_in.tolist() == [[1, 7, 8], [1, 9, 0]]
    corpus = load_corpus(DataRecipe(("pairs",), val="held_out"), data)
    alone = one_side(corpus)
    assert [src for src, _ in alone.train] == list(dict.fromkeys(src for src, _ in corpus.train))
    assert all(src == tgt for src, tgt in (*alone.train, *alone.val))


def test_masked_tokens_are_those_of_bert() -> None:
    torch.manual_seed(3)
    mask, size = 50, 51
    texts = [[20 + (row + place) % 20 for place in range(30)] for row in range(400)]
    batch = masked_tokens(collate(texts, texts), mask, size)
    original = torch.tensor([[1, *text, EOS_ID] for text in texts])
    asked = batch.tgt_out != PAD_ID
    assert torch.equal(batch.tgt_out[asked], original[asked])
    assert torch.equal(batch.tgt_in[~asked], original[~asked])
    assert not asked[:, [0, -1]].any()
    share = asked[:, 1:-1].float().mean()
    assert share == pytest.approx(PREDICTED, abs=0.01)
    shown = batch.tgt_in[asked]
    hidden, kept = (shown == mask).float().mean(), (shown == original[asked]).float().mean()
    assert hidden == pytest.approx(MASKED, abs=0.03)
    assert kept == pytest.approx(UNCHANGED, abs=0.03)
    assert shown.min() >= 4


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("n_layers = 2", "needs a task"), ('task = "paint"', "continue, fill, translate"),
        ('task = "fill"\nn_layers = 0', "at least 1"),
        ('task = "fill"\ncolour = 1', "unknown setting"),
    ],
)  # fmt: skip
def test_bad_stacks_are_named(table: str, reason: str, data: Path) -> None:
    path = recipe(data, f"[stack]\n{table}")
    with pytest.raises(ConfigError, match=reason):
        Recipe.load(str(path))
    with pytest.raises(ConfigError, match="two stacks"):
        Recipe.load(str(stacked(data, "fill", 'init = "somewhere"\ngrow = true')))
