from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.random_stacks import SHAPES, random_stack
from tests.transformer.conftest import Command, check_trace
from transformer.config import ConfigError, ModelConfig
from transformer.model import Transformer
from transformer.models.catalogue import inspect_entry, open_tracer
from transformer.models.one_stack.config import StackConfig, Task
from transformer.models.one_stack.model import MASK, StackSteps, load_stack, save_stack
from transformer.models.one_stack.tracer import StackModel
from transformer.search.rules import Sampling
from transformer.text.tokenizer import Tokenizer
from transformer.trace.inspection import inspect_head
from transformer.trace.tracer import Tracer
from transformer.types import InputError


@pytest.fixture(scope="module", params=SHAPES)
def blocks(request: pytest.FixtureRequest, tiny_config: ModelConfig) -> ModelConfig:
    return tiny_config.replace(**SHAPES[request.param])


TASKS: tuple[Task, ...] = ("continue", "fill", "translate")


def of_task(task: Task) -> Any:
    @pytest.fixture(scope="module")
    def model(blocks: ModelConfig, tiny_tokenizer: Tokenizer) -> StackModel:
        return StackModel(*random_stack(task, blocks, tiny_tokenizer), device="cpu", name=task)

    return model


writer, reader, translator = map(of_task, TASKS)


def ids(*shape: int) -> torch.Tensor:
    torch.manual_seed(7)
    return torch.randint(4, 100, shape)


@pytest.mark.parametrize(("change", "reason"), [
    ({"task": "paint"}, "task='paint' is not one of: continue, fill, translate"),
    ({"n_layers": 0}, "n_layers=0"),
    ({"n_decoder_layers": 2}, "n_decoder_layers does not apply"),
    ({"positions": "stored"}, "positions='stored' is not one of"),
    ({"colour": 1}, "unknown setting 'colour'"),
])  # fmt: skip
def test_bad_configs(change: dict[str, object], reason: str, tiny_config: ModelConfig) -> None:
    values = StackConfig("fill", 2, tiny_config).to_dict() | change
    with pytest.raises(ConfigError, match=reason):
        StackConfig.from_dict(values)


def test_a_filling_stack_alone_sees_ahead(writer: StackModel, reader: StackModel) -> None:
    text, model = ids(2, 9), writer.model
    changed = text.clone()
    changed[:, 6:] = 4
    before, after = model.read(text), model.read(changed)
    torch.testing.assert_close(before[:, :6], after[:, :6], rtol=0, atol=1e-6)
    assert (before[:, 6:] - after[:, 6:]).abs().max() > 0.1
    changed = text.clone()
    changed[:, 6] = 4
    model = reader.model
    assert ((model.read(text) - model.read(changed)).abs().amax(-1) > 1e-4).all()


@pytest.mark.parametrize("task", TASKS)
def test_padding_is_not_seen(task: Task, blocks: ModelConfig, tiny_tokenizer: Tokenizer) -> None:
    model, _ = random_stack(task, blocks, tiny_tokenizer)
    text = ids(1, 9)
    padded = torch.cat([text[:, :4], torch.zeros(1, 3, dtype=torch.long), text[:, 4:]], dim=1)
    kept = [0, 1, 2, 3, 7, 8, 9, 10, 11]
    torch.testing.assert_close(model.read(text), model.read(padded)[:, kept], rtol=1e-5, atol=1e-5)


