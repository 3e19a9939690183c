"""Decoder rows have one name in every figure and message; the figure of one query in one head."""

import numpy as np
import pytest

from figures.exhibit import Exhibit, Panel, Series
from figures.labels import query_labels
from transformer.measures.beam import beam_tree
from transformer.trace.inspection import inspect_head
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.attention.maps import maps_of
from ui.beam.exhibits import search_branches, search_node
from ui.head.exhibits import head_name, inside_head
from ui.positions.exhibits import content_and_position
from ui.translate.exhibits import decoding

SENTENCE = "the little dog sat"


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    return tiny_translator.trace(SENTENCE, beam_size=3)


def rows_in(made: Exhibit, panel: int = 0) -> list[str]:
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
    assert maps.queries[0] == "<s> → 12"
    assert maps.queries[1] == "12 → 34"
    np.testing.assert_allclose(maps.weights.sum(axis=-1), 1, atol=1e-5)
    winner = beam_tree(trace).winner[-1]
    both = search_branches(trace, winner, winner, units="words")
    assert rows_in(both, 2) == list(maps_of(trace, "cross", "words").queries)


def test_a_head_is_drawn_over_keys_and_masked_ones_lack_logits(
    tiny_translator: Translator,
) -> None:
    trace = tiny_translator.trace("The cat <b> sat.", target="Ein Hund rennt.")
    made = inside_head(tiny_translator, trace, "decoder_self", 1, 2, 3)
    stages = inspect_head(tiny_translator.model, trace, "decoder_self", 1, 2, 3)
    assert made.name == head_name("decoder_self", 1, 2, 3)
    assert "layer 2, head 3: query 4" in made.title
    products, logits, weights, weighted = made.parts
    assert isinstance(products, Panel) and isinstance(weighted, Panel)
    np.testing.assert_array_equal(products.values, stages.products.T)
    np.testing.assert_array_equal(weighted.values, stages.scaled.weighted.T)
    assert products.columns == tuple(f"{i} {token}" for i, token in enumerate(trace.tgt_tokens, 1))
    assert isinstance(logits, Series) and isinstance(weights, Series)
    for line in logits.lines.values():
        np.testing.assert_array_equal(np.isnan(line), ~stages.mask)
    np.testing.assert_array_equal(weights.lines["not divided"], stages.unscaled.weights)


def test_the_entropy_of_the_player_is_in_bits_as_on_screen(trace: Trace) -> None:
    made = decoding(trace)
    nats, bits = (part for part in made.parts if isinstance(part, Series))
    assert (nats.y_title, bits.y_title) == ("nats", "bits")
    np.testing.assert_allclose(bits.lines["entropy"], trace.entropy / np.log(2), rtol=1e-6)
    np.testing.assert_allclose(made.arrays["entropy"], bits.lines["entropy"])
