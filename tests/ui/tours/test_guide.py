import json
import re
import shutil
from base64 import b64decode
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.labels import KIND_NAMES, one_stop, percent, query_labels, signed
from figures.paper import to_svg
from tests.factories import make_trace
from tests.forks import ROOT
from tests.searched import searched
from tests.test_calls import check_program
from tests.tiny_models import random_model
from tests.transformer.study.test_corpus import study
from transformer.config import ModelConfig
from transformer.edits.language import parse_edits
from transformer.measures.heads import key_classes
from transformer.models.catalogue import inspect_entry, list_entries
from transformer.search.rules import hugging_face
from transformer.study.records import Role, Study, studies_of
from transformer.trace.records import Needs, Trace
from transformer.trace.removals import needs
from transformer.translator import Translator
from ui.core.examples import examples_for
from ui.frame.page import all_pages
from ui.removals.views import effect_of, together
from ui.tours.guide import LECTURES, TOURS
from ui.tours.stops import Question, Scene, Tour, counts, names, numbers, quarters, sheet, stem
from ui.tours.study_facts import clearest
from ui.tours.trace_facts import offset_shares, unscaled
from ui.tours.training_exhibits import FIGURES, PAPER_SCORES, length_of, training_exhibit
from ui.tours.training_facts import PAPER_UPDATES, training_facts, whose
from ui.tours.worth_facts import EFFECTS
from ui.translate.views import MIX

ATTENTION, HEADS, ROLES, MASKS, POSITIONS, DECODING, TRAINING, APART, BEYOND, PLAN = TOURS
STOPS = [stop for tour in TOURS for stop in tour.stops]
#: But one, of a riddle's own sentence.
SCENES = [stop for at, stop in enumerate(LECTURES["attention"].stops) if at != 6]
SHIPPED = [
    entry
    for entry in list_entries([ROOT / "checkpoints"])
    if entry.ok and entry.name in ("everyday-en-de", "reverse-toy")
]
MADE = study()  # of two roles
CONFIG = ModelConfig(vocab_size=110, d_model=24, n_heads=3, d_k=6, d_v=10)


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda entry: entry.name)
def shipped(request: pytest.FixtureRequest) -> Scene:
    entry = request.param
    sentence = examples_for(entry.name).items[0].sentence
    translator = Translator.load(entry.path, device="cpu")
    trace = translator.trace(sentence)
    found, studies = needs(translator.model, trace), studies_of(entry.ref)
    return Scene(
        trace, entry.config, entry.metrics, needs=lambda: found,
        study=Study.load(studies[0]) if studies else study(),
        together=lambda edits: together(parse_edits(edits)).make(translator, trace).tolist(),
        without=lambda edits: effect_of(edits).make(translator, trace).text,
        result=lambda computation: computation.make(translator, trace),
    )  # fmt: skip


@cache
def random_translator(n_heads: int) -> SimpleNamespace:
    """Return what computations need of a translator with the shape of `make_trace`'s maps."""
    config = replace(
        CONFIG, n_heads=n_heads, n_encoder_layers=3, n_decoder_layers=2, d_ff=20, d_k=6
    )
    return SimpleNamespace(model=random_model(config), config=config)


def needs_of(trace: Trace, seed: int) -> Needs:
    rng = np.random.default_rng(seed)
    t, shapes = len(trace.predicted_ids), {kind: trace.attention(kind).shape for kind in KIND_NAMES}
    changes = {kind: rng.normal(size=(*shape[:2], t)) for kind, shape in shapes.items()}
    return Needs(trace.log_probs, changes, rng.normal(size=(len(trace.src_ids), t)), {}, {})


def question(tour: Tour, number: int, scene: Scene) -> Question:
    return tour.stops[number - 1].question(scene)


def right(tour: Tour, number: int, scene: Scene) -> str:
    asked = question(tour, number, scene)
    return asked.options[asked.answer]


def test_the_tours_follow_the_paper() -> None:
    wanted = "attention heads roles masks positions decoding training apart beyond plan"
    assert " ".join(tour.name for tour in TOURS) == wanted
    assert all(len(tour.stops) >= 3 for tour in TOURS)
    assert {stop.page for stop in STOPS} <= {spec.path for spec in all_pages()}
    for stop in STOPS:
        assert re.match(r"\d(\.\d)*", stop.section)
        assert len(stop.text.split()) <= 50  # short enough to read while others wait


