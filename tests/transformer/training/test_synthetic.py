"""Made training text: every line of the phrasebook fills, and grammar holds for every noun."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.__main__ import main
from transformer.training import corpus
from transformer.training.corpus import excluded_sources, load_corpus, load_held_out, spelled_out
from transformer.training.data import DataError, source_key
from transformer.training.pronouns import HELD_OUT
from transformer.training.recipe import DataRecipe
from transformer.training.synthetic.grammar import adjectives, elides, nouns
from transformer.training.synthetic.phrasebook import (
    fill,
    parse,
    phrasebook_pairs,
    read_phrases,
)
from transformer.training.synthetic.values import spelled

PHRASES = read_phrases()
PLAIN = [phrase for phrase in PHRASES if "{" not in phrase[0]]
EVERY_NOUN = [noun for each in nouns().values() for noun in each]
seeds = st.integers(0, 2**32)


def filled(english: str, german: str, french: str, seed: int = 0) -> tuple[str, str, str]:
    return fill(parse(f"{english}\t{german}\t{french}"), random.Random(seed))


def test_every_line_fills_without_a_brace_left_or_a_gap() -> None:
    assert len(PHRASES) > 500
    for phrase in PHRASES:
        for seed in range(5 if "{" in phrase[0] else 1):
            for text in fill(phrase, random.Random(seed)):
                assert not re.search(r"[{}\x00-\x1f]|  |^ | $", text), phrase
                # "Avant de le laver": before a verb it is a pronoun.
                if "{" in phrase[2] and "{obj:" not in phrase[2]:
                    assert not re.search(r"\b(de le|à le|1 heures)\b", text), phrase


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("a\tb", "2 columns"), ("a\tb\tc\td", "4 columns"), ("a \tb\tc", "stray spaces"),
        ("a {n}\tb {n\tc {n}", "damaged slot"), ("a {n}\tb {n2}\tc {n}", "slots differ"),
        ("a {the:cheese}\tb {the:cheese}\tc {the:cheese}", "unknown slot"),
        ("a {height}\tb {height}\tc {height}", "unknown slot"),
        ("a {adj}\tb {adj}\tc {adj}", "no noun"),
    ],
)  # fmt: skip
def test_a_faulty_line_is_refused(line: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        parse(line)


def test_a_folder_without_a_phrasebook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no phrasebook"):
        read_phrases(tmp_path)
    (tmp_path / "a.tsv").write_text("Hi.\tHallo.\tSalut.\nHi.\tHallo.\n", "utf-8")
    with pytest.raises(DataError, match=r"a\.tsv: line 2: 2 columns"):
        read_phrases(tmp_path)


def test_the_same_seed_makes_the_same_pairs_in_every_direction() -> None:
    some = PHRASES[::4]
    forth = phrasebook_pairs(some, "en", "de", copies=3)
    assert forth == phrasebook_pairs(some, "en", "de", copies=3)
    back = phrasebook_pairs(some, "de", "en", copies=3)
    assert {a.lower() for a, _ in forth} == {b.lower() for _, b in back}
    assert len(forth) == len(set(forth))
    with pytest.raises(ValueError, match="en-es"):
        phrasebook_pairs(some, "en", "es")


def test_some_pairs_come_again_as_people_type_them() -> None:
    triples = [parse("How nice it is!\tWie schön es ist!\tComme c'est beau !")] * 40
    triples.append(parse("Tom knows how.\tTom weiß, wie.\tTom sait comment."))
    made = set(phrasebook_pairs(triples, "en", "fr"))
    english = ("How nice it is!", "How nice it is", "how nice it is")
    french = ("Comme c'est beau !", *["Comme c'est beau"] * 2)
    assert set(zip(english, french, strict=True)) <= made
    assert not any(each.startswith("tom") for each, _ in made)


@pytest.mark.parametrize(
    ("name", "article", "forms"),
    [
        ("bear", "the", "der Bär, den Bären, dem Bären, des Bären"),
        ("cat", "a", "eine Katze, eine Katze, einer Katze, einer Katze"),
        ("child", "my", "mein Kind, mein Kind, meinem Kind, meines Kindes"),
    ],
)
def test_german_articles_follow_gender_and_case(name: str, article: str, forms: str) -> None:
    noun = next(noun for noun in EVERY_NOUN if noun.en == name)
    assert ", ".join(noun.german(article, case) for case in ("nom", "acc", "dat", "gen")) == forms


def test_every_noun_has_its_forms() -> None:
    for noun in EVERY_NOUN:
        assert noun.de[0].isupper() and bool(noun.de_gen) == (noun.de_gender != "f"), noun
        assert noun.de_gen.endswith(("s", "n")) or noun.de_gender == "f", noun
        # A noun whose accusative differs has the same genitive.
        assert noun.de_acc in ("", noun.de_gen), noun
        the, a, my = noun.french("the"), noun.french("a"), noun.french("my")
        assert the.startswith("l'") == elides(noun.fr), noun
        assert a.startswith("une ") == (noun.fr_gender == "f"), noun
        assert my.startswith("ma ") == (noun.fr_gender == "f" and not elides(noun.fr)), noun


@given(seeds)
def test_german_and_french_contract_and_french_elides(seed: int) -> None:
    _, german, french = filled(
        "{day} of {the:animal} to {the:animal} that {name}",
        "{day} von {the:animal.dat} zu {the:animal.dat}, dass {name}",
        "{day} de {the:animal} à {the:animal} que {name}",
        seed,
    )
    assert german[0].isupper() and french[0].isupper()
    german, french = (text.partition(" ")[2] for text in (german, french))
    assert re.fullmatch(r"(du|de la|de l') ?\S+ (au|à la|à l') ?\S+ (que |qu')\S+", french)
    assert not re.search(r"\b(de|à) les? ", french)
    assert re.fullmatch(r"(vom|von der) \S+ (zum|zur) \S+, dass \S+", german)
    assert not re.search(r"que [AEIOUÀÉÈÊ]", french) and not re.search(r"qu'[^AEIOUÀÉÈÊHY]", french)


@given(seeds)
def test_adjectives_agree_with_the_first_noun(seed: int) -> None:
    line = "{a:thing} and {the:person} {adj}"
    english, _, french = filled(line, line, line, seed)
    adjective = next(each for each in adjectives() if english.endswith(f" {each.en}"))
    feminine = french.startswith("Une ")
    assert french.endswith(f" {adjective.fr_f if feminine else adjective.fr}")


def test_vowels_and_mute_h_elide() -> None:
    mute = ("arbre", "hôtel", "homme", "héroïne", "horloge", "école", "Yves", "un chien", "œuf")
    others = ("hibou", "holding", "héros", "honte", "onze", "yaourt", "chat")
    assert [each for each in (*mute, *others) if elides(each)] == [*mute]


@given(seeds)
def test_numbers_keep_their_digits_and_take_each_language_s_marks(seed: int) -> None:
    line = "{big} {price} {decimal} {n}"
    english, german, french = filled(line, line, line, seed)
    assert german == english.translate(str.maketrans(",.", ".,"))
    assert re.sub(r"\D", "", english) == re.sub(r"\D", "", french) and "." not in french
    amounts = filled(*["{money} {count} {phone}"] * 3, seed)
    assert len({re.sub(r"\D", "", text) for text in amounts}) == 1
    assert amounts[1][0].isdigit() and amounts[2][0].isdigit()


def test_numbers_in_words() -> None:
    for number, words in {
        81: "eighty-one, einundachtzig, quatre-vingt-un",
        101: "one hundred and one, hunderteins, cent un",
        3500: "three thousand five hundred, dreitausendfünfhundert, trois mille cinq cents",
    }.items():
        assert ", ".join(spelled(number)) == words
    with pytest.raises(ValueError, match="99,999"):
        spelled(100_000)


def test_names_are_single_words_and_have_an_apostrophe_in_german_after_s() -> None:
    found = {
        filled("{name}'s car", "{name}s Auto", "la voiture de {name}", seed)[:2]
        for seed in range(200)
    }
    for english, german in found:
        name = english.removesuffix("'s car")
        assert name[0].isupper() and " " not in name
        assert german == (f"{name}' Auto" if name[-1] in "sxzß" else f"{name}s Auto")
    assert any(german.endswith("' Auto") for _, german in found)


@pytest.mark.parametrize("src", ["en", "de"])
def test_the_corpus_never_has_an_excluded_source(
    src: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = tmp_path / "typed.tsv"
    cells = (each.upper().replace(" ", " [x|] ") for each in PLAIN[0])
    typed.write_text("\t".join(["topic\n0", *cells]) + "\n", "utf-8")
    monkeypatch.setattr(corpus, "read_phrases", lambda: PLAIN)
    first, recipe = PLAIN[0][("en", "de").index(src)], DataRecipe(("phrasebook",), src, "fr")
    for excluded in (excluded_sources(typed), frozenset()):
        monkeypatch.setattr(corpus, "excluded_sources", lambda found=excluded: found)
        keys = {source_key(source) for source, _ in load_corpus(recipe, tmp_path).train}
        assert len(keys) > 500
        assert (source_key(first) in keys) == (not excluded)
        assert not excluded or not keys & {source_key(text) for text in HELD_OUT}


def test_alternatives_are_spelled_out() -> None:
    assert list(spelled_out("[A[b|c]|D] e|f")) == ["Ab e", "Ac e", "D e", "f"]
    assert list(spelled_out("plain")) == ["plain"]


def test_a_repeated_phrasebook_fills_its_slots_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = parse("{name} sleeps.\t{name} schläft.\t{name} dort.")
    monkeypatch.setattr(corpus, "read_phrases", lambda: [line])
    once = load_corpus(DataRecipe(("phrasebook",)), tmp_path).train
    twice = load_corpus(DataRecipe(("phrasebook", "phrasebook")), tmp_path).train
    assert twice[: len(once)] == once and set(twice) > set(once)


def test_the_phrasebook_holds_nothing_out_and_needs_its_languages(tmp_path: Path) -> None:
    assert {source_key(each) for each in HELD_OUT} <= excluded_sources()
    with pytest.raises(DataError, match="en-nl"):
        load_corpus(DataRecipe(("phrasebook",), "en", "nl"), tmp_path)
    held = load_held_out(DataRecipe(("reversal", "phrasebook")), tmp_path)
    assert not held.train and held.val and list(held.tests) == ["reverse_test"]


def test_pairs_are_shown_for_proofreading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "read_phrases", lambda: PLAIN)
    arguments = ["data", "phrasebook", "--out", str(tmp_path), "--sample", "3", "--tgt", "fr"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    known = set(load_corpus(DataRecipe(("phrasebook",), "en", "fr"), tmp_path).train)
    assert len(lines) == 3 and {tuple(line.split("\t")) for line in lines} <= known


@given(seeds)
def test_lists_fill_with_a_language_each_and_elide_after_a_clause(seed: int) -> None:
    _, _, french = filled(
        "{sayer} {feminine} eats {stuff}", "{sayer} {feminine} {stuff} isst",
        "{sayer} {feminine} mange peu de {stuff}", seed,
    )  # fmt: skip
    assert not re.search(r"\b(?:que|de) [AEIOUaeiouœ]", french)
    line = "{everypart} {spandat} {titleddat}"
    _, german, french = filled(line, line, line, seed)
    assert re.match(r"Jeden [A-Z][a-z]+(morgen|nachmittag|abend) .* \w+n ", german)
    assert french.startswith("Tous les ") and "Herr " not in german
