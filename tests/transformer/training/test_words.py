"""Dictionary words: the likeliest translation, right articles, nothing vulgar or odd."""

import re
import shutil
from pathlib import Path

import pytest

from transformer.training.corpus import load_corpus
from transformer.training.data import DataError, read_tsv
from transformer.training.recipe import DataRecipe
from transformer.training.synthetic.dictionary import wiktionary_pairs
from transformer.training.synthetic.grammar import Noun, adjectives

FOLDER = Path(__file__).with_name("words")
DICTIONARY = FOLDER / "wiktionary"
EVERYDAY = read_tsv(FOLDER / "en-de.tsv")


def test_the_translation_is_the_one_of_the_sentences() -> None:
    made = dict(wiktionary_pairs(DICTIONARY, EVERYDAY, "de"))
    assert made["cup"] == "Tasse" and made["bank"] == "Ufer"
    assert made["run"] == made["to run"] == "laufen"
    assert made["old"] == "alt" and made["Italy"] == "Italien"
    assert "the bank" in made or "a bank" in made
    assert not {"arse", "thou", "dog", "go", "the dog", "to go"} & made.keys()
    # Plurals, nouns that decline as adjectives, and compounds against their head: no article.
    text = "\n".join(f"{a}\t{b}" for a, b in made.items() if " " in a)
    assert "glasses" not in text and "clerk" not in text and " coffee cup" not in text
    assert made["coffee cup"] == "Kaffeetasse"
    back = wiktionary_pairs(DICTIONARY, EVERYDAY, "de", backwards=True)
    assert len({source for source, _ in back}) == len(back) and ("Tasse", "cup") in back


def test_articles_agree_in_every_sentence(tmp_path: Path) -> None:
    pairs = [pair for pair in EVERYDAY for _ in range(3)]
    lines = (DICTIONARY / "en-de.tsv").read_text("utf-8").splitlines(keepends=True)
    few = "".join(line for line in lines if "Bär" in line or "vessel" in line)
    (tmp_path / "en-de.tsv").write_text(few, "utf-8")
    # A noun that is weak in other cases is only ever a subject.
    masculine = {"Bären", "den", "dem", "einen", "einem", "keinen", "ihn", "ihm"}
    made = [
        pair for seed in range(60) for pair in wiktionary_pairs(tmp_path, pairs, "de", seed=seed)
    ]
    for english, german in (pair for pair in made if " " in pair[0]):
        assert ("Tasse" in german) == ("cup" in english)
        assert not masculine & set(german.split()), german
        if "cup" in english:
            assert not re.search(r"\b(Der|[kmKM]?[Ee]in) |der (?!Tasse)", german), german
    assert wiktionary_pairs(tmp_path, pairs, "de") == wiktionary_pairs(tmp_path, pairs, "de")


def test_french_elides_and_keeps_masculine_adjectives() -> None:
    pairs = [("I see a tree.", "Je vois un arbre."), ("an island.", "une île.")]
    made = dict(wiktionary_pairs(DICTIONARY, pairs, "fr"))
    assert made["old"] == "vieux" and made["to wash"] == "se laver"
    for english, french in made.items():
        assert not any(f"{word} {noun}" in french for word in ("le", "la", "de", "que", "ma")
                       for noun in ("arbre", "île")), (english, french)  # fmt: skip


def test_adjectives_decline_before_their_noun() -> None:
    old = next(each for each in adjectives() if each.en == "old")
    tree = Noun("tree", "Baum", "m", "arbre", "m", "Baumes")
    assert tree.english("a", old) == "an old tree"
    assert [tree.german(article, "nom", old) for article in ("the", "a", "no")] == [
        "der alte Baum", "ein alter Baum", "kein alter Baum",
    ]  # fmt: skip
    assert tree.german("a", "acc", old) == "einen alten Baum"
    assert tree.german("the", "gen", old) == "des alten Baumes"
    assert tree.german("it", "acc") == "ihn" and tree.french("it") == "il"
    assert tree.french("the", old) == "le vieil arbre" and tree.french("no") == "d'arbre"


def test_the_corpus_needs_its_files_and_a_language(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "en-de.tsv", tmp_path)
    (tmp_path / "en-nl.tsv").write_text("Hello.\tHallo.\n", "utf-8")
    (tmp_path / "wiktionary").mkdir()
    with pytest.raises(DataError, match="training"):
        load_corpus(DataRecipe(("wiktionary",)), tmp_path)
    with pytest.raises(DataError, match="nl"):
        load_corpus(DataRecipe(("wiktionary",), tgt="nl"), tmp_path)
    (tmp_path / "wiktionary/en-de.tsv").write_text("cup\tn\tTasse\n", "utf-8")
    with pytest.raises(DataError, match="line 1 has 3 columns"):
        load_corpus(DataRecipe(("wiktionary",)), tmp_path)
    forth = load_corpus(DataRecipe(("wiktionary",)), FOLDER).train
    back = load_corpus(DataRecipe(("wiktionary",), "de", "en"), FOLDER).train
    assert ("cup", "Tasse") in forth and ("Tasse", "cup") in back
