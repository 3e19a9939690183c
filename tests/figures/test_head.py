"""Figures of a head and of a split: their programs make the arrays that the NPZ holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from figures.exhibit import Exhibit, Panel, Series
from figures.head import head_exhibit, head_name, split_exhibit
from figures.labels import query_labels
from tests.factories import make_stages
from transformer.trace.inspection import inspect_head
from transformer.trace.records import Trace
from transformer.trace.split import split_logits
from transformer.translator import Translator
from transformer.types import AttentionKind


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    return tiny_translator.trace("The cat sat on the mat.", target="Ein Hund rennt.")


def run(exhibit: Exhibit, given: Mapping[str, Any]) -> None:
    """Run the snippet after its header, and compare its variables."""
    left = dict(given)
    exec(exhibit.snippet, left)  # noqa: S102 - our own program
    for name, values in exhibit.arrays.items():
        np.testing.assert_allclose(left[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
def test_the_program_of_a_head_makes_its_numbers(
    kind: AttentionKind, tiny_translator: Translator, trace: Trace
) -> None:
    stages = inspect_head(tiny_translator.model, trace, kind, 1, 2, 3)
    made = head_exhibit(stages, "import numpy as np\n", ("queries", "keys"))
    assert made.name == head_name(kind, 1, 2, 3)
    assert "layer 2, head 3: query 4" in made.title
    run(made, {"translator": tiny_translator, "trace": trace})


def test_a_head_is_drawn_over_its_keys_and_masked_ones_have_no_logit() -> None:
    stages = make_stages(m=7, kind="decoder_self", tokens=("<b>", *"abcdef"))
    products, logits, weights, weighted = head_exhibit(stages, "", ("a", "b")).parts
    assert isinstance(products, Panel) and isinstance(weighted, Panel)
    np.testing.assert_array_equal(products.values, stages.products.T)
    np.testing.assert_array_equal(weighted.values, stages.scaled.weighted.T)
    assert products.columns == ("1 <b>", "2 a", "3 b", "4 c", "5 d", "6 e", "7 f")
    assert isinstance(logits, Series) and isinstance(weights, Series)
    for line in logits.lines.values():
        np.testing.assert_array_equal(np.isnan(line), ~stages.mask)
    np.testing.assert_array_equal(weights.lines["not divided"], stages.unscaled.weights)


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self"])
def test_the_program_of_a_split_makes_its_maps(
    kind: AttentionKind, tiny_translator: Translator, trace: Trace
) -> None:
    split = split_logits(tiny_translator.model, trace, kind, 1)
    rows = query_labels(trace, kind)
    made = split_exhibit(split, "", rows)
    run(made, {"translator": tiny_translator, "trace": trace})
    panels = [part for part in made.parts if isinstance(part, Panel)]
    assert len(panels) == 5
    assert [row.split(" ", 1)[1] for row in panels[0].rows] == list(rows)
    total = np.sum([panel.values for panel in panels[:-1]], axis=0)
    np.testing.assert_allclose(total, panels[-1].values, rtol=1e-5, atol=1e-5)
    assert np.isnan(total).any() == (kind == "decoder_self")