def test_every_stop_asks_something_of_the_shipped_models(shipped: Scene) -> None:
    n_layers, n_heads = shipped.trace.cross.shape[:2]
    most = {"layer": n_layers, "head": n_heads, "step": len(shipped.trace.predicted_tokens)}
    for stop in STOPS:
        asked, looked = stop.question(shipped), stop.facts(shipped).settings
        assert 2 <= len(asked.options) <= 6 and asked.because, stop.title
        text = f"{asked.ask} {asked.because}"
        assert not re.search(r"[.!?…][”*]+\.|[a-z]_(test|\d{4})", text), text
        for said in (asked.ask, asked.because, *asked.options):
            assert not re.search(r"\de[+-]?\d|\b1 \w+s \(", said), "numbers as people write them"
        studied = stop.facts.__module__ == clearest.__module__  # heads of the study's model
        for name in most.keys() & looked.keys() if not studied else ():
            assert looked[name] == "mean" or 1 <= int(looked[name]) <= most[name], stop.title


@pytest.mark.parametrize("tour", TOURS, ids=lambda tour: tour.name)
def test_the_sheet_to_print_asks_all_and_answers_on_a_page_of_its_own(
    shipped: Scene, tour: Tour
) -> None:
    whole = sheet(tour, shipped, "http://here/?a=1").split("<ol>", 1)[1]
    asked, answered = whole.split("break-after: page")
    assert asked.count("<li>") == answered.count("<li>") == len(tour.stops)
    for number in range(1, len(tour.stops) + 1):
        assert escape(right(tour, number, shipped)) in answered
        assert f"href='http://here/?a=1&amp;stop={number}'" in answered
    maps = re.findall("base64,([^']*)'", answered)
    some = tour.name not in ("roles", "beyond")  # of roles, another model's heads
    assert len(maps) >= (len(tour.stops) if tour.name in ("positions", "apart") else some)
    assert all(b64decode(code).startswith(b"<svg") for code in maps)
    assert "**" not in asked + answered and "\\" not in asked + answered


@given(st.integers(1, 6), st.integers(1, 20), st.integers(1, 5), st.integers(0, 99))
def test_every_question_can_be_asked_of_any_trace(s: int, t: int, n_heads: int, seed: int) -> None:
    trace = make_trace(S=s, T=t, n_heads=n_heads, seed=seed)
    scene = Scene(
        trace, CONFIG, needs=lambda: needs_of(trace, seed),
        without=lambda edits: "x y", together=lambda edits: [0.5, -seed / 7],
        study=MADE, moments=lambda: {0: trace, 10: replace(trace, text="x y z")},
        result=lambda computation: computation.make(random_translator(n_heads), trace),
    )  # fmt: skip
    for stop in (*STOPS, *SCENES):
        facts = stop.facts(scene)
        asked = stop.asked(facts)
        assert 0 <= asked.answer < len(asked.options) and asked.because
        least = 2 if stop in SCENES else 1 if stop in TRAINING.stops[1:] else 0
        assert len(facts.pictures) >= least


def test_the_length_penalty_is_the_one_of_the_search() -> None:
    trace = searched(1, 2)
    assert trace.search is not None
    marian = replace(trace, search=replace(trace.search, rule=hugging_face()))
    n = len(trace.predicted_ids)
    assert f"((5 + {n}) / 6)^0.6" in question(DECODING, 5, Scene(trace, CONFIG)).ask
    assert f"by {n}^0.6 = {n**0.6:.3f}" in question(DECODING, 5, Scene(marian, CONFIG)).ask


def test_the_decoder_looks_at_the_token_with_the_largest_weight() -> None:
    cross = np.full((2, 3, 5, 7), 0.1, dtype=np.float32)
    cross[:, :, 2, 4] = 0.4
    scene = Scene(replace(make_trace(), cross=cross), CONFIG)
    assert ATTENTION.stops[0].facts(scene).settings["step"] == "3"
    assert right(ATTENTION, 1, scene) == names(scene.trace.src_tokens)[4]
    assert "0.40" in question(ATTENTION, 1, scene).because


