"""Pairs whose pronoun agrees with the noun before it: right genders, nothing held out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.training.corpus import load_corpus
from transformer.training.data import DataError
from transformer.training.pronouns import HELD_OUT, agreement_pairs
from transformer.training.recipe import DataRecipe

GENDERS = [
    ("de", "The cup broke.", "Die Tasse zerbrach.", "sie"),
    ("de", "The train is late.", "Der Zug hat Verspätung.", "er"),
    ("de", "The ship sank.", "Das Schiff ist gesunken.", "es"),
    ("de", "I like the dog.", "Ich mag den Hund.", "er"),
    ("de", "Tom lost the bet.", "Tom hat die Wette verloren.", "sie"),
    ("de", "I see the book.", "Ich sehe das Buch.", "es"),
    ("fr", "The train is late.", "Le train est en retard.", "il"),
    ("fr", "The game is over.", "La partie est terminée.", "elle"),
    ("fr", "Tom read the letter.", "Tom a lu la lettre.", "elle"),
    ("fr", "I opened the trunk.", "J'ai ouvert le coffre.", "il"),
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


@pytest.mark.parametrize(("tgt", "source", "target", "pronoun"), GENDERS)
def test_pronouns_have_the_gender_of_the_article(
    tgt: str, source: str, target: str, pronoun: str
) -> None:
    made = agreement_pairs([(source, target)], tgt, copies=6)
    assert len(made) == 6
    for english, translated in made:
        assert english.startswith(source[:-1]) and " it " in english
        assert translated.startswith(target[:-1]) and translated.endswith(".")
        added = translated[len(target) - 1 :].replace("'", " ").strip(" ,.").split()
        pronouns = {"er", "sie", "es"} if tgt == "de" else {"il", "elle"}
        assert set(added) & pronouns == {pronoun}


def test_french_adjectives_agree_and_other_sentences_give_the_gender_of_an_elided_article() -> None:
    made = agreement_pairs([("The game is over.", "La partie est finie.")] * 40, "fr", seed=1)
    added = [french.split("finie", 1)[1] for english, french in made if "tired" in english]
    assert added and all("fatiguée" in clause for clause in added)
    hotel = ("The hotel is full.", "L'hôtel est complet.")
    others = [("I saw a hotel.", "J'ai vu un hôtel."), ("It is a hotel.", "C'est un hôtel.")]
    made = agreement_pairs([hotel, *others], "fr")
    assert made and all(re.search(r"qu'il| il |il est", french) for _, french in made)


def test_what_is_unclear_or_put_to_the_models_is_not_made() -> None:
    for tgt, source, target in UNCLEAR:
        assert agreement_pairs([(source, target)], tgt) == []
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
