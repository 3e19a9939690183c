"""One stack: what it sees, its config, its files."""

import json
from pathlib import Path

import pytest
import torch

from tests.random_stacks import SHAPES, random_stack
from transformer.catalogue import inspect_entry, open_tracer
from transformer.config import ConfigError, ModelConfig
from transformer.errors import CheckpointError
from transformer.model import Transformer
from transformer.one_stack.config import StackConfig, Task
from transformer.one_stack.files import load_stack, save_stack
from transformer.one_stack.model import OneStack, StackSteps
from transformer.one_stack.tracer import StackModel
from transformer.text.tokenizer import Tokenizer

TASKS: tuple[Task, ...] = ("continue", "fill", "translate")


def ids(*shape: int) -> torch.Tensor:
    torch.manual_seed(7)
    return torch.randint(4, 100, shape)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_config_and_its_count(task: Task, shape: str, tiny_config: ModelConfig) -> None:
    config = StackConfig(task, 2, tiny_config.replace(**SHAPES[shape]))
    assert StackConfig.from_json(config.to_json()) == config
    assert OneStack(config).n_parameters == config.n_parameters


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"task": "paint"}, "task='paint' is not one of: continue, fill, translate"),
        ({"n_layers": 0}, "n_layers=0"),
        ({"n_decoder_layers": 2}, "n_decoder_layers says nothing"),
        ({"positions": "stored"}, "positions='stored' is not one of"),
        ({"colour": 1}, "unknown setting 'colour'"),
    ],
)
def test_bad_configs_are_named(
    change: dict[str, object], reason: str, tiny_config: ModelConfig
) -> None:
    values = StackConfig("fill", 2, tiny_config).to_dict() | change
    with pytest.raises(ConfigError, match=reason):
        StackConfig.from_dict(values)


def test_a_causal_stack_does_not_see_ahead(writer: StackModel) -> None:
    text, model = ids(2, 9), writer.model
    changed = text.clone()
    changed[:, 6:] = 4
    before, after = model.read(text), model.read(changed)
    torch.testing.assert_close(before[:, :6], after[:, :6], rtol=0, atol=1e-6)
    assert (before[:, 6:] - after[:, 6:]).abs().max() > 0.1


def test_a_filling_stack_sees_both_sides(reader: StackModel) -> None:
    text, model = ids(2, 9), reader.model
    changed = text.clone()
    changed[:, 6] = 4
    assert ((model.read(text) - model.read(changed)).abs().amax(-1) > 1e-4).all()


@pytest.mark.parametrize("task", TASKS)
def test_padding_anywhere_changes_nothing(
    task: Task, blocks: ModelConfig, tiny_tokenizer: Tokenizer
) -> None:
    model, _ = random_stack(task, blocks, tiny_tokenizer)
    text = ids(1, 9)
    padded = torch.cat([text[:, :4], torch.zeros(1, 3, dtype=torch.long), text[:, 4:]], dim=1)
    kept = [0, 1, 2, 3, 7, 8, 9, 10, 11]
    torch.testing.assert_close(model.read(text), model.read(padded)[:, kept], rtol=1e-5, atol=1e-5)


def test_its_layers_are_the_encoders(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> None:
    """With the same weights, a stack that sees both sides computes what an encoder does."""
    model, _ = random_stack("fill", tiny_config, tiny_tokenizer)
    both = Transformer(model.config.blocks).eval()
    both.src_embedding.load_state_dict(model.embedding.state_dict())
    both.encoder.load_state_dict(model.layers.state_dict())
    text = ids(3, 8)
    torch.testing.assert_close(model.read(text), both.encode(text).memory)


def test_steps_with_a_cache_give_what_one_pass_gives(translator: StackModel) -> None:
    """Sources of different length, rows that move, and the logits of one pass."""
    model, src = translator.model, ids(2, 5)
    src[1, 3:] = 0
    steps, written = StackSteps(model, src), ids(4, 4)
    rows, texts = [0, 1], [src[0].tolist(), src[1, :3].tolist()]
    for t, parents in enumerate([None, [0, 0, 1, 1], None, [1, 2, 3, 3]]):
        if parents is not None:
            texts = [list(texts[parent]) for parent in parents]
            rows = [rows[parent] for parent in parents]
        tokens = written[: len(texts), t].tolist()
        found = steps(tokens, parents).logits
        for text, token in zip(texts, tokens, strict=True):
            text.append(token)
        for row, text in enumerate(texts):
            one = model.logits(model.read(torch.tensor([text]))[0, -1])
            assert isinstance(found, torch.Tensor)
            torch.testing.assert_close(found[row], one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_files_come_back(
    task: Task, blocks: ModelConfig, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    model, tokenizer = random_stack(task, blocks, tiny_tokenizer)
    folder = save_stack(tmp_path / "kept", model, tokenizer, metrics={"x": 1})
    loaded, text = load_stack(folder), ids(2, 7)
    torch.testing.assert_close(loaded.model.read(text), model.read(text))
    entry = inspect_entry(folder)
    assert entry.error is None and entry.kind == "one_stack" and entry.metrics == {"x": 1}
    assert "3 layers" in entry.about
    assert isinstance(open_tracer(folder, "cpu"), StackModel)


def test_damaged_folders_say_why(
    tiny_config: ModelConfig, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    model, tokenizer = random_stack("continue", tiny_config, tiny_tokenizer)
    folder = save_stack(tmp_path / "kept", model, tokenizer)
    config = folder / "config.json"
    values = json.loads(config.read_text())
    for change, reason in (
        ({"n_layers": 2}, "does not belong to this model"),
        ({"n_layers": 4}, "is missing"),
        ({"d_ff": 41}, "config.json asks for"),
        ({"vocab_size": 109}, "110 pieces"),
        ({"task": "fill"}, r"no piece \[MASK\]"),
        ({"n_layers": 10**6}, "at most"),
    ):
        config.write_text(json.dumps(values | change))
        assert inspect_entry(folder).error is not None
        with pytest.raises(CheckpointError, match=reason):
            load_stack(folder)
    config.write_text(json.dumps(values))
    model.layers[0].feed_forward.w_1.weight[0, 0] = torch.nan
    save_stack(folder, model, tokenizer)
    with pytest.raises(CheckpointError, match="NaN"):
        load_stack(folder)
