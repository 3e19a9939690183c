import random
import re
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.tools import phrasebook
from recipes.tools.agreement import agreement_pairs
from recipes.tools.grammar import Noun, adjectives, elides, nouns
from recipes.tools.linked import FILE, as_text, linked_sentences
from recipes.tools.phrasebook import fill, parse, phrasebook_pairs, read_phrases
from recipes.tools.values import spelled
from recipes.tools.wiktionary import wiktionary_pairs
from transformer.__main__ import main
from transformer.measures.pharaoh import check_links
from transformer.training import corpus, linked
from transformer.training.corpus import (
    HELD_OUT,
    excluded_sources,
    load_corpus,
    load_held_out,
    spelled_out,
)
from transformer.training.data import DataError, read_lines, read_tsv, source_key
from transformer.training.recipe import DataRecipe

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


@pytest.mark.parametrize(("line", "fault"), [
    ("a\tb", "2 columns"), ("a\tb\tc\td", "4 columns"), ("a \tb\tc", "stray spaces"),
    ("a {n}\tb {n\tc {n}", "damaged slot"), ("a {n}\tb {n2}\tc {n}", "slots differ"),
    ("a {the:cheese}\tb {the:cheese}\tc {the:cheese}", "unknown slot"),
    ("a {height}\tb {height}\tc {height}", "unknown slot"),
    ("a {adj}\tb {adj}\tc {adj}", "no noun"),
])  # fmt: skip
def test_a_faulty_line_is_refused(line: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        parse(line)


def test_a_seed_makes_the_same_pairs_both_ways_and_some_as_people_type_them() -> None:
    some = PHRASES[::4]
    forth = phrasebook_pairs(some, "en", "de", copies=3)
    assert forth == phrasebook_pairs(some, "en", "de", copies=3)
    back = phrasebook_pairs(some, "de", "en", copies=3)
    assert {a.lower() for a, _ in forth} == {b.lower() for _, b in back}
    assert len(forth) == len(set(forth))
    with pytest.raises(ValueError, match="en-es"):
        phrasebook_pairs(some, "en", "es")
    triples = [parse("How nice it is!\tWie schön es ist!\tComme c'est beau !")] * 40
    triples.append(parse("Tom knows how.\tTom weiß, wie.\tTom sait comment."))
    made = set(phrasebook_pairs(triples, "en", "fr"))
    english = ("How nice it is!", "How nice it is", "how nice it is")
    french = ("Comme c'est beau !", *["Comme c'est beau"] * 2)
    assert set(zip(english, french, strict=True)) <= made
    assert not any(each.startswith("tom") for each, _ in made)


@pytest.mark.parametrize(("name", "article", "forms"), [
    ("bear", "the", "der Bär, den Bären, dem Bären, des Bären"),
    ("cat", "a", "eine Katze, eine Katze, einer Katze, einer Katze"),
    ("child", "my", "mein Kind, mein Kind, meinem Kind, meines Kindes"),
])  # fmt: skip
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


def test_vowels_and_mute_h_elide_and_numbers_are_spelled() -> None:
    for number, words in {
        81: "eighty-one, einundachtzig, quatre-vingt-un",
        101: "one hundred and one, hunderteins, cent un",
        3500: "three thousand five hundred, dreitausendfünfhundert, trois mille cinq cents",
    }.items():
        assert ", ".join(spelled(number)) == words
    with pytest.raises(ValueError, match="99,999"):
        spelled(100_000)
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
def test_sources_are_excluded(src: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = tmp_path / "typed.tsv"
    cells = (each.upper().replace(" ", " [x|] ") for each in PLAIN[0])
    typed.write_text("\t".join(["topic\n0", *cells]) + "\n", "utf-8")
    monkeypatch.setattr(phrasebook, "read_phrases", lambda: PLAIN)
    first, recipe = PLAIN[0][("en", "de").index(src)], DataRecipe(("phrasebook",), src, "fr")
    for excluded in (excluded_sources(typed), frozenset()):
        monkeypatch.setattr(corpus, "excluded_sources", lambda found=excluded: found)
        keys = {source_key(source) for source, _ in load_corpus(recipe, tmp_path).train}
        assert len(keys) > 500
        assert (source_key(first) in keys) == (not excluded)
        assert not excluded or not keys & {source_key(text) for text in HELD_OUT}


def test_a_repeated_phrasebook_fills_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = parse("{name} sleeps.\t{name} schläft.\t{name} dort.")
    monkeypatch.setattr(phrasebook, "read_phrases", lambda: [line])
    once = load_corpus(DataRecipe(("phrasebook",)), tmp_path).train
    twice = load_corpus(DataRecipe(("phrasebook", "phrasebook")), tmp_path).train
    assert twice[: len(once)] == once and set(twice) > set(once)


def test_the_phrasebook_holds_nothing_out_and_needs_files_and_languages(tmp_path: Path) -> None:
    assert {source_key(each) for each in HELD_OUT} <= excluded_sources()
    assert list(spelled_out("[A[b|c]|D] e|f")) == ["Ab e", "Ac e", "D e", "f"]
    assert list(spelled_out("plain")) == ["plain"]
    with pytest.raises(DataError, match="en-nl"):
        load_corpus(DataRecipe(("phrasebook",), "en", "nl"), tmp_path)
    held = load_held_out(DataRecipe(("reversal", "phrasebook")), tmp_path)
    assert not held.train and held.val and list(held.tests) == ["reverse_test"]
    with pytest.raises(DataError, match="no phrasebook"):
        read_phrases(tmp_path)
    (tmp_path / "a.tsv").write_text("Hi.\tHallo.\tSalut.\nHi.\tHallo.\n", "utf-8")
    with pytest.raises(DataError, match=r"a\.tsv: line 2: 2 columns"):
        read_phrases(tmp_path)


def test_pairs_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phrasebook, "read_phrases", lambda: PLAIN)
    assert main(["data", "phrasebook", f"--out={tmp_path}", "--sample=3", "--tgt=fr"]) == 0
    lines = capsys.readouterr().out.splitlines()
    known = set(load_corpus(DataRecipe(("phrasebook",), "en", "fr"), tmp_path).train)
    assert len(lines) == 3 and {tuple(line.split("\t")) for line in lines} <= known


def test_an_installation_without_the_tools_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "recipes.tools.phrasebook", None)
    with pytest.raises(DataError, match="phrasebook: needs recipes/tools"):
        load_corpus(DataRecipe(("phrasebook",)), tmp_path)


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


