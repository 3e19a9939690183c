"""The Parsing page's choices: a bracket, and the layer and head whose attention it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from transformer.catalogue import Entry
from transformer.parsing.reading import Reading
from transformer.search.decoding import default_decoding
from transformer.training.treebank import TREE
from transformer.trees.words import split_words
from ui.core import url_state
from ui.core.url_state import HEAD, LAYER, Param
from ui.core.view import CHECKPOINT, View
from ui.frame.decoding import restart
from ui.frame.steering import drop_ids

#: A layer and a head, counted from 0; None is the mean.
Cell = tuple[int | None, int | None]

#: A node of the tree, counted from 1.
NODE: Param[int | None] = Param(
    "node", url_state.whole(1, 99_999), None, lambda value: "" if value is None else str(value)
)


def writes_trees(entry: Entry) -> bool:
    """Whether a checkpoint's own record says that it writes trees; anyone may have written it."""
    return _side(entry, "tgt") == TREE


def _side(entry: Entry, side: str) -> object:
    """Return what a model was trained to read ("src") or write ("tgt"), None if unknown."""
    value: object = entry.metrics
    for name in ("training", "recipe", "data", side):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def through_parser(view: View, entries: Sequence[Entry]) -> View | None:
    """Return the view of the same sentence through the first parser, as it parses by default.

    None where there is no parser, or the view's model reads another language than parsers do.
    """
    if _side(view.entry, "src") not in (None, "en"):
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
    """Return the stored node's index; by default that of the first phrase inside the whole."""
    stored = url_state.get(NODE)
    if stored is not None and stored <= len(reading.nodes):
        return stored - 1
    inside = (index for index, node in enumerate(reading.nodes) if index and not node.is_word)
    return next(inside, 0)


def keep_node(index: int) -> None:
    """Store the chosen node."""
    url_state.put(NODE, index + 1)


def cell_of(n_layers: int, n_heads: int) -> Cell:
    """Return the stored layer and head, counted from 0; None is the mean."""
    layer, head = url_state.get(LAYER), url_state.get(HEAD)
    return (
        layer - 1 if layer is not None and layer <= n_layers else None,
        head - 1 if head is not None and head <= n_heads else None,
    )


def name_of(cell: Cell) -> str:
    """Name a layer and a head."""
    layer, head = cell
    if layer is None and head is None:
        return "mean of all heads"
    layers = "mean of all layers" if layer is None else f"layer {layer + 1}"
    return f"{layers}, {'mean of its heads' if head is None else f'head {head + 1}'}"


def choose_checkpoint(name: str) -> None:
    """Make this the checkpoint of every page."""
    url_state.put(CHECKPOINT, name)
    drop_ids()
    restart()
