"""Sentences worth looking at, for each kind of checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Example:
    """A sentence to start from.

    Attributes:
        sentence: as a user would type it.
        watch: the source word whose translation the player opens on, "" for the first step.
        beside: the same with one word changed, to stand beside it.
    """

    sentence: str
    watch: str = ""
    beside: str = ""


@dataclass(frozen=True)
class Examples:
    """What one kind of checkpoint understands.

    Attributes:
        kind: "sentences", "captions" or "letters"; checkpoints of one kind can share a sentence.
        task: what the model does, in a few words.
        hint: what to type, in a few words.
        items: the examples, the one to open with first.
    """

    kind: str
    task: str
    hint: str
    items: tuple[Example, ...]

    def find(self, sentence: str) -> Example | None:
        """The example with this sentence, or None."""
        return next((item for item in self.items if item.sentence == sentence), None)


_LETTERS = Examples(
    kind="letters",
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

_CAPTIONS = Examples(
    kind="captions",
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
    ),
)

_SENTENCES = Examples(
    kind="sentences",
    task="translates sentences",
    hint="a sentence in English",
    items=(
        Example(
            "The animal didn't cross the street because it was too tired.",
            "it",
            "The animal didn't cross the street because it was too wide.",
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
        Example(
            "A dog runs through the snow.",
            "snow",
            "A cat runs through the snow.",
        ),
    ),
)


_EVERYDAY = replace(_SENTENCES, task="translates everyday sentences")


def examples_for(checkpoint: str) -> Examples:
    """The examples that fit a checkpoint, judged by its name; sentences where it says nothing."""
    name = checkpoint.lower()
    if "reverse" in name:
        return _LETTERS
    if "multi30k" in name:
        return _CAPTIONS
    return _EVERYDAY if "everyday" in name or "tatoeba" in name else _SENTENCES
