"""Captions state a figure's origin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from figures.compare import beside
from figures.exhibit import Exhibit, Series
from tests.ui.attention.test_exhibits import CHOICE
from transformer.measures.beam import beam_tree
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.attention.exhibits import attention_exhibit
from ui.beam.exhibits import search_branches, search_node
from ui.components.player import PlayerPlace
from ui.export.programs import Source
from ui.translate.exhibits import player_exhibit

SENTENCE = "The <b>dog</b> barks."
SOURCE = Source("some-model", sentence=SENTENCE)


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    return tiny_translator.trace(SENTENCE, beam_size=4)


def player(trace: Trace) -> Exhibit:
    return player_exhibit(trace, PlayerPlace(1, 2, 3, False), SOURCE, words=False)


FIGURES: dict[str, tuple[Callable[[Trace], Exhibit], str]] = {
    "player": (player, "layer 2, head 3"),
    "grid": (lambda trace: attention_exhibit(trace, CHOICE, SOURCE), "all layers and heads"),
    "heads": (
        lambda trace: attention_exhibit(trace, replace(CHOICE, display="heads"), SOURCE),
        "layer 1, head 3; layer 2, head 1",
    ),
    "matrix": (
        lambda trace: attention_exhibit(
            trace, replace(CHOICE, display="matrix", cell=(1, 2), chosen=False), SOURCE
        ),
        "layer 2, head 3",
    ),
    "node": (
        lambda trace: SOURCE.of(search_node, trace, node=beam_tree(trace).winner[0], layer=1),
        "layer 2, mean over heads",
    ),
    "branches": (
        lambda trace: SOURCE.of(
            search_branches, trace, a=beam_tree(trace).leaves[0], b=beam_tree(trace).leaves[1],
            layer=1, head=2,
        ),
        "layer 2, head 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_names_sentence_checkpoint_layer_and_head(trace: Trace, name: str) -> None:
    make, where = FIGURES[name]
    said = make(trace).legend
    for fact in (f"Sentence: “{SENTENCE}”", "Checkpoint: some-model.", f"Attention: {where}"):
        assert fact in said


def test_the_entropy_of_the_player_is_in_bits_as_on_screen(trace: Trace) -> None:
    made = player(trace)
    nats, bits = (part for part in made.parts if isinstance(part, Series))
    assert (nats.y_title, bits.y_title) == ("nats", "bits")
    np.testing.assert_allclose(bits.lines["entropy"], trace.entropy / np.log(2), rtol=1e-6)
    np.testing.assert_allclose(made.arrays["entropy"], bits.lines["entropy"])


def test_both_sides_of_a_comparison_name_their_heads(trace: Trace) -> None:
    sides = {"A": player(trace), "B": FIGURES["matrix"][0](trace)}
    caption = beside("two", "Two: A and B", "A is one, B is two.", sides).legend
    assert "A: Where the decoder looks, step by step (layer 2, head 3)" in caption
    assert caption.count("layer 2, head 3") == 2