def test_its_layers_are_the_encoders(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> None:
    """A bidirectional stack equals an encoder with the same weights."""
    model, _ = random_stack("fill", tiny_config, tiny_tokenizer)
    both = Transformer(model.config.blocks).eval()
    both.src_embedding.load_state_dict(model.embedding.state_dict())
    both.encoder.load_state_dict(model.layers.state_dict())
    text = ids(3, 8)
    torch.testing.assert_close(model.read(text), both.encode(text).memory)


def test_steps_with_a_cache_give_what_one_pass_gives(translator: StackModel) -> None:
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
def test_save_load(
    task: Task, blocks: ModelConfig, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    model, tokenizer = random_stack(task, blocks, tiny_tokenizer)
    folder = save_stack(tmp_path / "kept", model, tokenizer, metrics={"x": 1})
    loaded, text = load_stack(folder), ids(2, 7)
    config = model.config
    assert loaded.model.config == config and model.n_parameters == config.n_parameters
    torch.testing.assert_close(loaded.model.read(text), model.read(text))
    entry = inspect_entry(folder)
    assert entry.error is None and entry.kind == "one_stack" and entry.metrics == {"x": 1}
    assert "3 layers" in entry.about
    assert isinstance(open_tracer(folder, "cpu"), StackModel)


TEXT = "The cat sat on the mat."


def test_they_are_tracers(reader: StackModel, writer: StackModel, translator: StackModel) -> None:
    for model in (reader, writer, translator):
        assert isinstance(model, Tracer)
        assert model.lacks("heads") is None and model.lacks("any_sentence") is None
        assert model.lacks("search") and model.lacks("internals")
        for ask in (model.edited, lambda edit, model=model: model.trace(TEXT, edits=edit)):
            with pytest.raises(InputError, match=r"“off cross.1”: This model has one stack; edits"):
                ask("off cross.1")
        check_trace(trace := model.trace(TEXT))
        kind = model.kinds[0]
        stages = inspect_head(model.model, trace, kind, 1, 2, 3)
        np.testing.assert_allclose(stages.scaled.weights, trace.attention(kind)[1, 2, 3], atol=1e-5)
        assert stages.relative is None
    trace = reader.trace(TEXT)
    n = len(trace.src_tokens)
    assert trace.src_tokens[0] == "<s>" and trace.src_tokens[-1] == "</s>"
    assert trace.encoder_self.shape == (3, 3, n, n) and trace.decoder_self.size == 0
    assert trace.tgt_tokens == () and trace.text == ""


def test_a_continuing_trace_predicts_every_next_token(writer: StackModel) -> None:
    trace = writer.trace(TEXT)
    assert trace.tgt_tokens[0] == "<s>" and trace.predicted_tokens[:-1] == trace.tgt_tokens[1:]
    assert trace.forced and trace.n_forced == len(trace.tgt_tokens) - 1
    every = writer.model.logits(writer.model.read(torch.tensor([trace.tgt_ids]))[0]).log_softmax(-1)
    wanted = every[range(len(trace.predicted_ids)), list(trace.predicted_ids)]
    np.testing.assert_allclose(trace.log_probs, wanted.numpy(), atol=1e-5)
    assert trace.predicted_ids[-1] == int(every[-1].argmax())
    assert trace.text == TEXT


def test_a_continuation_is_the_most_probable_token_each_time(writer: StackModel) -> None:
    plain = writer.trace("The cat")
    longer = writer.trace("The cat", new_tokens=5)
    given = len(plain.tgt_ids)
    assert longer.tgt_ids[:given] == plain.tgt_ids and longer.n_forced == given - 1
    eos = writer.config.blocks.eos_id
    assert eos not in longer.tgt_ids
    written = (*longer.tgt_ids[given:], *([eos] if longer.complete else []))
    assert 1 <= len(written) <= 5
    never = [writer.config.blocks.pad_id, writer.config.blocks.bos_id, writer.config.blocks.unk_id]
    for place, token in enumerate(written, start=given):
        hidden = writer.model.read(torch.tensor([longer.tgt_ids[:place]]))[0, -1]
        logits = writer.model.logits(hidden)
        logits[never] = -torch.inf
        assert int(logits.argmax()) == token
    drawn = [
        writer.trace("The cat", new_tokens=5, sampling=Sampling(seed=seed)).tgt_ids
        for seed in (1, 1, 2, 3, 4)
    ]
    assert drawn[0] == drawn[1] and len(set(drawn)) > 1


def test_a_translation_follows_its_source_in_one_text(translator: StackModel) -> None:
    trace = translator.trace(TEXT, beam_size=2)
    bos = trace.tgt_tokens.index("<s>")
    assert trace.tgt_tokens[bos - 1] == "</s>" and trace.n_forced == bos
    assert "".join(trace.tgt_tokens[: bos - 1]).replace("▁", " ").strip() == TEXT
    (best,) = translator.translate([TEXT], beam_size=2)
    assert best.text == trace.text and best.score == pytest.approx(trace.score, rel=1e-5)
    again = translator.trace(TEXT, target=trace.text) if trace.complete and trace.text else trace
    assert again.text == trace.text or not trace.complete
    many = [TEXT, "", "A dog runs.", "Two men are playing guitar."]
    alone = [translator.translate([text])[0].text for text in many]
    assert [each.text for each in translator.translate(many)] == alone and alone[1] == ""


@pytest.mark.parametrize("text", [f"The {MASK} sat on {MASK} mat.", "The cat sat."])
def test_guesses_at_hidden_places_or_at_each_word_in_turn(reader: StackModel, text: str) -> None:
    trace, hidden = reader.trace(text), reader.tokenizer.pieces.index(f"▁{MASK}")
    masked = [place for place, token in enumerate(trace.src_ids) if token == hidden]
    guesses = reader.guesses(trace, top_k=4)
    words = list(range(1, len(trace.src_ids) - 1))
    assert [each.position for each in guesses] == (masked or words)
    for each in guesses:
        ids = list(trace.src_ids)
        ids[each.position] = hidden
        logits = reader.model.logits(reader.model.read(torch.tensor([ids]))[0, each.position])
        logits[[hidden, 0]] = -torch.inf
        every = logits.log_softmax(-1)
        best = every.topk(4)
        assert each.tokens == reader.tokenizer.shown(best.indices.tolist())
        np.testing.assert_allclose(each.log_probs, best.values, atol=1e-4)
        own = pytest.approx(float(every[trace.src_ids[each.position]]), abs=1e-4)
        assert each.log_prob == (None if masked else own)


def test_what_they_refuse(reader: StackModel, writer: StackModel) -> None:
    for model in (reader, writer):
        with pytest.raises(InputError, match="blank"):
            model.trace(" ")
        with pytest.raises(InputError, match="no target"):
            model.trace(TEXT, target="Hallo")
        with pytest.raises(InputError, match="steering"):
            model.trace(TEXT, prefix="x")
        with pytest.raises(TypeError, match="colour"):
            model.trace(TEXT, colour=1)
        with pytest.raises(InputError, match=r"continues|fills"):
            model.translate([TEXT])
    with pytest.raises(InputError, match="does not fill"):
        writer.guesses(writer.trace(TEXT))
    with pytest.raises(InputError, match="new_tokens"):
        writer.trace(TEXT, new_tokens=10_000)


def test_complete_from_the_command_line(
    reader: StackModel, writer: StackModel, translator: StackModel, tiny_checkpoint: Path,
    tmp_path: Path, command: Command,
) -> None:  # fmt: skip
    guess = reader.guesses(reader.trace("The [MASK] sat."))[0].tokens[0]
    for model, text, shown in (
        (writer, "The cat", writer.trace("The cat", new_tokens=3).text),
        (reader, "The [MASK] sat.", guess),
        (translator, "A dog.", translator.trace("A dog.").text),
    ):
        folder = save_stack(tmp_path / model.name, model.model, model.tokenizer)
        line = command(
            "complete", text, "--checkpoint", folder, "--device", "cpu", "--tokens", 3
        ).out
        assert line.count("\n") == 1 and (shown in line if model is reader else line[:-1] == shown)
    assert (
        "an encoder-decoder; `translate`"
        in command("complete", "x", "--checkpoint", tiny_checkpoint).refused
    )
