"""Inputs of models of the `transformers` library: sentences, languages, settings."""

import re
import threading
from typing import Any

import pytest

from tests.transformer.huggingface.models import EVERY, Pair
from transformer.errors import InputError
from transformer.huggingface.model import HuggingFaceModel

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

SENTENCE = "The animal didn't cross the street."


def test_pieces_mark_the_start_of_words(made: dict[str, Pair]) -> None:
    for name in EVERY:
        trace = made[name].ours.trace("Two men, playing (a) guitar.", max_length=3)
        tokens = trace.src_tokens or trace.tgt_tokens
        special = trace.src_special if trace.src_tokens else trace.tgt_special
        words = "".join(each for at, each in enumerate(tokens) if at not in special)
        expected = re.escape("Two▁men,▁playing▁(a)▁guitar.")
        for mark in (",", re.escape("("), re.escape(")")):
            expected = expected.replace(mark, rf"({mark}|<unk>|\[UNK\])")
        assert re.fullmatch(expected, words.removeprefix("▁")), name


def test_bytes_are_read_as_text(made: dict[str, Pair]) -> None:
    tokens = made["gpt2"].ours.trace("Straße Ω 🎸").tgt_tokens
    assert "".join(tokens).startswith("Stra<0xC3><0x9F>e▁<0xCE><0xA9>▁<0xF0>")


def test_languages(made: dict[str, Pair]) -> None:
    nllb, m2m, mbart = (made[name].ours for name in ("nllb", "m2m100", "mbart"))
    assert set(nllb.languages) == {"deu_Latn", "eng_Latn", "fra_Latn", "arb_Arab"}
    assert {"en", "fr", "zu"} <= set(m2m.languages) and "ro_RO" in mbart.languages
    assert made["t5"].ours.languages == made["gpt2"].ours.languages == ()
    # The default is the tokenizer's own, else German.
    assert m2m.trace("A dog.", max_length=3).predicted_tokens[0] == "__fr__"
    trace = nllb.trace("A dog.", max_length=3, src_lang="fra_Latn")
    assert trace.src_tokens[0] == "fra_Latn" and trace.predicted_tokens[0] == "deu_Latn"
    assert trace.src_special[0] == 0 and trace.tgt_special[:2] == (0, 1) and trace.n_forced == 1
    assert nllb.trace("A dog.", max_length=3).src_tokens[0] == "eng_Latn"  # nothing is kept
    assert mbart.trace("A dog.", max_length=3, tgt_lang="ja_XX").tgt_tokens[0] == "ja_XX"
    for wrong in ({"tgt_lang": "klingon"}, {"src_lang": "<b>"}, {"tgt_lang": ""}):
        with pytest.raises(InputError, match=r"_lang='.*' is not one of: arb_Arab, deu_Latn"):
            nllb.trace("A dog.", **wrong)
    with pytest.raises(InputError, match="no languages to choose from"):
        made["t5"].ours.trace("A dog.", tgt_lang="de")


def test_threads_do_not_mix_languages(made: dict[str, Pair]) -> None:
    model, wrong = made["nllb"].ours, []

    def ask(language: str) -> None:
        for _ in range(8):
            trace = model.trace("A dog.", "Ein Hund.", src_lang=language, tgt_lang=language)
            if {trace.src_tokens[0], trace.predicted_tokens[0]} != {language}:
                wrong.append(trace.src_tokens)

    threads = [threading.Thread(target=ask, args=(name,)) for name in model.languages[:3]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


LIMITS = {"bart": 64, "bert": 60, "gpt2": 48, "m2m100": 80, "mbart": 70, "marian": 80}


def test_lengths_up_to_the_last_position(made: dict[str, Pair]) -> None:
    for name, limit in LIMITS.items():
        model = made[name].ours
        assert model.max_tokens == limit
        with pytest.raises(InputError, match=rf"has [\d,]+ tokens .*at most {limit} are allowed"):
            model.trace("Ω a " * limit)
        words = next(count for count in range(limit, 0, -1) if fits(model, "a " * count))
        trace = model.trace("a " * words, max_length=2)
        assert limit - 2 <= len(trace.src_ids or trace.tgt_ids) <= limit
    assert made["t5"].ours.max_tokens == 512
    with pytest.raises(InputError, match=r"the target has .* at most 64 are allowed"):
        made["bart"].ours.trace("A dog.", "b c " * 64)
    with pytest.raises(InputError, match="10,001 characters; at most 10,000"):
        made["bert"].ours.trace("x" * 10_001)
    with pytest.raises(InputError, match=r"new_tokens 40 after .* at most 48 tokens"):
        made["gpt2"].ours.trace("The animal was tired.", new_tokens=40)


def fits(model: HuggingFaceModel, sentence: str) -> bool:
    try:
        model.trace(sentence, max_length=1)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("t5", {"beam_size": 0}, "beam size 0"), ("t5", {"beam_size": 65}, "from 1 to 64"),
        ("t5", {"alpha": float("nan")}, "alpha nan"), ("t5", {"alpha": "x"}, "alpha 'x'"),
        ("t5", {"top_k": 0}, "top_k 0"), ("t5", {"max_length": 0}, "max_length 0"),
        ("t5", {"prefix": "Das"}, "cannot override"), ("t5", {"target": " "}, "target is blank"),
        ("t5", {"sampling": object()}, "cannot override"),
        *((name, {"target": "Ein Hund."}, "takes no target") for name in ("gpt2", "bert")),
        *(("gpt2", {"new_tokens": wrong}, "new_tokens") for wrong in (-1, 1.5, True)),
    ],
)  # fmt: skip
def test_settings_out_of_range(
    made: dict[str, Pair], name: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        made[name].ours.trace("A dog.", **options)


def test_progress_can_stop(made: dict[str, Pair]) -> None:
    def progress(step: int, steps: int) -> None:
        seen.append((step, steps))
        if step == 3:
            raise InterruptedError

    for name in ("t5", "nllb"):
        seen: list[tuple[int, int]] = []
        with pytest.raises(InterruptedError):
            made[name].ours.trace(SENTENCE, max_length=8, beam_size=2, progress=progress)
        assert seen == [(1, 8), (2, 8), (3, 8)]
