import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from tests.factories import make_trace
from tests.forks import ROOT
from tests.riddles import ANIMAL, IT, NOUNS, STEP, STREET, aimed, scene
from tests.views import make_view
from transformer.checkpoint.folder import training_text
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.components.opening import Scene, opening_component
from ui.core.doubts import doubts, length_warning, uncertainty, unknown_pieces
from ui.core.examples import Act, Example, Riddle, examples_for, languages_of_training
from ui.tours.opening import scene as scene_of
from ui.tours.opening import script, stage
from ui.translate.player import default_step

KNOWN = "Others do better."
RIDDLE = Riddle("it", "German asks for the noun.", "nicht", (
    Act("It was too tired.", *NOUNS, "das Tier", "es", "", "der Weg", "er"),
    Act("It was too old.", *NOUNS, "das Tier", "es"),
    Act("The street was wide.", *NOUNS[::-1], "die Matte", "sie", KNOWN),
))  # fmt: skip


def plain(one: Scene) -> str:
    return one.verdict.replace("**", "")


def scenes(traces: Sequence[Trace]) -> list[Scene]:
    staged = stage(RIDDLE, traces)
    pairs = zip((None, *staged), staged, strict=False)
    return [scene_of(RIDDLE, before, each) for before, each in pairs]


@pytest.mark.parametrize(
    ("kind", "name"), [("encoder_self", "Encoder self-attention"), ("cross", "Cross-attention")]
)
def test_scenes_name_the_head_and_give_both_nouns(kind: str, name: str) -> None:
    lit = [aimed(scene(seed), kind, 1, 3, ANIMAL) for seed in range(3)]
    first, second, last = scenes(lit)
    said = f"{name} layer 2, head 4 gives animal 1.00 of its weight, street 0.00."
    assert said in plain(first)
    assert first.verdict.split("**")[1::2] == [
        lit[0].predicted_tokens[STEP].lstrip("▁"),
        "animal",
        "street",
    ]
    assert first.kind == kind and "Of the 25 heads that read “it”" in first.detail
    assert "The same head gives animal 1.00" in plain(second)
    assert (first.heading, second.heading) == ("", "Now “it” is the animal.")
    # Another sentence is another question.
    assert last.heading == ""
    assert last.replies == ("Yes, the street.", "No, the street, not the animal.")
    # At the last one the light stays where it does not belong.
    assert "The same head gives street 0.00" in plain(last)
    assert last.detail.endswith(KNOWN) and KNOWN not in first.detail
    assert KNOWN not in scenes([*lit[:2], aimed(scene(2), kind, 1, 3, (STREET,))])[-1].detail


def test_where_no_head_prefers_the_right_noun_the_light_is_the_mean() -> None:
    trace = scene()
    encoder, cross = trace.encoder_self.copy(), trace.cross.copy()
    for maps, row in ((encoder, IT), (cross, STEP)):
        maps[:, :, row, STREET] = maps[:, :, row, list(ANIMAL)].sum(axis=-1) + 0.01
    (staged,) = stage(RIDDLE, [dataclasses.replace(trace, encoder_self=encoder, cross=cross)])
    assert staged.look is None
    np.testing.assert_allclose(staged.light, staged.referent.weights["cross"].mean(axis=(0, 1)))
    shown = scene_of(RIDDLE, None, staged)
    assert "The mean of the decoder's heads gives animal" in plain(shown)


@pytest.mark.parametrize(("pronoun", "translation", "said"), [
    ("es", "Das Tier, weil es müde war.", "The model writes es, as “das Tier” needs. C"),
    ("er", "Das Tier, weil er müde war.", "The model writes er, but “das Tier” needs es. C"),
    ("er", "Das Tier, der Weg, er.", "The model gets it wrong: its er fits “der Weg”, but"),
    ("er", "Der Hund, weil er müde war.", "The model writes er. C"),
])  # fmt: skip
def test_a_scene_says_whether_the_pronoun_fits_its_noun(
    pronoun: str, translation: str, said: str
) -> None:
    trace = aimed(scene(), "cross", 0, 0, ANIMAL)
    tokens = list(trace.predicted_tokens)
    tokens[STEP] = f"▁{pronoun}"
    trace = dataclasses.replace(trace, predicted_tokens=tuple(tokens), text=translation)
    (shown,) = scenes([trace])
    assert plain(shown).startswith(said)
    assert set(shown.verdict.split("**")[1::2]) <= {"animal", "street", "es", "er"}