@given(seed=st.integers(0, 200), d_k=st.integers(1, 64))
def test_weights_without_scaling_are_those_of_the_larger_scores(seed: int, d_k: int) -> None:
    scores = np.random.default_rng(seed).normal(size=7)
    softmax = np.exp(scores / np.sqrt(d_k)) / np.exp(scores / np.sqrt(d_k)).sum()
    expected = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(unscaled(softmax.astype(np.float32), d_k), expected, atol=1e-5)


def test_offsets_and_favourites_are_counted_from_the_maps() -> None:
    before = np.zeros((1, 1, 4, 4), dtype=np.float32)
    before[0, 0, [0, 1, 2, 3], [0, 0, 1, 2]] = 1  # each looks at the token before it
    np.testing.assert_allclose(offset_shares(before)[0, 0], [0.75, 0.25, 0])
    trace = make_trace(S=4, n_heads=3)
    maps = np.zeros_like(trace.encoder_self)
    for head in range(3):
        maps[:, head, :, head] = 1
    assert right(HEADS, 1, Scene(replace(trace, encoder_self=maps), CONFIG)) == "3"


def test_masks_scores_and_positions_are_counted_in_the_model_itself(shipped: Scene) -> None:
    trace = shipped.trace
    total, n = len(trace.tgt_tokens), len(trace.predicted_ids)
    answers = [right(MASKS, number, shipped) for number in (1, 2, 3)]
    assert answers == [str(len(trace.src_tokens)), "1.00", str(total * (total - 1) // 2)]
    assert trace.search is not None
    score = float(trace.log_probs.sum()) / ((5 + n) / 6) ** trace.search.alpha
    assert score == pytest.approx(trace.score, rel=1e-3, abs=1e-6)
    assert right(DECODING, 5, shipped) == f"{trace.score:.3g}".replace("-", "−")
    assert question(POSITIONS, 1, shipped).because.startswith("After 2π ≈ 6.28")
    assert [right(POSITIONS, number, shipped) for number in (3, 4)] == ["40 and 43", "172°"]


def test_answers_about_removed_parts_are_those_of_the_measured_changes() -> None:
    trace, taken = make_trace(), []
    heads = {kind: np.full((*trace.attention(kind).shape[:2], 5), -0.2) for kind in KIND_NAMES}
    heads["cross"][1, 2] = -0.4
    heads["decoder_self"][0, 1:] = 0.001  # two of 21 heads change little
    words = -np.eye(7, 5)
    words[3] = -0.9
    measured = Needs(trace.log_probs, heads, words, {}, {})

    def without(edits: str) -> str:
        taken.append(edits)
        return "ein_satz"

    scene = Scene(
        trace, CONFIG, needs=lambda: measured, without=without,
        together=lambda edits: [0.1, 0.114, -1.25],
    )  # fmt: skip
    assert question(APART, 1, scene).because.startswith("2 of 21.")
    assert right(APART, 3, scene) == KIND_NAMES["cross"]
    assert right(APART, 4, scene) == names(trace.src_tokens)[3]
    assert right(APART, 5, scene) == "−1.25"
    assert "0.21 nats in total" in question(APART, 5, scene).ask, "as the page says"
    assert "ein_satz" in question(APART, 5, scene).because.replace("\\", "")
    edits = APART.stops[4].facts(scene).settings["edit"]
    assert set(taken) == {edits} == {"off decoder.1.2; off decoder.1.3"}
    with pytest.raises(ValueError, match="no model"):
        question(APART, 1, Scene(trace, CONFIG))


def test_the_tour_beyond_the_weights_measures_the_model(shipped: Scene) -> None:
    trace, changes = shipped.trace, shipped.result(EFFECTS)
    facts = BEYOND.stops[0].facts(shipped)
    t = int(facts.settings["step"]) - 1
    need = int(changes[t].argmin())
    assert facts.options[facts.answer] == names(trace.src_tokens)[need]
    assert facts.values["change"] == signed(float(changes[t, need]))
    sink = BEYOND.stops[1].facts(shipped).values
    layer, head = (int(str(sink[name])) - 1 for name in ("layer", "head"))
    others = [name != "word" for name in key_classes(trace.src_tokens, trace.src_special)]
    assert sink["weight"] == pytest.approx(trace.cross[layer, head].mean(0)[others].max())
    score = BEYOND.stops[2].facts(shipped)
    place = {name: int(score.settings[name]) - 1 for name in ("layer", "head", "query", "key")}
    row = trace.cross[place["layer"], place["head"], place["query"]]
    assert row.argmax() == place["key"]
    totals = re.findall(r"−?\d+\.\d\d", str(score.values["totals"]))
    total = sum(float(number.replace("−", "-")) for number in totals)
    assert total == pytest.approx(float(str(score.values["score"]).replace("−", "-")), abs=0.04)
    shares = shipped.result(MIX).source_share
    least = BEYOND.stops[3].facts(shipped)
    assert least.values["share"] == shares[:-1].min()


def test_the_decoder_reads_the_token_written_before(shipped: Scene) -> None:
    trace, asked = shipped.trace, question(DECODING, 2, shipped)
    step = int(DECODING.stops[1].facts(shipped).settings["step"]) - 1
    expected = stem(trace.predicted_tokens[step - 1]) if step else "<s>"
    assert asked.options[asked.answer].startswith(expected)
    assert query_labels(trace, "cross")[step].replace("▁", "_") in asked.because.replace("\\", "")


@pytest.mark.parametrize("init", ["", "runs/before"])
def test_a_last_part_of_training_is_not_said_to_be_all_of_it(shipped: Scene, init: str) -> None:
    training = shipped.metrics["training"]
    settings = {**training["recipe"]["training"], "init": init}
    training = {**training, "hours": 0.25, "recipe": {"training": settings}}
    scene = replace(shipped, metrics={**shipped.metrics, "training": training})
    read, rate = (TRAINING.stops[i].question(scene) for i in (0, 4))
    for said in (read.ask, read.because, rate.ask, whose(training_facts(scene))):
        assert bool(re.search("last part|before|earlier", said)) is bool(init)
    assert "15 minutes" in read.because


@pytest.mark.parametrize("metrics", [
    {}, {"bleu": 0.0}, {"training": None}, {"training": {"updates": -3}}, {"tried_on_val": 7},
    {"training": {"updates": float("inf"), "recipe": {"training": {"warmup": "many"}}}},
    {"training": {"updates": 10**30, "recipe": {"training": {"warmup": -1, "peak_lr": "x"}}}},
    {"tried_on_val": [None, {"beam_size": 4}], "tests": {"a": 3, "b": {"bleu": "high"}}},
])  # fmt: skip
def test_what_metrics_say_wrongly_is_as_if_not_said(metrics: dict[str, Any]) -> None:
    scene = Scene(make_trace(), CONFIG, metrics)
    for stop in TRAINING.stops:
        assert stop.question(scene).because
    facts = training_facts(scene)
    assert facts.updates == PAPER_UPDATES or facts.own
    assert np.isfinite([*facts.rates.values()]).all()


def test_options_hold_the_right_one_and_no_other_like_it() -> None:
    assert one_stop("It writes “tired.”. Then **Why?**.") == "It writes “tired.” Then **Why?**"
    assert numbers(0.5, [0.501, 2.0], "{:.2f}".format) == (("0.50", "2.00"), 0)
    assert counts(5, 0, 5) == (("0", "1", "2", "3", "4", "5"), 5)
    options, answer = counts(9, 1, 16)
    assert options[answer] == "9" and len(options) == 6
    assert (quarters(0.0)[1], quarters(1.0)[1]) == (0, 3)
    assert names(["▁a", "b", "▁a", "▁"]) == ["a (1)", "b", "a (3)", "▁"]
    with pytest.raises(ValueError, match="different"):
        Question("?", ("a", "a"), 0, "")


def test_the_tour_of_roles_asks_the_study_for_its_numbers() -> None:
    made, clear = MADE, clearest(MADE)
    scene = Scene(make_trace(), CONFIG, study=made)
    margins = [(each.named, each.choice) for each in clear]
    assert margins == sorted(margins, reverse=True) and len(clear) == len(made.roles)
    for found in clear:
        same = [made.finding(found.role, head) for head in made.heads]
        assert (found.named, found.choice) == max(
            (each.named, each.choice) for each in same if each
        )
    for number, found in enumerate([*clear, clear[-1]], 1):
        stop = ROLES.stops[number - 1]
        said = stop.question(scene)
        answer = (
            found.role.title, "no" if found.random < found.score else "yes",
            "those where it fails, and some at random",
        )[number - 1]  # fmt: skip
        assert right(ROLES, number, scene) == answer
        assert percent(found.score) in said.ask + said.because
        assert stop.facts(scene).settings["role"] == found.role.name
        assert ("not a role" in said.because or "too near" in said.because) is not found.named


@pytest.mark.parametrize("named", [False, True])
def test_what_was_thought_is_said_to_be_so_or_not(named: bool) -> None:
    made = study()
    roles = (made.roles[0], Role("antecedent", "pronoun to antecedent", "coreference"))
    scores = {**made.scores, "named": np.full(made.scores["score"].shape, named)}
    scene = Scene(make_trace(), CONFIG, study=replace(made, roles=roles, scores=scores))
    said = question(ROLES, 4, scene)
    assert "pronoun to antecedent" in said.ask
    assert ("**no head was shown to have this role**" in said.because) is not named
    assert said.options[said.answer] == ("yes" if named else "no")


def test_a_model_of_one_head_is_told_so() -> None:
    scene = Scene(make_trace(n_heads=1), replace(CONFIG, n_heads=1))
    first, last = question(HEADS, 1, scene), question(HEADS, 4, scene)
    assert "has 1 head." in first.ask and "only one head" in first.because
    assert right(HEADS, 4, scene) == "about the same" and "only one head" in last.because
    assert "only one head" not in question(HEADS, 4, Scene(make_trace(), CONFIG)).because


def test_learned_positions_are_not_taken_for_the_papers() -> None:
    learned = Scene(make_trace(), replace(CONFIG, positions="learned"))
    for stop in POSITIONS.stops:
        assert "learned its positions" in stop.question(learned).ask
        assert "learned its positions" not in stop.question(Scene(make_trace(), CONFIG)).ask


METRICS = {
    "training": {
        "updates": 900, "epochs": 3, "target_tokens": 10_000,
        "hours": 0.25,
        "recipe": {"training": {"warmup": 100, "peak_lr": 2e-3, "cooldown": 0.3,
                                "label_smoothing": 0.2, "beta2": 0.95, "batch_tokens": 512},
                   "model": {"dropout": 0.25}, "data": {"corpora": ["tatoeba"]}},
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


@pytest.mark.parametrize(("metrics", "answers"), [
    (METRICS, ("10 thousand", "64", "45 minutes", "7.7%", "update 100", "6", "80.18%", "2 epochs",
               "beam 4, alpha 0.6")),
    ({}, ("2.5 billion", "3,125", "12.0 hours", "36%", "update 4,000", "51", "90%", "5", "big")),
], ids=["its own", "the paper's"])  # fmt: skip
def test_questions_about_training_are_answered_by_the_metrics_or_the_paper(
    metrics: dict[str, Any], answers: tuple[str, ...]
) -> None:
    scene = Scene(make_trace(S=8), CONFIG, metrics)
    assert tuple(right(TRAINING, place, scene) for place in range(1, 10)) == answers
    assert length_of(scene) == 8 == length_of(Scene(make_trace(S=2, T=8), CONFIG))
    facts = training_facts(scene)
    assert not metrics or [part.corpora for part in facts.parts] == [("first",), ("Tatoeba",)]
    assert max(facts.rates, key=facts.rates.__getitem__) == pytest.approx(
        100 if metrics else 4000, rel=0.04
    )


TOY = ROOT / "checkpoints/reverse-toy"


@pytest.mark.parametrize(("says", "name"), [(True, "tiny"), (False, "tiny@20")])
def test_figures_have_origins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: bool, name: str
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    own = Path(shutil.copytree(TOY, tmp_path / "tiny"))
    (own / "metrics.json").write_text(json.dumps(METRICS if says else {}))
    entry = inspect_entry(own)
    assert entry.config is not None
    facts = training_facts(Scene(make_trace(), entry.config, entry.metrics, None))
    assert facts.own == says
    asks = [stop.facts.__name__ for stop in TRAINING.stops]  # the first stop has numbers only
    assert asks[1:] == [figure.__name__ for figure in FIGURES.values()]
    made = [training_exhibit(facts, name, "Mine", figure, 17) for figure in FIGURES]
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
        assert rate["values"].max() == pytest.approx(2e-3, rel=0.02) and rate["names"][-1] == 900