#: Target language, sentences, and the pronoun; none if the gender is unclear, or the English
#: sentence has another pronoun.
ROWS = [line.split("\t") for line in read_lines(Path(__file__).with_name("words") / "pronouns.tsv")]


@pytest.mark.parametrize(("tgt", "source", "target", "pronoun"), ROWS)
def test_pronouns_agree_with_the_article(tgt: str, source: str, target: str, pronoun: str) -> None:
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


def test_sentences_put_to_the_models_are_not_made_and_languages_are_known() -> None:
    with pytest.raises(ValueError, match="not for 'it'"):
        agreement_pairs([], "it")
    with pytest.raises(DataError, match="needs English as the source"):
        load_corpus(DataRecipe(("agreement",), "de", "en"), Path("."))
    mat = ("The cat sat on the mat.", "Die Katze saß auf der Matte.")
    made = agreement_pairs([mat] * 200, "de", copies=6)
    assert len(made) > 100
    assert not {source for source, _ in made} & set(HELD_OUT)


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=5))
def test_any_text_is_taken(pairs: list[tuple[str, str]]) -> None:
    for tgt in ("de", "fr"):
        assert agreement_pairs(pairs, tgt) == agreement_pairs(pairs, tgt)


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


def test_the_stored_links_are_made_of_the_phrasebook() -> None:
    assert FILE.read_text("utf-8") == as_text(linked_sentences(PHRASES))
    rows = {row.source: row for row in linked.linked_sentences("de", "en")}
    row = rows["Am Dienstagnachmittag spielt Lauren Schach."]
    assert row.target == "On Tuesday afternoon Lauren plays chess."
    assert row.gold.sure == {(3, 3), (4, 5)}
    assert row.gold.possible == {(1, 1), (1, 2), (3, 3), (4, 5)}
    for pair in linked.linked_sentences("fr", "de"):
        check_links(pair.gold, len(pair.source.split()), len(pair.target.split()))
        assert pair.gold.possible and not set("[]") & set(pair.source + pair.target)
    with pytest.raises(DataError, match="not for en-it"):
        linked.linked_sentences("en", "it")
