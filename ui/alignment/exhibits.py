"""Figures of the page "Word for word": links of one sentence, and a grid of alignment errors."""

from typing import Any, get_args

import numpy as np

from figures.exhibit import Exhibit, Panel, file_stem
from figures.labels import READS_PREDICTS, cell_name, counted, numbered, row_labels
from transformer.evaluation.alignment import Grid, measured_maps
from transformer.measures.pharaoh import written
from transformer.measures.words import LinkUnits, Row, links, word_maps, words_of
from transformer.trace.records import CellMeasure, Trace
from transformer.types import Floats
from ui.components.lines import Drawing, drawing
from ui.export.programs import facts_of

#: Rows on screen.
ROWS: dict[Row, str] = {
    "reading": "the row that reads a word", "predicting": "the row that predicts a word",
}  # fmt: skip


def units_of(trace: Trace, row: Row) -> LinkUnits:
    """Return words, or tokens where a side is a single word, as strings of letters are."""
    words = words_of(trace, row, "words")
    return "tokens" if min(len(words.sources), len(words.targets)) < 2 else "words"


def word_map(
    model: Any, trace: Trace, measure: CellMeasure, layer: int | None, head: int | None, row: Row
) -> Floats:
    """Return one map between words, [targets, sources]."""
    values = measured_maps(model, trace, measure, layer, head)
    return word_maps(trace, row, values, units_of(trace, row))


def hard(maps: Floats) -> Floats:
    """Return a map [t, s] with only the largest weight of each row."""
    only = np.zeros_like(maps)
    for source, target in links(maps):
        only[target, source] = maps[target, source]
    return only


def drawing_of(trace: Trace, row: Row, maps: Floats, *, soft: bool) -> Drawing:
    """Return the links as crossing lines, with the translation on the left."""
    words = words_of(trace, row, units_of(trace, row))
    shown = maps if soft else hard(maps)
    queries = words.targets if row == "reading" else row_labels(words.read, words.targets)
    return drawing(
        shown[None, None].astype(np.float32), [(0, 0)], queries, words.sources,
        mass=0.9 if soft else 1.0, key_title="source",
        query_title="translation" if row == "reading" else READS_PREDICTS,
    )  # fmt: skip


def word_for_word(
    model: Any, trace: Trace, *, measure: CellMeasure = "weight", layer: int | None = 0,
    head: int | None = None, row: Row = "reading", soft: bool = False,
) -> Exhibit:  # fmt: skip
    """Return the word alignment of a translation as a figure.

    Args:
        measure: of the edges of cross-attention, see `headlight.measured`.
        layer, head: from 0; None is all of them.
        row: "reading" has a word as input, "predicting" writes it.
        soft: draw the lines that hold 90% of each row, not only its largest.
    """
    words = words_of(trace, row, units_of(trace, row))
    maps = word_map(model, trace, measure, layer, head, row)
    found = sorted(links(maps), key=lambda link: link[::-1])
    return Exhibit(
        name=file_stem("word for word", measure),
        title="The translation, word for word",
        caption=f"{measure.capitalize()} of cross-attention, {cell_name((layer, head))}, in "
        f"{ROWS[row]}: summed over the pieces of a source word, averaged over those of a target "
        f"word. Each target word is linked to its largest. Pharaoh: {written(found)}.",
        parts=(
            Panel("Alignment", np.clip(maps, 0, 1), numbered(words.targets),
                  numbered(words.sources), "target word", "source word"),
        ),
        arrays={
            "maps": maps, "links": np.array(found, np.int64).reshape(-1, 2),
            "sources": np.array(words.sources), "targets": np.array(words.targets),
        },
        facts=facts_of(trace, cell_name((layer, head))),
        offline=drawing_of(trace, row, maps, soft=soft).component().offline(),
    )  # fmt: skip


def grid_exhibit(grid: Grid) -> Exhibit:
    """Return all alignment error rates as a figure."""
    errors, n_heads = grid.errors(), grid.counts.shape[-2] - 1
    layers, heads = counted(grid.counts.shape[3]), (*counted(n_heads), "all")
    return Exhibit(
        name=file_stem("alignment errors"), title="Alignment error of every head",
        caption=f"AER on {len(grid.counts)} sentence pairs; a guess along the diagonal has "
        f"{grid.diagonal():.3f}.",
        parts=tuple(
            Panel(f"{measure}, {ROWS[row]}", errors[at, number], layers, heads, "layer", "head",
                  quantity="AER")
            for at, measure in enumerate(grid.measures)
            for number, row in enumerate(get_args(Row))
        ),
        arrays={
            "errors": errors, "chosen": grid.errors(0), "held_out": grid.errors(1),
            "diagonal": np.array([grid.diagonal()]), "measures": np.array(grid.measures),
            "rows": np.array(get_args(Row)),
        },
    )  # fmt: skip
