"""Downloads of the tour of training: programs make the numbers of every picture."""

import json
import shutil
from pathlib import Path

import pytest

from figures.paper import to_svg
from tests.factories import make_trace
from tests.forks import ROOT
from tests.test_calls import check_program
from transformer.catalogue import inspect_entry
from ui.tours.guide import TOURS
from ui.tours.stops import Scene
from ui.tours.training_exhibits import FIGURES, PAPER_SCORES, figure_of
from ui.tours.training_facts import TrainingFacts, training_facts

METRICS = {
    "training": {
        "updates": 900, "epochs": 3, "target_tokens": 10_000,
        "hours": 0.25,
        "recipe": {"training": {"warmup": 100, "peak_lr": 2e-3, "cooldown": 0.3,
                                "label_smoothing": 0.2, "beta2": 0.95, "batch_tokens": 512},
                   "model": {"dropout": 0.25}, "data": {"corpora": ["second"]}},
    },
    "earlier_parts": [{"hours": 0.5, "recipe": {"data": {"corpora": ["first"]}}}],
    "tried_on_val": [
        {"beam_size": 1, "alpha": 0.0, "val_bleu": 31.5, "averaged_epochs": 2},
        {"beam_size": 4, "alpha": 0.6, "val_bleu": 33.25, "averaged_epochs": 2},
        {"beam_size": 4, "alpha": 0.6, "val_bleu": 30.0, "averaged_epochs": 5},
        {"beam_size": 1, "alpha": 0.0, "val_bleu": 30.5, "averaged_epochs": 5},
    ],
    "chosen_on_val": {"averaged_epochs": 2},
}  # fmt: skip


TOY = ROOT / "checkpoints/reverse-toy"


def facts_of(path: Path) -> TrainingFacts:
    entry = inspect_entry(path)
    assert entry.config is not None
    return training_facts(Scene(make_trace(), entry.config, entry.metrics, None))


@pytest.mark.parametrize(("says", "name"), [(True, "tiny"), (False, "tiny@20")])
def test_figures_have_origins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: bool, name: str
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    own = Path(shutil.copytree(TOY, tmp_path / "tiny"))
    (own / "metrics.json").write_text(json.dumps(METRICS if says else {}))
    facts = facts_of(own)
    assert facts.own == says
    assert (
        len(FIGURES) == len(next(each for each in TOURS if each.name == "training").stops) - 1
    )  # the first stop has numbers only
    made = [figure_of(facts, name, "Mine", figure, 17) for figure in FIGURES]
    for exhibit in made:
        check_program(exhibit)
        assert len(to_svg(exhibit)) > 100
    assert ("Weights of Mine" in "".join(exhibit.caption for exhibit in made)) == says
    values = {exhibit.name: exhibit.arrays for exhibit in made}
    assert (512 if says else 25_000) // 17 in values["batch-by-length"]["values"]
    assert list(values["training-hours"]["values"]) == ([0.5, 0.25] if says else [12.0])
    assert values["adam-memory"]["values"][-3] == pytest.approx((0.95 if says else 0.98) ** 10)
    assert values["dropout"]["values"].sum() == pytest.approx(facts.d_model)
    assert values["label-smoothing"]["values"][[0, 2]].sum() == pytest.approx(1)
    assert list(values["averaged-checkpoints"]["values"]) == ([31.5, 30.5] if says else [5, 20])
    scores = values["bleu-by-setting"]
    tried = {"greedy": 31.5, "beam 4, alpha 0.6": 33.25} if says else PAPER_SCORES
    assert dict(zip(scores["names"], scores["values"], strict=True)) == tried
    if says:
        rate = values["learning-rate"]
        assert rate["rates"].max() == pytest.approx(2e-3, rel=0.02) and rate["updates"][-1] == 900
