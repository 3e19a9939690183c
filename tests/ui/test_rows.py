"""Decoder rows have one name in every figure and message."""

import numpy as np
import pytest

from figures.exhibit import Exhibit
from figures.labels import query_labels
from transformer.measures.beam import beam_tree
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.attention.maps import maps_of
from ui.beam.exhibits import search_branches, search_node
from ui.head.exhibits import inside_head
from ui.positions.exhibits import content_and_position
from ui.translate.exhibits import decoding

SENTENCE = "the little dog sat"


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    return tiny_translator.trace(SENTENCE, beam_size=3)


def rows_in(made: Exhibit, panel: int = 0) -> list[str]:
    """Return the names of a panel's rows."""
    return list(made.parts[panel].rows)  # type: ignore[union-attr]


def test_figures_of_every_page_name_rows_alike(tiny_translator: Translator, trace: Trace) -> None:
    labels = list(query_labels(trace, "cross"))
    assert labels[0] == f"<s> → {trace.predicted_tokens[0]}"
    player = decoding(trace)
    assert rows_in(player) == rows_in(player, 1) == labels
    for kind in ("cross", "decoder_self"):
        maps = maps_of(trace, kind, "tokens")
        assert list(maps.queries) == labels
        assert maps.keys == (trace.src_tokens if kind == "cross" else trace.tgt_tokens)
    winner = beam_tree(trace).winner
    both = search_branches(trace, winner[-1], winner[-1])
    assert rows_in(both, 2) == labels
    node = search_node(trace, winner[1])
    assert rows_in(node) == labels[1:2]
    head = inside_head(tiny_translator, trace, query=1)
    assert head.title.endswith(f"query 2 {labels[1].replace('▁', '_')}")
    split = content_and_position(tiny_translator, trace, "decoder_self")
    assert rows_in(split) == [f"{at} {label}" for at, label in enumerate(labels, start=1)]


def test_words_are_rows_by_what_they_read_on_every_page(trace: Trace) -> None:
    pieces = ("<s>", *(f"▁{at}" if at % 2 else str(at) for at in range(1, len(trace.tgt_tokens))))
    held = trace.__class__(
        **{**vars(trace), "tgt_tokens": pieces, "predicted_tokens": (*pieces[1:], "</s>")}
    )
    maps = maps_of(held, "cross", "words")
    assert maps.queries[0] == "<s> → 1"
    assert maps.queries[1] == "12 → 2▁3"
    np.testing.assert_allclose(maps.weights.sum(axis=-1), 1, atol=1e-5)
    winner = beam_tree(trace).winner[-1]
    both = search_branches(trace, winner, winner, units="words")
    assert rows_in(both, 2) == list(maps_of(trace, "cross", "words").queries)
