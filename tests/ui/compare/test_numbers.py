"""Published figures come from metrics.json, which may hold anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ui.compare.numbers import published


def test_published_figures_are_read_and_nothing_else() -> None:
    metrics = {
        "tests": {
            "test_2016": {"bleu": 40.07, "chrf": 64.7, "lc_tok_bleu": 40.4, "exact_match": 0.07},
            "reverse_test": {"bleu": 0.0, "exact_match": 1.0},
            "odd": {"bleu": "many", "chrf": float("nan"), "lc_tok_bleu": True},
            "worse": 3,
        }
    }
    assert published(metrics) == {
        ("test_2016", "sacreBLEU, cased"): "40.1",
        ("test_2016", "lc_tok_bleu"): "40.4",
        ("test_2016", "chrF"): "64.7",
        ("reverse_test", "exactly right"): "100.0%",
    }


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@given(json_like)
def test_no_metrics_file_breaks_the_table(anything: object) -> None:
    found = published({"tests": anything})
    assert all(isinstance(value, str) for value in found.values())
    assert published(anything) == {} or isinstance(anything, dict)  # type: ignore[arg-type]
