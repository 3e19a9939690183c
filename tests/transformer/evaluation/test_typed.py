"""The typed sentences: their patterns, what counts as right, and the command."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.snapshots import write_snapshots
from tests.transformer.conftest import Command
from transformer.evaluation import typed
from transformer.training.data import DataError
from transformer.translator import Translator

PAIRS = [(src, tgt) for src in ("en", "de", "fr") for tgt in ("en", "de", "fr") if src != tgt]

#: Words, bracketed alternatives, and both in a row.
WORDS = st.text("abc", min_size=1, max_size=4)
PARTS = st.lists(st.lists(WORDS | st.just(""), min_size=1, max_size=3), min_size=1, max_size=4)


@given(PARTS)
def test_a_pattern_accepts_each_choice_of_its_alternatives(parts: list[list[str]]) -> None:
    pattern = " ".join(f"[{'|'.join(part)}]" for part in parts)
    every = [""]
    for part in parts:
        every = [f"{head} {tail}" for head in every for tail in part]
    assert typed.variants(pattern) == tuple(dict.fromkeys(" ".join(text.split()) for text in every))
    # Outer brackets change nothing; a second sentence adds its own.
    assert typed.variants(f"[{pattern}]") == typed.variants(pattern)
    assert set(typed.variants(f"{pattern} | end")) == {*typed.variants(pattern), "end"}
    assert typed.variants("[a|b [c|d|]] e") == ("a e", "b c e", "b d e", "b e")
    assert typed.variants("Das [schon|].") == ("Das schon.", "Das.")


@given(st.text("ab[|]", max_size=12))
def test_a_bracket_without_its_partner_is_an_error(pattern: str) -> None:
    depth, fits = 0, True
    for sign in pattern:
        depth += {"[": 1, "]": -1}.get(sign, 0)
        fits = fits and depth >= 0
    if fits and not depth:
        assert typed.variants(pattern)
    else:
        with pytest.raises(DataError, match=r"bracket|never closed"):
            typed.variants(pattern)


@given(st.text(max_size=30))
def test_a_normal_form_stays_as_it_is(text: str) -> None:
    assert typed.normal_form(typed.normal_form(text)) == typed.normal_form(text)
    assert typed.accepts([text], text)
    assert typed.accepts([text], f"  {text}\u00a0")


@pytest.mark.parametrize(("translation", "right"), [
    ("L'animal est fatigué.", True),
    ("l’animal  est fatigué", True),
    ("L'animal est fatigué !", True),
    ("L'animal est fatigue\u0301.", True),
    ("L'animal est fatigué ?", False),
    ("L'Animal est fatigué.", False),
    ("Le animal est fatigué.", False),
    ("L'animal, est fatigué.", False),
    ("", False),
])  # fmt: skip
def test_what_counts_as_the_same(translation: str, right: bool) -> None:
    assert typed.accepts(["L'animal est fatigué."], translation) == right


@pytest.mark.parametrize(("src", "tgt"), PAIRS)
def test_the_list_has_ten_sentences_on_each_topic(src: str, tgt: str) -> None:
    sentences = typed.typed_sentences(src, tgt)
    assert set(Counter(each.topic for each in sentences).values()) == {10}
    assert len({each.source for each in sentences}) == len(sentences) == 200
    for each in sentences:
        for text in (each.source, *each.accepted):
            assert text[0].isalnum() and text[-1] in ".!?", text
            assert not set(text) & set("[]|\t"), text
        # A question is a question in every variant.
        assert len({text[-1] == "?" for text in (each.source, *each.accepted)}) == 1, each.source
        assert len(each.accepted) < 200, each.source
        assert src != "en" or 3 <= len(each.source.split()) <= 12
    back = typed.typed_sentences(tgt, src)
    assert [each.accepted[0] for each in back] == [each.source for each in sentences]


#: Forms of one word, or pronouns, that are right in the same place of any sentence.
FREE = {
    "en": "14 14th, 3 3rd, gran grandma granny, mrs ms, these those, that this, book books, i me, "
    "light lights, math maths, meters metres, neighbor neighbour, color colour, sunday sundays, "
    "recognises recognizes, life lives",
    "de": "bieg biege biegt, fass fasse fasst, mach mache macht, rühr rühre rührt, sag sage sagt, "
    "schließ schließe schließt, schreib schreibe, trink trinke, wasch wasche, zeig zeige, "
    "geh gehe, schalt schalte, übersetz übersetze übersetzt, lass lasst, sei seid, das dies, "
    "die diese, entschuldige entschuldigung, ihnen dir euch, sie dich euch, ich man, jahr jahre, "
    "oma omi, können könnten, gern gerne, meist meistens, niemand niemanden, soll solle sollte, "
    "genug genügend, da dort, anriefest anriefst, an auf, feier fete",
    "fr": "18h 18h00, prends prenez, tourne tournez, traduis traduisez, sois soyez, te vous, "
    "touche touchez, fais faites, du le, ils elles, clef clé, assied assoit, haut hauteur, "
    "langage langue, part partira, reste restera, fleurs fleurs-là, après-midi après-midis, "
    "soir soirs, cela ça, enseignant enseignante, maître maîtresse, professeur professeure, d' des",
}

#: The same in one sentence: the speaker, or who is spoken to, may be of either gender or many.
THERE = {
    "Nice to": "content contente, heureux heureuse, ravi ravie, enchanté enchantée",
    "Do you know Professor": "professor professorin, le la",
    "Seven": "fait font, égale égalent",
    "Our teacher gives": "viel viele",
    "I would buy": "was were", "We could go": "was were",
    "He says": "habe hat", "You need": "ihr man",
    "The student's": "étudiant étudiante",
    "I saw them": "vu vue, vus vues",
    "Nobody helped": "aidés aidées",
    "We flew": "allé allés allées", "Last summer": "allé allés allées",
    "Yesterday we": "allé allés allées", "I have never": "allé allée",
    "I am so proud": "fier fière",
    "We had already": "arrivé arrivée arrivés arrivées",
    "When did you last": "cousin cousine",
    "When I was": "pilot pilotin, petit petite",
    "Be quiet": "silencieux silencieuse, calme calmes, tranquille tranquilles",
}  # fmt: skip

PRONOUNS = (
    "me te se nous vous le la les lui leur il elle ils elles je tu on ich du er sie es wir man "
    "mich mir dir dich sich uns euch ihm ihn ihr ihnen i he she it we they"
)

#: Forms of address, which one sentence does not mix.
ADDRESS = {
    "de": (r"\b[Dd](u|ich|ir|ein(e[nmrs]?)?)\b", r"\b([Ee]uch|[Ee]ure?[nmrs]?)\b",
           r"(?<=\w )(Sie|Ihnen|Ihr(e[nmrs]?)?)\b"),
    "fr": (r"(?i)\b(tu|te|toi|ton|ta|tes|t')\b", r"(?i)\b(vous|votre|vos|(?!chez|assez)\w+ez)\b"),
}  # fmt: skip


def faults(sentences: Sequence[typed.TypedSentence], starts: Sequence[str], code: str) -> list[str]:
    """Describe accepted variants of which at most one can be right, such as chers and chères."""
    found = []
    for sentence, start in zip(sentences, starts, strict=True):
        free = FREE[code] + "".join(
            f", {more}" for first, more in THERE.items() if start.startswith(first)
        )
        groups = [set(group.split()) for group in free.split(", ")]
        words: dict[tuple[str, ...], set[str]] = {}
        for text in sentence.accepted:
            if sum(bool(re.search(each, text)) for each in ADDRESS.get(code, ())) > 1:
                found.append(text)
            parts = re.findall(r"\w+(?:-\w+)*'?|[^\w\s]", text)
            for at, word in enumerate(parts):
                rest = (*parts[:at], "", *parts[at + 1 :])
                words.setdefault(rest, set()).add(word.lower())
        for rest, forms in words.items():
            for pair in map(set, combinations(sorted(forms), 2)):
                plain = (re.sub("[\u0300-\u036f]", "", normalize("NFD", each)) for each in pair)
                short, long = sorted(plain, key=len)
                parted = (n for n, letter in enumerate(short) if letter != long[n])
                same = next(parted, len(short))
                ending = same > 0 and len(long) - same <= 3
                alike = ending or pair <= set(PRONOUNS.split())
                if alike and not any(pair <= each for each in groups):
                    found.append(f"{'/'.join(sorted(pair))}: {' '.join(rest)}")
    return found


@pytest.mark.parametrize(("code", "other"), [("en", "de"), ("de", "en"), ("fr", "en")])
def test_no_pattern_accepts_forms_that_do_not_agree(code: str, other: str) -> None:
    """A product of alternatives accepts wrong sentences where the alternatives must agree."""
    sentences = typed.typed_sentences(other, code)
    starts = [each.source for each in typed.typed_sentences("en", "de")]
    assert not faults(sentences, starts, code)


@pytest.mark.parametrize(("src", "tgt"), [("en", "nl"), ("xx", "de"), ("de", "de"), ("", "")])
def test_a_language_that_the_list_lacks_is_named(src: str, tgt: str) -> None:
    with pytest.raises(DataError, match=f"they cannot test {src or '.'} to {tgt or '.'}"):
        typed.typed_sentences(src, tgt)


def test_verdicts_are_of_the_models_translations(tiny_translator: Translator) -> None:
    written = tiny_translator.translate(["A dog.", "A cat."])[0].text
    sentences = [
        typed.TypedSentence("a", "A dog.", ("nothing", written)),
        typed.TypedSentence("b", "A cat.", ("Nothing at all.",)),
    ]
    verdicts = typed.judge(tiny_translator, sentences)
    assert [each.right for each in verdicts] == [True, False]
    assert verdicts[0] == typed.Verdict("a", "A dog.", written, True, "nothing")
    assert typed.by_topic(verdicts) == {"a": (1, 1), "b": (0, 1)}
    record = typed.to_dict(verdicts)
    assert (record["right"], record["sentences"]) == (1, 2)
    assert typed.from_dict(json.loads(json.dumps(record))) == verdicts


WORDS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=5)


@given(WORDS, WORDS)
def test_near_sources_differ_by_one_word(first: list[str], second: list[str]) -> None:
    def shorter(words: list[str]) -> list[list[str]]:
        return [words[:place] + words[place + 1 :] for place in range(len(words))]

    replaced = len(first) == len(second) and sum(map(str.__ne__, first, second)) <= 1
    expected = replaced or first in shorter(second) or second in shorter(first)
    sentence, source = " ".join(first), f"{', '.join(second)}!".upper()
    assert typed.near_sources([sentence], [source]) == ({sentence} if expected else set())


def test_the_command_prints_failures_and_counts(
    tiny_checkpoint: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = typed.typed_sentences
    few = [every("en", "de")[at] for at in (0, 15, 30)]
    monkeypatch.setattr(
        typed, "typed_sentences", lambda src, tgt: few if tgt == "de" else every(src, tgt)
    )
    copy = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    asked = ["typed", "--checkpoint", copy, "--beam", 1]
    for options, why in (([], "say what it translates with --languages"),
                         (["--languages", "en-nl"], "cannot test en to nl")):  # fmt: skip
        assert why in command(*asked, *options).refused
    data = {"corpora": ["mine.tsv"], "src": "en", "tgt": "de"}
    recipe = {"model": {}, "tokenizer": {}, "data": data, "training": {}}
    (copy / "metrics.json").write_text(json.dumps({"training": {"recipe": recipe}}))
    said = command(*asked).out
    assert f"{few[0].source}\n  " in said and f"  instead of: {few[0].accepted[0]}\n" in said
    record = json.loads(command(*asked, "--json").out)
    assert len(record["topics"]) == 3
    assert sum(each["right"] for each in record["verdicts"]) == record["right"]
    assert said.endswith(f"right{record['right']:>13} of 3\n")
    write_snapshots(copy)
    asked[2] = f"{copy}@20"
    assert few[0].source in command(*asked).out
