"""The figure of the Parsing page."""

from __future__ import annotations

from pathlib import Path

from figures.exhibit import Exhibit, Panel
from figures.labels import cell_name
from transformer.measures.heads import combine
from transformer.measures.parse import Reading, bracket_weights, read_parse
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.components.grid import Cell
from ui.components.parse import Drawing, node_text
from ui.export.programs import facts_of

#: Meanings of the labels of phrases and the tags of words.
GLOSSES = dict(
    line.split("\t")
    for line in Path(__file__).with_name("labels.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
)


def drawing(trace: Trace, reading: Reading, words: tuple[str, ...], cell: Cell) -> Drawing:
    """Return a tree with the cross-attention of a layer and head; None is the mean."""
    layer, head = cell
    weights = combine(trace.cross, layer=layer, head=head)
    return Drawing(reading, trace, words, weights, cell_name(cell), GLOSSES)


def parse(
    model: Translator, trace: Trace, words: tuple[str, ...], layer: int | None = None,
    head: int | None = None, *, node: int = 0,
) -> Exhibit:  # fmt: skip
    """Return the cross-attention of every bracket and tag of a tree on the words, as a figure.

    Args:
        words: of the sentence, as the parser reads them.
        layer, head: from 0; None is the mean over all.
        node: at which the offline view opens.
    """
    reading = read_parse(trace, words, model.tokenizer)
    picture = drawing(trace, reading, words, (layer, head))
    shares = bracket_weights(reading, picture.weights)
    written = [index for index, node in enumerate(reading.nodes) if node.row is not None]
    rows = tuple(
        f"{reading.nodes[index].label}: {node_text(reading.nodes[index], words)}"
        for index in written
    )
    panel = Panel(
        f"Cross-attention, {picture.where}", shares[written], rows, (*words, "</s>"),
        "bracket or tag", "word",
    )  # fmt: skip
    return Exhibit(
        "parse", "The tree of a sentence",
        f"Weight on each word as each bracket was written: {reading.parse}.",
        (panel,), {"brackets": shares},
        offline=picture.component(node).offline(), facts=facts_of(trace, picture.where),
    )  # fmt: skip
