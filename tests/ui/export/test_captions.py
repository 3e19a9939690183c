"""Captions state a figure's origin."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

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


def attention(trace: Trace, **changes: Any) -> Exhibit:
    return attention_exhibit(trace, replace(CHOICE, **changes), SOURCE)


def player(trace: Trace) -> Exhibit:
    return player_exhibit(trace, PlayerPlace(1, 2, 3, False), SOURCE, words=False)


def matrix(trace: Trace) -> Exhibit:
    return attention(trace, display="matrix", cell=(1, 2), chosen=False)


def node(trace: Trace) -> Exhibit:
    return SOURCE.of(search_node, trace, node=beam_tree(trace).winner[0], layer=1)


def branches(trace: Trace) -> Exhibit:
    a, b, *_ = beam_tree(trace).leaves
    return SOURCE.of(search_branches, trace, a=a, b=b, layer=1, head=2)


@pytest.mark.parametrize(("make", "where"), [
    (attention, "all layers and heads"),
    (partial(attention, display="heads"), "layer 1, head 3; layer 2, head 1"),
    (player, "layer 2, head 3"), (matrix, "layer 2, head 3"), (branches, "layer 2, head 3"),
    (node, "layer 2, mean over heads"),
])  # fmt: skip
def test_figures_name_an_origin(trace: Trace, make: Callable[[Trace], Exhibit], where: str) -> None:
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
    sides = {"A": player(trace), "B": matrix(trace)}
    caption = beside("two", "Two: A and B", "A is one, B is two.", sides).legend
    assert (
        "A: Where the decoder looks, step by step (layer 2, head 3 of cross-attention)" in caption
    )
    assert caption.count("layer 2, head 3") == 2
