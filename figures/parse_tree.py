"""A sentence's tree and the cross-attention of its brackets, as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from figures.exhibit import Exhibit, Offline, Panel
from figures.labels import row_labels
from transformer.parsing.reading import Constituent, Reading, bracket_weights
from transformer.trace.records import Trace
from transformer.types import Floats

PROGRAM = """words = {words!r}
reading = read_parse(trace, words, translator.tokenizer)
print(reading.parse)
brackets = bracket_weights(reading, {weights})  # [brackets and tags, words + 1]
"""
#: What the program needs besides the trace.
IMPORT = "from transformer.parsing.reading import bracket_weights, read_parse"


def node_text(node: Constituent, words: Sequence[str]) -> str:
    """Return the words of a phrase."""
    return " ".join(words[node.first : node.end])


def node_label(node: Constituent, trace: Trace) -> str:
    """Return the label of the decoder row that predicts a bracket or tag."""
    if node.row is None:
        return ""
    row = node.row
    return row_labels(trace.tgt_tokens[row : row + 1], trace.predicted_tokens[row : row + 1])[0]


def parse_exhibit(
    reading: Reading,
    trace: Trace,
    words: Sequence[str],
    weights: Floats,
    where: str,
    header: str,
    cell: tuple[int | None, int | None],
    offline: Offline | None = None,
    facts: Mapping[str, str] | None = None,
) -> Exhibit:
    """Return the figure: the cross-attention of every bracket and tag on the words.

    Args:
        weights: [T, S], of the layer and head that `where` names and `cell` has (None: mean).
        header: Python that defines `translator` and `trace`.
    """
    shares = bracket_weights(reading, weights)
    written = [index for index, node in enumerate(reading.nodes) if node.row is not None]
    rows = tuple(
        f"{reading.nodes[index].label}: {node_text(reading.nodes[index], words)}"
        for index in written
    )
    panel = Panel(
        f"Cross-attention, {where}", shares[written], rows, (*words, "</s>"),
        "bracket or tag", "word",
    )  # fmt: skip
    return Exhibit(
        "parse", "The tree of a sentence", f"{reading.parse}", (panel,), {"brackets": shares},
        header + PROGRAM.format(words=list(words), weights=_taken(*cell)), offline=offline,
        facts=facts or {},
    )  # fmt: skip


def _taken(layer: int | None, head: int | None) -> str:
    """Return Python for one layer's and head's maps, None being the mean."""
    if layer is None and head is None:
        return "trace.cross.mean((0, 1))"
    if head is None:
        return f"trace.cross[{layer}].mean(0)"
    return f"trace.cross[:, {head}].mean(0)" if layer is None else f"trace.cross[{layer}, {head}]"
