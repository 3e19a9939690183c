"""Traces, continuations, translations and guesses of one stack."""

from pathlib import Path

import numpy as np
import pytest
import torch

from transformer.__main__ import main
from transformer.errors import InputError
from transformer.one_stack.files import MASK, save_stack
from transformer.one_stack.tracer import StackModel
from transformer.search.sampling import Sampling
from transformer.trace.inspection import inspect_head
from transformer.trace.tracer import Tracer

TEXT = "The cat sat on the mat."


def test_they_are_tracers(reader: StackModel, writer: StackModel, translator: StackModel) -> None:
    for model in (reader, writer, translator):
        assert isinstance(model, Tracer)
        assert model.lacks("heads") is None and model.lacks("any_sentence") is None
        assert model.lacks("search") and model.lacks("internals")
        trace, kind = model.trace(TEXT), model.kinds[0]
        stages = inspect_head(model.model, trace, kind, 1, 2, 3)
        recorded = trace.attention(kind)[1, 2, 3]
        np.testing.assert_allclose(stages.scaled.weights, recorded, atol=1e-5)
        assert stages.relative is None


def test_a_filling_trace_holds_the_text_as_source(reader: StackModel) -> None:
    trace = reader.trace(TEXT)
    n = len(trace.src_tokens)
    assert trace.src_tokens[0] == "<s>" and trace.src_tokens[-1] == "</s>"
    assert trace.encoder_self.shape == (3, 3, n, n) and trace.decoder_self.size == 0
    np.testing.assert_allclose(trace.encoder_self.sum(-1), 1, atol=1e-5)
    assert trace.tgt_tokens == () and trace.text == ""


def test_a_continuing_trace_predicts_every_next_token(writer: StackModel) -> None:
    trace = writer.trace(TEXT)
    assert trace.tgt_tokens[0] == "<s>" and trace.predicted_tokens[:-1] == trace.tgt_tokens[1:]
    assert trace.forced and trace.n_forced == len(trace.tgt_tokens) - 1
    assert not np.triu(trace.decoder_self, 1).any()
    logits = writer.model.logits(writer.model.read(torch.tensor([trace.tgt_ids]))[0])
    every = logits.log_softmax(-1)
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
    assert [each.text for each in translator.translate([TEXT], beam_size=2)] == [trace.text]
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    guess = reader.guesses(reader.trace("The [MASK] sat."))[0].tokens[0]
    for model, text, shown in (
        (writer, "The cat", writer.trace("The cat", new_tokens=3).text),
        (reader, "The [MASK] sat.", guess),
        (translator, "A dog.", translator.trace("A dog.").text),
    ):
        folder = save_stack(tmp_path / model.name, model.model, model.tokenizer)
        main(["complete", text, "--checkpoint", str(folder), "--device", "cpu", "--tokens", "3"])
        line = capsys.readouterr().out
        assert line.count("\n") == 1 and (shown in line if model is reader else line[:-1] == shown)
    assert main(["complete", "x", "--checkpoint", str(tiny_checkpoint)]) != 0
    assert "two stacks" in capsys.readouterr().err
