"""Pairs whose pronoun agrees with the noun before it: right genders, nothing held out."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.training.corpus import load_corpus
from transformer.training.data import DataError, read_lines
from transformer.training.pronouns import HELD_OUT, agreement_pairs
from transformer.training.recipe import DataRecipe

#: Target language, sentences, and the pronoun; none if the gender is unclear, or the English
#: sentence has another pronoun.
ROWS = [line.split("\t") for line in read_lines(Path(__file__).with_name("words") / "pronouns.tsv")]


@pytest.mark.parametrize(("tgt", "source", "target", "pronoun"), ROWS)
def test_pronouns_have_the_gender_of_the_article(
    tgt: str, source: str, target: str, pronoun: str
) -> None:
    made = agreement_pairs([(source, target)], tgt, copies=6)
    assert len(made) == (6 if pronoun else 0)
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
