from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.tiny_models import SENTENCES, trained_model
from tests.transformer.training.runs import log_lines, recipe, run
from transformer.checkpoint.folder import Checkpoint, load_checkpoint, save_checkpoint
from transformer.config import ConfigError, ModelConfig
from transformer.model import Transformer
from transformer.models.catalogue import inspect_entry, open_tracer
from transformer.models.one_stack.model import MASK, load_stack
from transformer.models.one_stack.tracer import StackModel
from transformer.text.tokenizer import EOS_ID, PAD_ID, UNK_ID, Tokenizer, train_tokenizer
from transformer.training.corpus import load_corpus, one_side
from transformer.training.data import collate
from transformer.training.grow import Axis, grown
from transformer.training.objective import MASKED, PREDICTED, UNCHANGED, continuation, masked_tokens
from transformer.training.recipe import DataRecipe, Recipe
from transformer.training.snapshots import keep_snapshots


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    tokenizer = train_tokenizer(SENTENCES, 100)
    config = ModelConfig(
        vocab_size=100, d_model=32, n_heads=4, d_ff=48, n_encoder_layers=2, n_decoder_layers=2,
        max_positions=60,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("small")
    save_checkpoint(folder, trained_model(config, tokenizer), tokenizer, metrics={})
    return load_checkpoint(folder)


def built(config: ModelConfig, weights: dict[str, Tensor]) -> Transformer:
    model = Transformer(config)
    model.load_state_dict(weights)
    return model.eval()


def log_probabilities(model: Transformer, tokenizer: Tokenizer) -> Tensor:
    ids = tokenizer.encode_many(SENTENCES)
    batch = collate(ids[::2], ids[1::2])
    with torch.no_grad():
        logits = model(batch.src, batch.tgt_in)
    chosen = logits.log_softmax(-1).gather(-1, batch.tgt_out[..., None])[..., 0]
    return chosen[batch.tgt_out != model.config.pad_id]


@pytest.mark.parametrize(("d_model", "d_ff"), [(64, 96), (64, 48), (32, 96), (32, 48)])
def test_wider_models_keep_all_but_sinusoids(small: Checkpoint, d_model: int, d_ff: int) -> None:
    before = log_probabilities(small.model, small.tokenizer)
    config = small.config.replace(d_model=d_model, d_ff=d_ff)
    wide = built(config, grown(small, config, small.tokenizer))
    assert abs(log_probabilities(wide, small.tokenizer).mean() - before.mean()) < 0.25
    expected = small.model.src_positions.table[:, Axis.stream(32, d_model).index]
    same = Axis.stream(32, d_model).sign > 0  # half of a doubled stream
    assert torch.equal(wide.src_positions.table[:, same], expected[:, same])
    for positions in (wide.src_positions, wide.tgt_positions):
        positions.table = expected
    torch.testing.assert_close(log_probabilities(wide, small.tokenizer), before, atol=1e-4, rtol=0)
    # The gradients of two halves differ, so that they do not remain copies.
    wide.requires_grad_(True)
    ids = small.tokenizer.encode_many(SENTENCES)
    batch = collate(ids[::2], ids[1::2])
    wide(batch.src, batch.tgt_in).logsumexp(-1).sum().backward()
    for name, axis in (("w_1", Axis.doubled(48, d_ff)), ("w_2", Axis.stream(32, d_model))):
        gradient = getattr(wide.encoder[0].feed_forward, name).weight.grad
        first, second = gradient[axis.sign > 0], gradient[axis.sign < 0]
        if len(first):
            assert (first - second).abs().max() > 0.01 * first.abs().max(), name


def test_new_pieces_start_as_the_mean_of_those_that_spelled_them(small: Checkpoint) -> None:
    tokenizer = train_tokenizer([*SENTENCES, "Ein Xylophon spielt Musik."] * 3, 120)
    weights = grown(small, small.config.replace(vocab_size=120), tokenizer)["src_embedding.weight"]
    old = small.model.src_embedding.weight
    ids = {piece: index for index, piece in enumerate(small.tokenizer.pieces)}
    assert len([piece for piece in tokenizer.pieces if piece not in ids]) >= 20
    for index, piece in enumerate(tokenizer.pieces):
        spelled = [ids[piece]] if piece in ids else small.tokenizer.segment(piece)
        if piece not in ids:
            text = "".join(small.tokenizer.pieces[each] for each in spelled)
            assert text == piece or UNK_ID in spelled
        torch.testing.assert_close(weights[index], old[spelled].mean(0))


@pytest.mark.parametrize(("changes", "message"), [
    ({"d_model": 48}, "d_model=48 is neither 32 nor its double"),
    ({"d_ff": 49}, "d_ff=49 is neither 48 nor its double"),
    ({"n_encoder_layers": 3}, "grows in vocab_size, d_model, d_ff"),
])  # fmt: skip
def test_what_cannot_grow(small: Checkpoint, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        grown(small, small.config.replace(**changes), small.tokenizer)


def test_a_recipe_that_grows(data: Path, tmp_path: Path) -> None:
    first = run(recipe(data), tmp_path / "first")
    for end in ("en", "de"):
        lines = (data / f"pairs.{end}").read_text().replace("dog", "1234")
        (data / f"pairs.{end}").write_text(lines)
    path = recipe(data, f'init = "{first}"\ngrow = true\npeak_lr = 1e-12', epochs=1, d_model=24)
    text = path.read_text().replace("[data]", "split_digits = true\nrequired_chars = '€'\n\n[data]")
    path.write_text(text)
    second = load_checkpoint(run(path, tmp_path / "second"))
    assert {"1", "2", "3", "4", "€"} <= set(second.tokenizer.pieces)
    assert not any("12" in piece for piece in second.tokenizer.pieces)
    weights = grown(load_checkpoint(first), second.config, second.tokenizer, seed=1)
    for name, tensor in second.model.state_dict().items():
        torch.testing.assert_close(tensor, weights[name], atol=1e-6, rtol=0)


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
    """Check that snapshots are checkpoints, and that the last equals the run's end."""
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
    corpus = load_corpus(DataRecipe(("pairs",)), data)
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
    assert asked[:, 1:-1].float().mean() == pytest.approx(PREDICTED, abs=0.01)
    shown = batch.tgt_in[asked]
    hidden, kept = (shown == mask).float().mean(), (shown == original[asked]).float().mean()
    assert hidden == pytest.approx(MASKED, abs=0.03)
    assert kept == pytest.approx(UNCHANGED, abs=0.03)
    assert shown.min() >= 4


@pytest.mark.parametrize(("table", "reason"), [
    ("n_layers = 2", "needs a task"), ('task = "paint"', "continue, fill, translate"),
    ('task = "fill"\nn_layers = 0', "at least 1"),
    ('task = "fill"\ncolour = 1', "unknown setting"),
])  # fmt: skip
def test_bad_stacks_are_named(table: str, reason: str, data: Path) -> None:
    path = recipe(data, f"[stack]\n{table}")
    with pytest.raises(ConfigError, match=reason):
        Recipe.load(str(path))
    with pytest.raises(ConfigError, match="two stacks"):
        Recipe.load(str(stacked(data, "fill", 'init = "somewhere"\ngrow = true')))
