"""A sentence below its tree; the chosen bracket lights the words that the model looked at.

The browser redraws and reports the chosen bracket, so that a link keeps it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from figures.labels import row_labels, show_token
from transformer.measures import parse
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.components.packing import Component, attention_look, fits, floats, labels


@dataclass(frozen=True)
class Drawing:
    """Content of the tree: brackets, words and light."""

    reading: parse.Reading  # the tree
    trace: Trace  # its source
    words: tuple[str, ...]  # as typed
    weights: Floats  # [T, S], cross-attention of the chosen layer and head
    where: str  # name of layer and head ("Layer 2, head 3")
    glosses: dict[str, str]  # meanings of labels

    def component(self, chosen: int) -> Component[int]:
        """Return the tree as a component; its body is the nodes' weights on words and `</s>`."""
        weights = np.nan_to_num(parse.bracket_weights(self.reading, self.weights), nan=-1)
        n_nodes = len(self.reading.nodes)
        return Component(
            "parse", _header(self), floats([weights]), choice=chosen,
            parse=lambda reported: reported if fits(reported, range(n_nodes)) else None,
        )  # fmt: skip


def node_text(node: parse.Constituent, words: Sequence[str]) -> str:
    """Return the words of a phrase."""
    return " ".join(words[node.first : node.end])


def _header(drawing: Drawing) -> dict[str, Any]:
    reading, trace = drawing.reading, drawing.trace
    log_probs = parse.confidences(reading, trace)
    rows = labels(row_labels(trace.tgt_tokens, trace.predicted_tokens))
    words = [node.is_word for node in reading.nodes]
    sure = np.nan_to_num(np.where(words, np.exp(log_probs), parse.calibrated(log_probs)))
    nodes = [
        {
            "label": show_token(node.label, 12),
            "gloss": drawing.glosses.get(node.label, ""),
            "text": show_token(node_text(node, drawing.words), 60),
            "first": node.first, "end": node.end, "parent": node.parent, "word": node.is_word,
            "row": "" if node.row is None else rows[node.row],
            "p": round(float(p), 4),
        }
        for node, p in zip(reading.nodes, sure, strict=True)
    ]  # fmt: skip
    return {
        "label": f"Tree of the sentence: {str(reading.parse.tree)[:400]}. Arrow keys move in it.",
        "words": labels(drawing.words),
        "nodes": nodes,
        "where": drawing.where,
        **attention_look(),
    }
