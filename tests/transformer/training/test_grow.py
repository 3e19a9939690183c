"""A grown model computes the same as the smaller one."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.tiny_models import SENTENCES, trained_model
from tests.transformer.training.runs import recipe, run
from transformer.checkpoint.folder import Checkpoint, load_checkpoint, save_checkpoint
from transformer.config import ConfigError, ModelConfig
from transformer.model import Transformer
from transformer.text.tokenizer import UNK_ID, Tokenizer, train_tokenizer
from transformer.training.data import collate
from transformer.training.grow import Axis, grown


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
    after = log_probabilities(wide, small.tokenizer)
    assert abs(after.mean() - before.mean()) < 0.25
    index = Axis.stream(32, d_model).index
    expected = small.model.src_positions.table[:, index]
    same = Axis.stream(32, d_model).sign > 0  # half of a doubled stream
    assert torch.equal(wide.src_positions.table[:, same], expected[:, same])
    for positions in (wide.src_positions, wide.tgt_positions):
        positions.table = expected
    exact = log_probabilities(wide, small.tokenizer)
    torch.testing.assert_close(exact, before, atol=1e-4, rtol=0)
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
    config = small.config.replace(vocab_size=120)
    weights = grown(small, config, tokenizer)["src_embedding.weight"]
    old = small.model.src_embedding.weight
    ids = {piece: index for index, piece in enumerate(small.tokenizer.pieces)}
    new = [piece for piece in tokenizer.pieces if piece not in ids]
    assert len(new) >= 20
    for index, piece in enumerate(tokenizer.pieces):
        spelled = [ids[piece]] if piece in ids else small.tokenizer.segment(piece)
        if piece not in ids:
            text = "".join(small.tokenizer.pieces[each] for each in spelled)
            assert text == piece or UNK_ID in spelled
        torch.testing.assert_close(weights[index], old[spelled].mean(0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 48}, "d_model=48 is neither 32 nor its double"),
        ({"d_ff": 49}, "d_ff=49 is neither 48 nor its double"),
        ({"n_encoder_layers": 3}, "grows in vocab_size, d_model, d_ff"),
    ],
)
def test_what_cannot_grow(small: Checkpoint, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        grown(small, small.config.replace(**changes), small.tokenizer)


def test_a_recipe_that_grows(data: Path, tmp_path: Path) -> None:
    """Wider, and with its own vocabulary, in which a number is spelled digit by digit."""
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
