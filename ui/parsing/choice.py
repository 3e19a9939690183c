"""The Parsing page's choices: a bracket, and the layer and head whose attention it shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformer.measures.parse import Reading
from transformer.models.catalogue import Entry
from transformer.search.decoding import default_decoding
from transformer.training.corpus import TREE
from transformer.trees.words import split_words
from ui.core import url_state
from ui.core.choice import PlaceChoice
from ui.core.examples import data_of_training
from ui.core.url_state import Param
from ui.core.view import View


@dataclass(frozen=True)
class ParsingChoice(PlaceChoice):
    """The URL parameters: a head, and a node of the tree."""

    node: Param[int | None] = url_state.position("node")


def writes_trees(entry: Entry) -> bool:
    """Return True if a checkpoint's record, which is untrusted, says that it writes trees."""
    return data_of_training(entry.metrics).get("tgt") == TREE


def through_parser(view: View, entries: Sequence[Entry]) -> View | None:
    """Return the view of the same sentence through the first parser, as it parses by default.

    None where there is no parser, or the view's model reads another language than parsers do.
    """
    if data_of_training(view.entry.metrics).get("src") not in (None, "en"):
        return None
    for entry in entries:
        if entry.error is None and writes_trees(entry):
            own = default_decoding(entry.metrics)
            return replace(view, entry=entry, beam_size=own.beam_size, alpha=own.alpha)
    return None


def as_words(view: View) -> tuple[View, tuple[str, ...]]:
    """Return the view of the sentence as the parser reads it, split into words, and the words."""
    words = tuple(split_words(view.sentence))
    return replace(view, sentence=" ".join(words), prefix=(), target=None, sampling=None), words


def chosen_node(reading: Reading) -> int:
    """Return the stored node's index, by default that of the first phrase below the root."""
    stored = url_state.index(ParsingChoice.node, len(reading.nodes))
    if stored is not None:
        return stored
    inside = (index for index, node in enumerate(reading.nodes) if index and not node.is_word)
    return next(inside, 0)
