"""Pairs whose pronoun agrees with the noun before it: right genders, nothing held out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.training.corpus import load_corpus
from transformer.training.data import DataError
from transformer.training.pronouns import HELD_OUT, agreement_pairs
from transformer.training.recipe import DataRecipe

GERMAN = [
    ("The cup broke.", "Die Tasse zerbrach.", "sie"),
    ("The train is late.", "Der Zug hat Verspätung.", "er"),
    ("The ship sank.", "Das Schiff ist gesunken.", "es"),
    ("I like the dog.", "Ich mag den Hund.", "er"),
    ("Tom lost the bet.", "Tom hat die Wette verloren.", "sie"),
    ("I see the book.", "Ich sehe das Buch.", "es"),
]
FRENCH = [
    ("The train is late.", "Le train est en retard.", "il"),
    ("The game is over.", "La partie est terminée.", "elle"),
    ("Tom read the letter.", "Tom a lu la lettre.", "elle"),
    ("I opened the trunk.", "J'ai ouvert le coffre.", "il"),
]
#: Sentences whose gender is unclear, or that have another pronoun in English.
UNCLEAR = [
    ("de", "The boy is kind.", "Der Junge ist nett."),
    ("de", "The shoes were new.", "Die Schuhe waren neu."),
    ("de", "The cat ate its food.", "Die Katze fraß ihr Futter."),
    ("de", "Is the cup full?", "Ist die Tasse voll?"),
    ("de", "I sat in the car.", "Ich saß in dem Auto."),
    ("de", "I gave the dog the bone.", "Ich gab dem Hund den Knochen."),
    ("fr", "I see the woman.", "Je la vois."),
    ("fr", "The hotel is full.", "L'hôtel est complet."),
]


@pytest.mark.parametrize(("source", "target", "pronoun"), GERMAN)
def test_german_pronouns_have_the_gender_of_the_article(
    source: str, target: str, pronoun: str
) -> None:
    made = agreement_pairs([(source, target)], "de", copies=6)
    assert len(made) == 6
    for english, german in made:
        assert english.startswith(source[:-1]) and " it " in english
        assert german.startswith(target[:-1]) and german.endswith(".")
        added = german[len(target) - 1 :].strip(" ,.").split()
        assert set(added) & {"er", "sie", "es"} == {pronoun}


@pytest.mark.parametrize(("source", "target", "pronoun"), FRENCH)
def test_french_pronouns_have_the_gender_of_the_article(
    source: str, target: str, pronoun: str
) -> None:
    for _, french in agreement_pairs([(source, target)], "fr", copies=6):
        added = french[len(target) - 1 :].replace("'", " ").strip(" ,.").split()
        assert set(added) & {"il", "elle"} == {pronoun}


def test_a_french_adjective_agrees_as_well() -> None:
    made = agreement_pairs([("The game is over.", "La partie est finie.")] * 40, "fr", seed=1)
    added = [french.split("finie", 1)[1] for english, french in made if "tired" in english]
    assert added and all("fatiguée" in clause for clause in added)


def test_an_elided_article_is_settled_by_other_sentences() -> None:
    hotel = ("The hotel is full.", "L'hôtel est complet.")
    others = [("I saw a hotel.", "J'ai vu un hôtel."), ("It is a hotel.", "C'est un hôtel.")]
    made = agreement_pairs([hotel, *others], "fr")
    assert made and all(
        "qu'il" in french or " il " in french or "il est" in french for _, french in made
    )


@pytest.mark.parametrize(("tgt", "source", "target"), UNCLEAR)
def test_what_is_unclear_is_left_alone(tgt: str, source: str, target: str) -> None:
    assert agreement_pairs([(source, target)], tgt) == []


def test_sentences_put_to_the_models_are_not_made() -> None:
    mat = ("The cat sat on the mat.", "Die Katze saß auf der Matte.")
    made = agreement_pairs([mat] * 200, "de", copies=6)
    assert len(made) > 100
    assert not {source for source, _ in made} & set(HELD_OUT)


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=5))
def test_any_text_is_taken(pairs: list[tuple[str, str]]) -> None:
    for tgt in ("de", "fr"):
        assert agreement_pairs(pairs, tgt) == agreement_pairs(pairs, tgt)


def test_only_known_languages() -> None:
    with pytest.raises(ValueError, match="not for 'it'"):
        agreement_pairs([], "it")
    with pytest.raises(DataError, match="needs English as the source"):
        load_corpus(DataRecipe(("agreement",), "de", "en"), Path("."))


def test_the_corpus_is_made_from_the_training_part(tmp_path: Path) -> None:
    lines = [f"The cup number {n} broke.\tDie Tasse Nummer {n} zerbrach.\n" for n in range(400)]
    (tmp_path / "tatoeba").mkdir()
    (tmp_path / "tatoeba" / "en-de.tsv").write_text("".join(lines), encoding="utf-8")
    everyday = load_corpus(DataRecipe(("tatoeba",)), tmp_path)
    both = load_corpus(DataRecipe(("tatoeba", "agreement")), tmp_path)
    added = [pair for pair in both.train if pair not in set(everyday.train)]
    assert len(added) > len(everyday.train)
    held_out = {source[:-1] for source, _ in (*everyday.val, *everyday.tests["tatoeba_test"])}
    assert not any(source.startswith(start) for source, _ in added for start in held_out)
    assert both.tests == everyday.tests
