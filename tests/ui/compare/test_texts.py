"""Two sides' translations in numbers and words, and what metrics.json publishes of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_trace
from tests.ui.components.test_packing import JSON
from ui.compare.numbers import published
from ui.compare.texts import Text, text_of, where_they_differ


def text(*words: str, total: float = -2.0) -> Text:
    return Text(words, tuple(-0.5 for _ in words), tuple((i,) for i in range(len(words))), total, 9)


def test_a_word_is_as_probable_as_all_of_its_pieces() -> None:
    trace = replace(
        make_trace(S=4, T=4), predicted_tokens=("▁Stra", "ße", "▁da", "</s>"),
        log_probs=np.array([-0.5, -0.25, -1, -2], dtype=np.float32),
    )  # fmt: skip
    found = text_of(trace)
    assert found.words == ("Straße", "da") and found.source == ("the", "cat", "sat")
    assert found.log_probs == (-0.75, -1.0)
    assert found.groups == ((0, 1), (2,))
    assert found.total == -3.75  # </s> included
    cut = replace(trace, predicted_tokens=("▁Stra", "ße", "▁da", "▁x"), complete=False)
    assert text_of(cut).words == ("Straße", "da", "x")


def test_letters_are_compared_one_by_one() -> None:
    trace = replace(make_trace(S=4, T=4), predicted_tokens=("▁", "c", "b", "</s>"))
    found = text_of(trace, "token")
    assert found.words == ("▁", "c", "b") and found.source == ("▁the", "▁cat", "▁sat")
    assert found.log_probs == tuple(map(float, trace.log_probs[:3]))
    other = text_of(replace(trace, predicted_tokens=("▁", "c", "a", "</s>")), "token")
    assert "token 3" in where_they_differ(found, other)


@pytest.mark.parametrize(("one", "other", "facts"), [
    (text("das", "Tier", "*war*"), text("das", "Tier", "ging"),
     ("word 3: A writes `*war*`", "(log p −0.50), B `ging` (−0.50)")),
    (text("a"), text("b"), ("Even the first word differs",)),
    (text("a", "b"), text("a"), ("diverge at word 2", "B nothing more")),
    (text("a"), text("a"), ("same probability",)),
    (text("a", total=-1.5), text("a", total=-3.0), ("A finds them likelier, by 1.50 nats",)),
    (text(), text(), ("Neither",)),
    (text("a"), text(), ("Only A",)),
    (text(), text("a"), ("Only B",)),
])  # fmt: skip
def test_the_sentence_names_the_first_word_that_differs_or_who_finds_it_likelier(
    one: Text, other: Text, facts: tuple[str, ...]
) -> None:
    said = where_they_differ(one, other)
    assert all(fact in said for fact in facts), said
    assert "B reads A’s words" in where_they_differ(text("a"), text("a"), followed=True)


def test_published_figures_are_read_and_nothing_else() -> None:
    metrics = {
        "tests": {
            "test_2016": {
                "bleu": 40.07, "chrf": 64.7, "lc_tok_bleu": 40.4, "exact_match": 0.07,
                "measured": {"setting": "beam 4"},
            },
            "reverse_test": {"bleu": 0.0, "exact_match": 1.0},
            "odd": {"bleu": "many", "chrf": float("nan"), "lc_tok_bleu": True},
            "worse": 3,
        },
        "other_decodings": [{"tests": {"test_2016": {"bleu": 41.0}, "more": {"bleu": 9}}}],
    }  # fmt: skip
    assert published(metrics) == {
        ("test_2016", "sacreBLEU, cased"): "40.1 (beam 4)",
        ("test_2016", "lc_tok_bleu"): "40.4 (beam 4)",
        ("test_2016", "chrF"): "64.7 (beam 4)",
        ("reverse_test", "exactly right"): "100.00% (setting not recorded)",
        ("more", "sacreBLEU, cased"): "9.0 (setting not recorded)",
    }


@given(JSON | st.floats())
def test_no_metrics_file_breaks_the_table(anything: object) -> None:
    found = published({"tests": anything})
    assert all(isinstance(value, str) for value in found.values())
    assert published(anything) == {} or isinstance(anything, dict)  # type: ignore[arg-type]
