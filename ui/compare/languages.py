"""The language that each side writes, and the warning if B reads A's text in another one."""

from __future__ import annotations

import re

from figures.markdown import code
from transformer.errors import CheckpointError
from transformer.files.safe import read_small
from ui.compare.choice import can_follow
from ui.core.examples import languages_of_training
from ui.core.languages import name_of
from ui.core.view import View
from ui.frame.twice import Setup
from ui.models.rows import card_path

#: A language in a recipe or a name: "de", "deu", "de_DE", "deu_Latn".
_CODE = re.compile(r"([a-z]{2,3})(?:[_-][A-Za-z]{2,4})?")

#: The first line of a card of this project, "en to de: 4+4 layers".
_CARD = re.compile(r"^An encoder-decoder Transformer, \S{2,8} to (\S{2,8}):", re.MULTILINE)

#: Marian's names: opus-mt-en-de, opus-mt-tc-big-en-fr.
_MARIAN = re.compile(r"opus-mt(?:-tc-(?:big|base))?-[a-z]{2,3}-([a-z]{2,3})\b")

#: Characters read of a card.
_MOST_CHARACTERS = 2_000


def target_language(view: View) -> str | None:
    """Return the language that the view's model writes, such as "de"; None if unknown."""
    if view.kind != "checkpoint":
        return None
    match view.entry.metrics:
        case {"training": {"recipe": {"data": {"corpora": [*corpora]}}}} if "reversal" in corpora:
            return None  # letters
        case {"imported": {"source": str(source)}}:
            named = _MARIAN.search(source)
        case _:
            named = None
    for said in (
        languages_of_training(view.checkpoint, view.entry.metrics)[1], _of_card(view),
        named[1] if named else "",
    ):  # fmt: skip
        if found := _CODE.fullmatch(said):
            return found[1]
    return None


def _of_card(view: View) -> str:
    path = card_path(view.entry)
    if path is None:
        return ""
    try:
        text = read_small(path)[:_MOST_CHARACTERS].decode("utf-8", "replace")
    except CheckpointError:
        return ""
    found = _CARD.search(text)
    return found[1] if found else ""


def warning(setup: Setup) -> str:
    """Return a warning if B would read A's text as its own in another language, else ""."""
    if not can_follow(setup.right):
        return ""
    here, there = (target_language(view) for view in setup.views)
    if here is None or there is None or here == there:
        return ""
    one, other = (name if (name := name_of(each)) != each else code(each) for each in (here, there))
    return (
        f"A writes {one} and B was trained to write {other}. Following A, B reads {one} as if it "
        "were its own translation, so its numbers say little."
    )
