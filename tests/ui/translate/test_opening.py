"""The opening says what the heads do: where the light falls, and whether it moves."""

import dataclasses

import numpy as np
import pytest

from tests.riddles import ANIMAL, IT, NOUNS, STEP, STREET, aimed, scene
from transformer.trace.records import Trace
from ui.components.opening import Scene, opening_component
from ui.core.examples import Agreement, Example, Riddle, examples_for, languages_of_training
from ui.translate.opening import Staged, first_scene, no_second, script, second_scene, stage

AGREEMENT = Agreement("German asks for the noun.", ("das Tier", "die Matte"), ("es", "sie"))
RIDDLE = Riddle("it", NOUNS, {"de": AGREEMENT}, "Others do better.")
EXAMPLE = Example("It was too tired.", beside="It was too wide.", riddle=RIDDLE)


def staged(trace: Trace, first: Staged | None = None) -> Staged:
    found = stage(trace, RIDDLE, first)
    assert found is not None
    return found


def beside(trace: Trace, first: Staged) -> Scene:
    return second_scene(first, staged(trace, first), RIDDLE, AGREEMENT)


def translated(trace: Trace, pronoun: str, translation: str) -> Trace:
    tokens = list(trace.predicted_tokens)
    tokens[STEP] = f"▁{pronoun}"
    return dataclasses.replace(trace, predicted_tokens=tuple(tokens), text=translation)


@pytest.mark.parametrize(
    ("kind", "stack"), [("encoder_self", "the encoder"), ("cross", "the decoder")]
)
def test_the_first_scene_names_the_head_and_gives_both_nouns(kind: str, stack: str) -> None:
    first = staged(aimed(scene(), kind, 1, 3, ANIMAL))
    shown = first_scene(first, RIDDLE)
    said = f"In {stack}, layer 2, head 4 gives animal 1.00 of its weight, street 0.00."
    assert said in "".join(shown.verdict)
    assert shown.verdict[1::2] == (first.pronoun(), "animal", "street")
    assert shown.kind == kind and shown.light[first.referent.nouns[0]] == pytest.approx(1)
    assert "Of the 25 heads that read “it”" in shown.detail
    lean = int((first.referent.preferred == 0).sum())
    assert f"{lean} look more at animal than at street" in shown.detail


def test_where_no_head_prefers_the_right_noun_the_first_scene_says_so() -> None:
    trace = scene()
    encoder, cross = trace.encoder_self.copy(), trace.cross.copy()
    for maps, row in ((encoder, IT), (cross, STEP)):
        maps[:, :, row, STREET] = maps[:, :, row, list(ANIMAL)].sum(axis=-1) + 0.01
    first = staged(dataclasses.replace(trace, encoder_self=encoder, cross=cross))
    assert first.look is None
    shown = first_scene(first, RIDDLE)
    assert "no head looks more at animal than at street" in "".join(shown.verdict)
    np.testing.assert_allclose(shown.light, first.referent.weights["cross"].mean(axis=(0, 1)))
    assert "the same mean gives animal" in "".join(beside(trace, first).verdict)


def test_the_second_scene_follows_the_same_head_whether_its_light_moves_or_stays() -> None:
    first = staged(aimed(scene(), "cross", 1, 3, ANIMAL))
    moved = beside(aimed(scene(), "cross", 1, 3, (STREET,)), first)
    assert "The light moves: the same head gives animal 0.00" in "".join(moved.verdict)
    assert "One head turns from animal to street, of 25." in moved.detail
    assert RIDDLE.known not in moved.detail
    stays = beside(first.trace, first)
    assert "The light stays: the same head gives animal 1.00" in "".join(stays.verdict)
    assert stays.detail == f"No head turns from animal to street, of 25. {RIDDLE.known}"
    assert stays.heading == "Now “it” is the street."


@pytest.mark.parametrize(
    ("pronoun", "translation", "end"),
    [
        ("es", "Die Matte, weil es breit war.", " es again, but “die Matte” asks for sie."),
        ("sie", "Die Matte, weil sie breit war.", " Now it writes sie, as “die Matte” asks."),
        ("es", "Der Weg, weil es breit war.", " The model writes es again."),
        ("er", "Der Weg, weil er breit war.", " Now it writes er."),
    ],
)
def test_the_second_scene_says_whether_the_pronoun_changes_and_what_its_noun_asks_for(
    pronoun: str, translation: str, end: str
) -> None:
    trace = aimed(scene(), "cross", 0, 0, ANIMAL)
    first = staged(translated(trace, "es", "Das Tier, weil es müde war."))
    then = beside(translated(trace, pronoun, translation), first)
    assert "".join(then.verdict).endswith(end)
    assert set(then.verdict[1::2]) <= {"animal", "street", "es", "er", "sie"}


def test_the_message_holds_both_scenes_and_the_light_of_every_token_before_the_pronoun() -> None:
    first = staged(aimed(scene(), "cross", 1, 3, ANIMAL))
    then = beside(scene(1), first)
    words = script(EXAMPLE, RIDDLE, ("en", "de"))
    alone = opening_component(words, first_scene(first, RIDDLE)).header
    assert len(alone["scenes"]) == 1 and not alone["covers"] and not alone["missing"]
    header = opening_component(words, first_scene(first, RIDDLE), then, covers=True).header
    assert header["changed"] == ("tired", "wide") and header["covers"]
    assert (header["source"]["name"], header["target"]["code"]) == ("English", "de")
    one, other = header["scenes"]
    assert " ".join(one["words"]) == "The animal left the street as it was tired. </s>"
    assert [one["words"][at] for at in (*one["nouns"], one["pronoun"])] == [*NOUNS, "it"]
    assert [token["text"] for token in one["tokens"]][:2] == ["die", "Katze"]
    assert len(one["tokens"]) == len(first.trace.predicted_tokens) - 1  # without </s>
    assert np.shape(one["written"]) == (STEP, len(one["words"]))
    np.testing.assert_allclose(np.sum(one["written"], axis=1), 1, atol=0.01)
    assert len(other["light"]) == len(other["words"])
    why = no_second(EXAMPLE, RIDDLE)
    missing = opening_component(words, first_scene(first, RIDDLE), missing=why).header
    assert EXAMPLE.beside in missing["missing"]


def test_the_shipped_models_that_translate_sentences_have_a_riddle_in_their_language() -> None:
    for name in ("everyday-en-de", "everyday-en-fr"):
        riddle = examples_for(name).items[0].riddle
        assert riddle is not None and languages_of_training(name)[1] in riddle.target
    assert not any(item.riddle for item in examples_for("reverse-toy").items)
    assert not any(item.riddle for item in examples_for("multi30k-en-de").items)
    metrics = {"training": {"recipe": {"data": {"src": "en", "tgt": "fr"}}}}
    assert languages_of_training("mine", metrics) == ("en", "fr")
    assert languages_of_training("mine", {"training": 3}) == ("", "")
