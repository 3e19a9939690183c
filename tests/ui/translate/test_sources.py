import json
from pathlib import Path
from typing import get_args

import numpy as np

from benchmarks import directions as measuring
from figures.charts import Drawn
from figures.tokens import source_bars
from tests.forks import ROOT
from tests.shipped import FOLDER
from transformer.attribution.edges import loose
from transformer.translator import Translator
from ui.translate.inside_exhibits import mix_of, source_or_prefix
from ui.translate.views import DIRECTIONS, table


def test_a_wrong_prefix_comes_loose_from_the_source() -> None:
    translator = Translator.load(FOLDER / "everyday-en-de", "cpu")
    sentence = "The animal didn't cross the street because it was too tired."
    own = translator.trace(sentence)
    assert not loose(mix_of(translator, own).source_share).any()
    wrong = translator.trace(sentence, prefix=[translator.tokenizer.target.pieces.index("▁Bi")])
    marks = loose(mix_of(translator, wrong).source_share)
    # The word goes on as its beginning asks, then the source has the lead again.
    assert marks[1:4].all() and not marks[4:].any()
    figure = source_or_prefix(translator, wrong)
    np.testing.assert_array_equal(figure.arrays["loose"], marks)
    rows = figure.arrays["source"].sum(-1) + figure.arrays["prefix"].sum(-1)
    np.testing.assert_allclose(rows, 1, atol=1e-5)


def test_loose_is_far_below_the_median_of_all_but_the_last() -> None:
    shares = np.array([0.9, 0.6, 0.39, 0.6, 0.41, 0.1], np.float32)  # the median is 0.6
    np.testing.assert_array_equal(np.flatnonzero(loose(shares)), [2])
    for short in ([], [0.5], [0.9, 0.1]):
        assert not loose(np.array(short, np.float32)).any()


def test_the_chart_marks_what_is_loose() -> None:
    shares = np.array([0.9, 0.2, 0.5], np.float32)
    chart = source_bars(("<b>", "▁x", "</s>"), shares, shares < 0.3, "dark")
    assert isinstance(chart, get_args(Drawn))
    text = json.dumps(chart.to_dict())
    assert text.count('"loose": true') == 2 and "2 _x" in text


def test_the_document_has_the_directions_as_measured() -> None:
    text = Path(ROOT, "docs", "source-and-prefix.md").read_text("utf-8")
    assert table(DIRECTIONS) in text
    for record in DIRECTIONS.values():
        assert record["sentences"] == 200
        for values in record["directions"].values():
            assert values["low"] <= values["mean"] <= values["high"]


def test_a_turn_is_the_way_there_and_back_on_other_sentences() -> None:
    path = np.array([0.1, 0.6, 0.5, 0.2, 0.45])
    shares = path[:, None] + np.zeros((5, 6))
    turned = measuring.turn(shares)
    assert turned is not None and np.isclose(turned["mean"], 0.4)  # 0.6 to 0.2, up by 0.25 is less
    assert measuring.turn(shares[:2]) is None