def test_the_message_holds_every_scene_and_the_light_of_every_token_before_the_pronoun() -> None:
    traces = [aimed(scene(seed), "cross", 1, 3, ANIMAL) for seed in range(3)]
    words = script(RIDDLE, stage(RIDDLE, traces), ("en", "de"))
    header = opening_component(words, scenes(traces), covers=True).header
    assert header["onward"] == [
        "Swap **tired** for **old**",
        "Another sentence",
        "Back to the first sentence",
    ]
    assert (header["source"]["name"], header["target"]["code"]) == ("English", "de")
    one, *_, other = header["scenes"]
    assert " ".join(one["words"]) == "The animal left the street as it was tired. </s>"
    assert [one["words"][at] for at in (*one["nouns"], one["pronoun"])] == [*NOUNS, "it"]
    assert [token["text"] for token in one["tokens"]][:2] == ["die", "Katze"]
    assert len(one["tokens"]) == len(traces[0].predicted_tokens) - 1  # without </s>
    assert np.shape(one["written"]) == (STEP, len(one["words"]))
    np.testing.assert_allclose(np.sum(one["written"], axis=1), 1, atol=0.01)
    assert len(other["light"]) == len(other["words"])
    assert not stage(RIDDLE, [dataclasses.replace(traces[0], cross=traces[0].cross[:0])])


def test_the_shipped_models_that_translate_sentences_have_a_riddle_in_their_language() -> None:
    for name in ("everyday-en-de", "everyday-en-fr"):
        assert languages_of_training(name)[1] in examples_for(name).riddles
    assert not examples_for("reverse-toy").riddles and not examples_for("multi30k-en-de").riddles
    metrics = {"training": {"recipe": {"data": {"src": "en", "tgt": "fr"}}}}
    assert languages_of_training("mine", metrics) == ("en", "fr")
    assert languages_of_training("mine", {"training": 3}) == ("", "")


TOY = ROOT / "checkpoints/reverse-toy"
TRACE = make_trace()


@pytest.mark.parametrize(("tokens", "unknown", "expected"), [
    (["▁", "漢字", "</s>"], (1,), ["漢字"]),
    (["▁", *(f"<0x{b:02X}>" for b in "漢字".encode()), "</s>"], range(1, 7), ["漢字"]),
    (["<0x3C>", "b", "<0x3E>", "b", "<0x3C>", "</s>"], (0, 2, 4), ["<", ">"]),
    (["<0xE6>", "a", "<0xC3>", "<0xB1>", "é", "</s>"], (0, 2, 3, 4), ["\ufffd", "ñ", "é"]),
    (["▁<unk>", "a", "▁⁇<unk>", "▁⁇x", "⁇y", "</s>"], (0, 2, 3, 4), ["<unk>", "x", "y"]),
    (["a", "</s>"], (), []),
])  # fmt: skip
def test_unknown_pieces(tokens: list[str], unknown: tuple[int, ...], expected: list[str]) -> None:
    assert unknown_pieces(tokens, unknown) == expected


def test_a_source_longer_than_the_training_text_is_warned_of() -> None:
    length = len(TRACE.src_tokens) - len(TRACE.src_special)

    def warning(longest: object) -> str:
        record = {"kind": "everyday sentences", "src_tokens": longest}
        return length_warning(training_text({"training_text": record}), TRACE)

    assert warning(length) == warning("1") == length_warning(None, TRACE) == ""
    assert f"has {length} tokens" in warning(length - 1)
    assert f"have at most {length - 1}." in warning(length - 1)


def test_a_translation_that_its_own_model_doubts_is_doubtful() -> None:
    sure = dataclasses.replace(make_trace(T=6), log_probs=np.full(6, -0.1, "f4"))
    doubted = dataclasses.replace(sure, log_probs=np.full(6, -1.0, "f4"))
    assert uncertainty(sure) == uncertainty(dataclasses.replace(doubted, n_forced=2)) == ""
    assert "a probability of 37% on average" in uncertainty(doubted)
    # It was measured on finished models.
    for moment, said in (("", [uncertainty(doubted)]), ("@3000", [])):
        view = make_view(ROOT / f"checkpoints/everyday-en-de{moment}")
        known = dataclasses.replace(doubted, src_unknown=())
        assert [*filter(None, doubts(view.entry, known))] == said


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
