"""Example sentences for each kind of checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Agreement:
    """How a language says a pronoun, which depends on what it stands for.

    Attributes:
        rule: the choice that the language asks for, as a sentence.
        nouns: each noun of the riddle in that language, with its article.
        pronouns: what each asks for.
    """

    rule: str
    nouns: tuple[str, str]
    pronouns: tuple[str, str]


@dataclass(frozen=True, eq=False)
class Riddle:
    """What a pronoun stands for, in an example and in the sentence beside it.

    Attributes:
        pronoun: as in the sentences.
        nouns: what it may stand for: the first is right in the example, the second beside it.
        target: by the language translated into.
        known: what is known of other models, as a sentence.
    """

    pronoun: str
    nouns: tuple[str, str]
    target: Mapping[str, Agreement]
    known: str = ""


@dataclass(frozen=True)
class Example:
    """An example sentence.

    Attributes:
        sentence: as a visitor would type it.
        watch: the source word on whose translation the player opens; "" for the sharpest look.
        beside: the same sentence with one word changed, for Compare.
        riddle: what the opening asks about both, if anything.
    """

    sentence: str
    watch: str = ""
    beside: str = ""
    riddle: Riddle | None = None


@dataclass(frozen=True)
class Examples:
    """The examples for one kind of checkpoint.

    Attributes:
        kind: "sentences", "captions" or "letters", followed by " de" in German; checkpoints of one
            kind share sentences.
        language: its code, "" for letters.
        task: what the model does.
        hint: what to type.
        items: the examples; the app opens with the first.
    """

    kind: str
    language: str
    task: str
    hint: str
    items: tuple[Example, ...]

    def find(self, sentence: str) -> Example | None:
        """Return the example with this sentence, or None."""
        return next((item for item in self.items if item.sentence == sentence), None)


_LETTERS = Examples(
    kind="letters",
    language="",
    task="reverses strings of letters",
    hint="letters, such as abcdefgh",
    items=(
        Example("transformer", beside="transformed"),
        Example("attention", beside="attentive"),
        Example("abcdefghijklm", beside="abcdefghijkln"),
        Example("aabbaabbcc", beside="aabbaabbcd"),
        Example("level", beside="lever"),
    ),
)

#: A sentence and a caption, so that Compare has one for a model of each.
_DOG = Example("A dog runs through the snow.", "snow", "A cat runs through the snow.")

_CAPTIONS = Examples(
    kind="captions",
    language="en",
    task="translates photo captions",
    hint="a photo caption in English",
    items=(
        Example(
            "A man in a blue shirt is standing on a ladder cleaning a window.",
            "ladder",
            "A woman in a blue shirt is standing on a ladder cleaning a window.",
        ),
        Example(
            "Two young girls are playing with a red ball in the park.",
            "ball",
            "Two young boys are playing with a red ball in the park.",
        ),
        Example(
            "A brown dog is running through the snow.",
            "snow",
            "A black dog is running through the snow.",
        ),
        Example(
            "A woman with long hair plays the guitar on a stage.",
            "guitar",
            "A man with long hair plays the guitar on a stage.",
        ),
        Example(
            "Several people are waiting at a bus stop in the rain.",
            "bus",
            "Several people are waiting at a bus stop in the snow.",
        ),
        _DOG,
    ),
)

#: The pair that made self-attention famous: https://research.google/blog, 31 August 2017,
#: "Transformer: A Novel Neural Network Architecture for Language Understanding".
_ANIMAL_OR_STREET = Riddle(
    "it",
    ("animal", "street"),
    {
        "de": Agreement(
            "German has er, sie and es: which one is right depends on the noun.",
            ("das Tier", "die Straße"),
            ("es", "sie"),
        ),
        "fr": Agreement(
            "French has il and elle: which one is right depends on the noun.",
            ("l'animal", "la rue"),
            ("il", "elle"),
        ),
    },
    "A model trained on far more text moved its light to street here (Google, 2017).",
)

_SENTENCES = Examples(
    kind="sentences",
    language="en",
    task="translates sentences",
    hint="a sentence in English",
    items=(
        Example(
            "The animal didn't cross the street because it was too tired.",
            "it",
            "The animal didn't cross the street because it was too wide.",
            _ANIMAL_OR_STREET,
        ),
        Example(
            "The cat sat on the mat because it was tired.",
            "it",
            "The cat sat on the mat because it was soft.",
        ),
        Example(
            "I have never been to Germany, but my brother lives there.",
            "brother",
            "I have never been to Germany, but my sister lives there.",
        ),
        Example(
            "Do you know where the nearest bank is?",
            "bank",
            "Do you know where the nearest station is?",
        ),
        Example(
            "She opened the window because it was hot.",
            "hot",
            "She closed the window because it was hot.",
        ),
        _DOG,
    ),
)

#: Sentences with more than one tree among them.
_TREES = Examples(
    kind="trees",
    language="en",
    task="writes the trees of sentences",
    hint="a sentence in English",
    items=(
        Example(
            "The old cat sat on the mat because it was tired.",
            "cat",
            "The old cat sat on the mat because it was soft.",
        ),
        Example("She saw the man with the telescope.", "with", "She saw the man with the dog."),
        Example(
            "The students who read the paper liked it.",
            "who",
            "The students who wrote the paper liked it.",
        ),
        Example("Time flies like an arrow.", "like", "Fruit flies like a banana."),
        _DOG,
    ),
)

#: The same of German.
_CHILD = Example("Ein Kind rennt durch den Schnee.", "schnee", "Ein Pferd rennt durch den Schnee.")

_GERMAN_CAPTIONS = Examples(
    kind="captions de",
    language="de",
    task="translates photo captions",
    hint="a photo caption in German",
    items=(
        Example(
            "Zwei kleine Mädchen spielen im Park mit einem roten Ball.",
            "ball",
            "Zwei kleine Jungen spielen im Park mit einem roten Ball.",
        ),
        Example(
            "Mehrere Leute warten im Regen an einer Bushaltestelle.",
            "regen",
            "Mehrere Leute warten im Schnee an einer Bushaltestelle.",
        ),
        _CHILD,
    ),
)

_GERMAN = Examples(
    kind="sentences de",
    language="de",
    task="translates sentences",
    hint="a sentence in German",
    items=(
        Example(
            "Das Tier überquerte die Straße nicht, weil es zu müde war.",
            "es",
            "Das Tier überquerte die Straße nicht, weil es zu langsam war.",
        ),
        Example(
            "Die Katze saß auf der Matte, weil sie müde war.",
            "sie",
            "Die Katze saß auf der Matte, weil sie weich war.",
        ),
        Example(
            "Ich war noch nie in Deutschland, aber mein Bruder wohnt dort.",
            "bruder",
            "Ich war noch nie in Deutschland, aber mein Onkel wohnt dort.",
        ),
        Example(
            "Weißt du, wo die nächste Bank ist?",
            "bank",
            "Weißt du, wo die nächste Schule ist?",
        ),
        Example(
            "Sie öffnete das Fenster, weil es heiß war.",
            "heiß",
            "Sie schloss das Fenster, weil es heiß war.",
        ),
        _CHILD,
    ),
)

_BY_SOURCE = {"en": (_SENTENCES, _CAPTIONS), "de": (_GERMAN, _GERMAN_CAPTIONS)}

#: The languages at the end of a checkpoint's name, as in everyday-de-en.
_NAMED = re.compile(r"-([a-z]{2})-([a-z]{2})$")


def examples_for(checkpoint: str, metrics: Mapping[str, Any] | None = None) -> Examples:
    """Return the examples that fit a checkpoint's name; general sentences by default.

    Args: metrics: of metrics.json; its source language takes precedence over the name's.
    """
    name = checkpoint.lower()
    if "reverse" in name:
        return _LETTERS
    source, target = languages_of_training(checkpoint, metrics)
    if target == "tree":
        return _TREES
    sentences, captions = _BY_SOURCE.get(source, _BY_SOURCE["en"])
    if "multi30k" in name:
        return captions
    if "everyday" in name or "tatoeba" in name:
        return replace(sentences, task="translates everyday sentences")
    return sentences


def shared_example(one: Examples, other: Examples) -> str:
    """The first sentence that both have, "" if they have none."""
    known = {item.sentence for item in other.items}
    return next((item.sentence for item in one.items if item.sentence in known), "")


def languages_of_training(
    checkpoint: str, metrics: Mapping[str, Any] | None = None
) -> tuple[str, str]:
    """Return the codes of the source and target language, "" if unknown.

    Args: see `examples_for`; metrics.json is untrusted.
    """
    match metrics:
        case {"training": {"recipe": {"data": {"src": str(source), "tgt": str(target)}}}}:
            return source, target
        case {"training": {"recipe": {"data": {"src": str(source)}}}}:
            return source, ""
    named = _NAMED.search(checkpoint.lower())
    return (named[1], named[2]) if named else ("", "")
