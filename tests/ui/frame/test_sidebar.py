"""The sidebar's description of a model."""

from pathlib import Path

from transformer.catalogue import Entry, ModelRef
from transformer.config import preset
from ui.frame.sidebar import model_caption


def test_a_small_model_says_so_by_its_size_and_its_training_text() -> None:
    config = preset("tiny")
    record = {"kind": "everyday sentences", "src_tokens": 25}

    def entry(**metrics: object) -> Entry:
        return Entry("everyday-en-de", ModelRef(Path("x")), config, metrics=metrics)

    said = model_caption(entry(training_text=record), config)
    assert said.startswith("Small model (")
    assert " parameters), trained on everyday sentences; mistakes are part of the lesson." in said
    # Mistakes are excused only of small models trained on a known kind of text.
    plain = model_caption(entry(), config)
    assert plain.startswith("Translates everyday sentences. ")
    assert model_caption(entry(training_text={**record, "kind": "<b>"}), config) == plain
    large = model_caption(entry(training_text=record), preset("base"))
    assert large.startswith("Translates everyday sentences. ") and "Small" not in large
