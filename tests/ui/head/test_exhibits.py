"""The figure of one query in one head."""

import numpy as np

from figures.exhibit import Panel, Series
from transformer.trace.inspection import inspect_head
from transformer.translator import Translator
from ui.head.exhibits import head_name, inside_head


def test_a_head_is_drawn_over_its_keys_and_masked_ones_have_no_logit(
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
