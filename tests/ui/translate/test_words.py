"""The Translate page's sentences, and the player's first step."""

import dataclasses

import numpy as np
import pytest

from tests.factories import make_trace
from tests.forks import ROOT
from transformer.translator import Translator
from ui.core.examples import Example, examples_for
from ui.translate.player import default_step
from ui.translate.words import length_warning, outside, unknown_pieces

TOY = ROOT / "checkpoints/reverse-toy"
TRACE = make_trace()


@pytest.mark.parametrize(
    ("tokens", "unknown", "expected"),
    [
        (["▁", "漢字", "</s>"], (1,), ["漢字"]),
        (["▁", *(f"<0x{b:02X}>" for b in "漢字".encode()), "</s>"], range(1, 7), ["漢字"]),
        (["<0x3C>", "b", "<0x3E>", "b", "<0x3C>", "</s>"], (0, 2, 4), ["<", ">"]),
        (["<0xE6>", "a", "<0xC3>", "<0xB1>", "é", "</s>"], (0, 2, 3, 4), ["\ufffd", "ñ", "é"]),
        (["▁<unk>", "a", "<unk>", "▁x", "</s>"], (0, 2, 3), ["<unk>", "x"]),
        (["a", "</s>"], (), []),
    ],
)
def test_unknown_pieces(tokens: list[str], unknown: tuple[int, ...], expected: list[str]) -> None:
    other = dataclasses.replace(TRACE, src_tokens=tuple(tokens), src_unknown=tuple(unknown))
    assert unknown_pieces(other) == expected


def test_a_source_longer_than_the_training_text_is_warned_of() -> None:
    length = len(TRACE.src_tokens) - len(TRACE.src_special)

    def warning(longest: object) -> str:
        record = {"kind": "everyday sentences", "src_tokens": longest}
        return length_warning({"training_text": record}, TRACE)

    assert warning(length) == warning("1") == length_warning({}, TRACE) == ""
    assert f"has {length} tokens" in warning(length - 1)
    assert f"have at most {length - 1}." in warning(length - 1)


def test_a_sentence_of_rare_words_or_of_doubt_lies_outside_what_was_learned() -> None:
    common = ("▁a", "▁b", "▁20", "0", "9", "▁c", "s")
    sure = dataclasses.replace(make_trace(S=8, src_tokens=common), log_probs=np.full(6, -0.1, "f4"))
    assert outside(sure) == ""
    rare = ("▁a", "▁b", "i", "t", "▁c", "o", "n")
    assert "2 of its 3 words" in outside(dataclasses.replace(sure, src_tokens=(*rare, "</s>")))
    doubted = dataclasses.replace(sure, log_probs=np.full(6, -1.0, "f4"))
    assert "a probability of 37% on average" in outside(doubted)
    assert outside(dataclasses.replace(doubted, n_forced=2)) == ""


def test_an_example_opens_on_a_telling_step() -> None:
    model = Translator.load(TOY, device="cpu")
    example = examples_for("reverse-toy").items[0]
    trace = model.trace(example.sentence)
    step = default_step(trace, example)
    assert 1 < step < len(trace.predicted_tokens)
    row = trace.cross.mean(axis=(0, 1))[step - 1]
    # It looks at the letter that it writes: as far from the other end.
    assert row.max() > 0.5
    assert trace.src_tokens[int(np.argmax(row))] == trace.predicted_tokens[step - 1]

    watched = default_step(trace, Example(example.sentence, watch="f"))
    assert int(np.argmax(trace.cross.mean(axis=(0, 1))[watched - 1])) == trace.src_tokens.index("f")
    assert default_step(trace, None) == 1  # a visitor's own sentence
    assert default_step(trace, Example(example.sentence, watch="q")) == 1
