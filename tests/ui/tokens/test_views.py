"""The Tokens page on real models: shipped ones and small ones of every kind."""

from itertools import combinations

import numpy as np
import pytest

from tests.tiny_models import SENTENCES, random_model
from transformer.config import ModelConfig
from transformer.text.tokenizer import train_tokenizer
from transformer.translator import Translator
from ui.tokens import views

KINDS = {
    "unigram": {"vocab_size": 110},
    "bytes": {"vocab_size": 420, "byte_fallback": True, "fewer": True},
    "bpe": {"vocab_size": 130, "model_type": "bpe"},
    "char": {"vocab_size": 60, "model_type": "char"},
}
HOSTILE = (
    SENTENCES[0], "a 👩‍👩‍👧 ﬁne e\u0301 שלום\nnext <script>x</script>", "x" * 200, "?",
)  # fmt: skip


def make(kind: str) -> Translator:
    tokenizer = train_tokenizer(SENTENCES, **KINDS[kind])  # type: ignore[arg-type]
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, d_model=24, n_heads=3, d_k=6, d_v=10, d_ff=40,
        n_encoder_layers=2, n_decoder_layers=3, output_bias=True, tie_embeddings="none",
    )  # fmt: skip
    return Translator(random_model(config), tokenizer, device="cpu")


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Translator:
    return make(request.param)


@pytest.mark.parametrize("sentence", HOSTILE)
def test_a_reading_keeps_the_text_and_marks_unknowns(model: Translator, sentence: str) -> None:
    trace = model.trace(sentence, beam_size=1, max_length=6)
    tokenizer = model.tokenizer
    reading = views.read_side(model, trace, "source", sentence)
    assert "".join(reading.texts) == reading.normal == tokenizer.normalize(sentence)
    assert reading.own_cut
    assert reading.n_pieces == len(reading.ids) - 1 == len(tokenizer.encode(sentence))
    assert reading.n_words == len(reading.normal.replace("▁", " ").split())
    shown = views.pieces_shown(reading, tokenizer)
    assert [each.id for each in shown] == list(reading.ids)
    assert shown[-1].mark == "special"
    strange = [i for i, each in enumerate(shown) if each.mark in ("byte", "unknown")]
    assert tuple(strange) == reading.unknown
    scored = [tokenizer.kind == "unigram" and not each.mark for each in shown]
    assert [bool(each.score) for each in shown] == scored
    assert (("ﬁ", "fi") in reading.changed) == ("ﬁ" in sentence)
    translated = views.read_side(model, trace, "translation", sentence)
    assert (translated.ids, translated.typed) == (trace.predicted_ids, trace.text)


@pytest.mark.parametrize("sentence", HOSTILE)
def test_other_cuts_spell_the_same_text(model: Translator, sentence: str) -> None:
    tokenizer = model.tokenizer
    cuts = views.cuts_of(tokenizer, sentence, 0.3, 5)
    assert list(cuts[0].ids) == tokenizer.encode(sentence)
    assert len({cut.ids for cut in cuts}) == len(cuts)
    assert views.cuts_of(tokenizer, sentence, 0.3, 5) == cuts
    for cut in cuts:
        assert "".join(cut.texts) == tokenizer.normalize(sentence)
        assert len(cut.texts) == len(cut.ids)
        assert tokenizer.decode(cut.ids) == tokenizer.decode(cuts[0].ids)
    if tokenizer.kind == "unigram":
        shares = [cut.share or 0.0 for cut in cuts]
        assert shares == sorted(shares, reverse=True) and shares[-1] > 0 and sum(shares) <= 1.01
    assert tokenizer.kind != "char" or len(cuts) == 1
    first, *others = views.cuts_shown(cuts)
    assert first.text and not first.stretches and all(row.stretches for row in others)


def test_bpe_cuts_follow_dropout_and_seed() -> None:
    tokenizer = make("bpe").tokenizer
    assert len(views.cuts_of(tokenizer, SENTENCES[0], 0, 0)) == 1
    one, other = (views.cuts_of(tokenizer, SENTENCES[0], 0.2, seed) for seed in (0, 1))
    assert len(one) == 6 and one[1:] != other[1:]
    assert views.cuts_of(tokenizer, "cat", 1, 0)[1].texts == ("▁", "c", "a", "t")


def test_neighbours_in_every_matrix_and_never_padding() -> None:
    model = make("unigram")
    found = views.near(model, 9, 12)
    assert list(found) == ["source", "target", "output"]
    for each in found.values():
        assert len(each.ids) == 12 and not {0, 9} & set(each.ids.tolist())
    assert views.near(model, 0, 3)["source"].ids.size == 3


@pytest.mark.parametrize("side", ["source", "translation"])
def test_the_plane_keeps_repeats_together_until_positions_part_them(side: str) -> None:
    model = make("unigram")
    trace = model.trace("the cat the cat", beam_size=1, max_length=8)
    found = views.plane_of(model, trace, "source" if side == "source" else "translation", 20)
    assert found.axes.shares.sum() <= 1 + 1e-6
    assert len(found.background) == len(found.background_ids) == 20
    for i, k in combinations(range(len(found.ids)), 2):
        if found.ids[i] == found.ids[k]:
            np.testing.assert_allclose(found.content[i], found.content[k], atol=1e-5)
            assert not np.allclose(found.entering[i], found.entering[k], atol=1e-3)
    assert found.position_norm == pytest.approx(12**0.5)  # sin^2 + cos^2, 12 pairs
    assert found.scale == pytest.approx(24**0.5)


def test_the_most_frequent_pieces_are_ordinary_ones() -> None:
    tokenizer = make("bytes").tokenizer
    frequent = views.most_frequent(tokenizer, 10)
    scores = [tokenizer.scores[index] for index in frequent]
    assert scores == sorted(scores, reverse=True)
    assert not set(frequent) & {0, 1, 2, 3, *tokenizer.byte_ids}
    assert views.most_frequent(tokenizer, 0) == ()
