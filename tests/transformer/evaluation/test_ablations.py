import dataclasses
import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.transformer.conftest import Command
from tests.transformer.damage import edit
from transformer.evaluation import ablation_runs
from transformer.evaluation.ablation_summary import (
    LEVEL,
    caveats,
    hardware_effect,
    outside,
    student,
    table,
)
from transformer.evaluation.ablations import RUN_ORDER, VARIATIONS, Results, Run, shipped, variation
from transformer.measures.significance import holm, student_sf
from transformer.training.recipe import Recipe
from transformer.types import InputError

#: The base of a very short run.
SMALL = {
    "model": {
        "n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 16, "d_ff": 16, "n_heads": 8,
        "d_k": 2, "d_v": 2, "max_positions": 30,
    },
    "tokenizer": {"vocab_size": 40},
    "data": {"corpora": ["pairs"]},
    "training": {"epochs": 1, "batch_tokens": 90, "warmup": 5, "average": 1},
}  # fmt: skip


def invented(
    row: str, seed: int, nll: float, bleu: float, precision: str = "float32", tokens: int = 1000
) -> Run:
    recipe = variation(row).recipe(seed)
    stored = json.loads(json.dumps(recipe.to_dict()))
    stored["training"]["precision"] = precision
    return Run(
        row, seed, nll, bleu, recipe.model.n_parameters, 4000, 10, tokens, 0.1, "a processor", "2",
        stored,
    )  # fmt: skip


def test_rows_change_what_the_paper_changes() -> None:
    assert sorted(RUN_ORDER) == sorted(each.name for each in VARIATIONS)
    base = variation("base").recipe(1)
    for each in VARIATIONS:
        recipe = each.recipe(7)
        assert recipe.training.seed == 7
        ours, theirs = recipe.model.n_parameters, each.published.parameters or 65
        if each.group == "A":
            assert ours == base.model.n_parameters
            assert recipe.model.n_heads * (recipe.model.d_k or 0) == base.model.d_model
        if each.group in "BC":
            assert (ours > base.model.n_parameters) == (theirs > 65)
    with pytest.raises(InputError, match="no row 'heads-3'"):
        variation("heads-3")


def test_a_row_is_trained_scored_and_resumed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setattr("transformer.evaluation.ablations.BASE", SMALL)
    out, file = tmp_path / "runs", tmp_path / "table.json"
    asked = [
        "ablations", "--data", data, "--out", out, "--table", file, "--rows", "layers-1",
        "--seeds", 3, "--device", "cpu", "--quiet", "--json",
    ]  # fmt: skip
    (run,) = Results.from_json(command(*asked).out).runs
    assert (run.row, run.seed) == ("layers-1", 3) and run.recipe["model"]["n_encoder_layers"] == 1
    assert math.isfinite(run.nll) and run.updates > 0
    assert run.precision == ablation_runs.precision("cpu") != "auto"
    folder = ablation_runs.run_folder(out, "layers-1", 3)
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert run.measured["model"] and digest.startswith(run.measured["model"])
    assert run.measured["setting"] == "beam 4, alpha 0.6" and run.measured["date"] > "2026"
    assert not (folder / "state.pt").exists() and (folder / "model.safetensors").exists()

    def again(bfloat16: bool) -> Run:
        """Recompute a stored row from the run's files, in a training precision."""
        edit("metrics.json", "training", bfloat16=bfloat16)(folder)
        return ablation_runs.make(
            variation("layers-1"), 3, data, out, start=SMALL, device="cpu", show_progress=False
        )

    # What is stored is the precision of the training, not that of this machine.
    halves = run.precision == "bfloat16"
    assert {again(not halves).precision, run.precision} == {"float32", "bfloat16"}
    assert again(halves) == run
    file.unlink()
    ran = command(*asked)
    assert (ran.status, ran.err) == (0, ""), "finished runs are gathered, not trained"
    (folder / "result.json").write_text("{}")
    assert "result.json" in command(*asked).refused


def said_of(runs: list[Run], measure: str = "nll") -> dict[str, str]:
    lines = table(Results.of(runs))
    return {each.variation.name: each.figures[measure].verdict for each in lines}


def test_directions_beside_the_papers() -> None:
    runs = [
        invented(row, seed, nll + 0.01 * seed, bleu)
        for row, nll, bleu in (
            ("base", 1.60, 25.2), ("heads-1", 1.70, 25.1), ("learned-positions", 1.61, 25.2),
            ("dropout-0", 1.50, 25.0), ("heads-16", 1.80, 25.2),
        )
        for seed in (1, 2, 3)
    ]  # fmt: skip
    runs += [invented("keys-4", 1, 1.90, 20), invented("keys-8", 1, 1.63, 25)]
    lines = {each.variation.name: each for each in table(Results.of(runs))}
    assert list(lines) == [each.name for each in VARIATIONS]
    said = said_of(runs)
    assert said["heads-1"] == "same direction, significant"
    assert said["dropout-0"] == "other direction"
    # No difference of ours agrees with none of the paper's; a clear one has no direction to share.
    assert said["learned-positions"] == "too close to tell"
    assert said["heads-16"] == "no direction in the paper"
    # One seed is judged by the spread of the others.
    assert said["keys-4"] == "same direction, significant"
    assert said["keys-8"] == "too close to tell" and said["heads-4"] == "not run"
    assert lines["heads-4"].parameters is None and math.isnan(lines["heads-4"].figures["nll"].mean)
    found = lines["heads-1"].figures["nll"]
    assert found.difference == pytest.approx(0.1)
    assert found.spread == pytest.approx(0.01)
    assert found.reach == pytest.approx(student(4) * 0.01 * math.sqrt(2 / 3))
    assert found.theirs == pytest.approx(math.log(5.29 / 4.92))
    alone = [run for run in runs if run.seed == 1]  # without a second seed nothing is clear
    found = {each.variation.name: each for each in table(Results.of(alone))}["keys-4"].figures[
        "nll"
    ]
    assert math.isnan(found.reach) and found.verdict == "too close to tell"


def test_a_twentieth_lies_beyond_the_t_of_its_interval() -> None:
    for freedom in (1, 2, 11, 38, 200):
        assert outside(student(freedom), freedom) == pytest.approx(0.05)
    one_side = student_sf(np.array([1.9]), np.array([3]))[0]
    assert outside(-1.9, 3) == outside(1.9, 3) == pytest.approx(2 * one_side)
    assert math.isnan(student(0)) and math.isnan(outside(1.0, 0))


@pytest.mark.parametrize("seed", range(6))
def test_significance_is_holms_over_every_comparison(seed: int) -> None:
    source = np.random.default_rng(seed)
    runs = [
        invented(row, each, 2 + shift + source.normal(0, 0.02), 30 + shift + source.normal(0, 0.5))
        for row in source.choice([each.name for each in VARIATIONS[1:]], 11, replace=False)
        for shift in (source.normal(0, 0.06 * (seed % 3)),)
        for each in range(source.integers(1, 5))
    ] + [invented("base", each, 2 + source.normal(0, 0.02), 30.0 + each) for each in range(3)]
    chances = {}
    for measure in ("nll", "bleu"):
        values: dict[str, list[float]] = {}
        for run in runs:
            values.setdefault(run.row, []).append(getattr(run, measure))
        freedom = len(runs) - len(values)
        pooled = sum(np.var(each) * len(each) for each in values.values()) / freedom
        # Welch's t; a row of one run has the pooled variance.
        noise = {
            row: (np.var(each, ddof=1) / len(each), len(each) - 1)
            if len(each) > 1 else (pooled, freedom)
            for row, each in values.items()
        }  # fmt: skip
        for row, each in values.items():
            (ours, ours_free), (base, base_free) = noise[row], noise["base"]
            degrees = (ours + base) ** 2 / (ours**2 / ours_free + base**2 / base_free)
            t = (np.mean(each) - np.mean(values["base"])) / math.sqrt(ours + base)
            if row != "base":
                chances[row, measure] = outside(float(t), float(degrees))
    assert len(chances) == 22
    corrected = holm(np.array(list(chances.values())))
    rejected = {key for key, chance in zip(chances, corrected, strict=True) if chance <= LEVEL}
    clear = {
        (row, measure)
        for measure in ("nll", "bleu")
        for row, verdict in said_of(runs, measure).items()
        if verdict not in ("too close to tell", "not run")
    }
    assert clear == rejected
    assert "among all 22," in caveats(Results.of(runs), table(Results.of(runs)))


def test_a_shift_of_all_runs_on_a_gpu_changes_no_difference() -> None:
    source, device = np.random.default_rng(2), ("1 CPU thread", "NVIDIA H200")
    runs = [
        replace(invented(row, seed, 2 + source.normal(0, 0.02), 30), hardware=device[seed > n])
        for row, n in (("base", 3), ("heads-1", 1), ("dropout-0", 2))
        for seed in range(1, 6)
    ]
    gpu = [replace(run, nll=run.nll + (run.hardware == device[1])) for run in runs]
    before, after = (
        [line.figures["nll"].difference for line in table(Results.of(some)) if line.seeds]
        for some in (runs, gpu)
    )
    assert after == pytest.approx(before)
    (old, _), (new, _) = (hardware_effect(Results.of(some), "nll") for some in (runs, gpu))
    assert new - old == pytest.approx(1)
    assert "over seeds only" in (note := caveats(Results.of(gpu), table(Results.of(gpu))))
    assert f"GPU is taken out: {new:+.4f} nats" in note


def test_runs_in_other_precisions_or_tokens_are_left_out() -> None:
    half = [invented("base", seed, 2 + seed / 100, 30, "bfloat16") for seed in (1, 2)]
    half += [invented("heads-1", seed, 2.2 + seed / 100, 29, "bfloat16") for seed in (1, 2)]
    full = [invented("heads-1", seed, 1.5, 35) for seed in (1, 2, 3, 4, 5)]
    unknown = [invented("base", seed, 1.0, 40, "auto") for seed in (1, 7, 8, 9, 10, 11)]
    cut = [invented("heads-1", seed, 1.4, 36, "bfloat16", 990) for seed in (1, 2, 3)]
    results = Results.of([*unknown, *half, *full, *cut])
    assert len(results.runs) == 18, "one row and seed, three conditions"
    assert results.comparable == Results.of(half)
    assert repr(table(results)) == repr(table(Results.of(half)))  # NaN is not equal to itself
    assert "14 of 18 runs" in caveats(results, table(results))
    assert "Left out" not in caveats(Results.of(half), table(Results.of(half)))
    assert Results.of(unknown).comparable.runs == ()
    assert set(said_of(unknown).values()) == {"not run"}
    rows = [variation("base"), variation("heads-1")]
    assert ablation_runs.missing(results, rows, [1, 3], "bfloat16") == [(rows[0], 3)]
    assert ablation_runs.missing(results, rows, [1], "float32") == [(rows[0], 1)]


def test_the_command_prints_a_line_for_every_row(tmp_path: Path, command: Command) -> None:
    runs = [invented("base", seed, math.log(5), 25 + 0.1 * seed) for seed in (1, 2, 3)]
    runs += [invented("heads-1", seed, math.log(6), 25.1) for seed in (1, 2, 3)]
    runs += [invented("keys-4", 1, math.log(6), 24.3), invented("keys-4", 2, 1, 1, "bfloat16")]
    file = tmp_path / "table.json"
    file.write_text(Results.of(runs).to_json())
    *blocks, last = command("ablations", "--table", file).out.split("\n\n")
    assert [len(each.splitlines()) for each in blocks] == [1 + len(VARIATIONS)] * 2
    perplexity, bleu = (
        {
            name: next(line for line in each.splitlines() if f" {name} " in line)
            for name in RUN_ORDER
        }
        for each in blocks
    )
    assert "5.00" in perplexity["base"] and "25.2 ± 0.1" in bleu["base"]
    assert "6.00" in perplexity["heads-1"]
    assert "same direction, significant: +0.182 here, +0.073 there" in perplexity["heads-1"]
    assert "24.3" in bleu["keys-4"] and "±" not in bleu["keys-4"] and "nan" not in bleu["keys-4"]
    assert bleu["keys-4"].index("25.1") == bleu["heads-1"].index("24.9")  # the paper's
    assert "not run" in perplexity["heads-4"] and "nan" not in perplexity["heads-4"]
    assert "all 4," in last and "1 of 8 runs" in last


def test_a_run_names_its_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Recipe] = []

    def train(recipe: Recipe, *_: object, **__: object) -> None:
        asked.append(recipe)
        raise InputError("stopped")

    monkeypatch.setattr(ablation_runs, "train", train)
    for can, named in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(ablation_runs, "wants_bfloat16", lambda *_, can=can: can)
        with pytest.raises(InputError, match="stopped"):
            ablation_runs.make(variation("keys-4"), 1, tmp_path, tmp_path, device="cpu")
        assert asked[-1].training.precision == named


def test_results_keep_the_last_of_a_seed_and_refuse_what_is_none() -> None:
    runs = [invented("heads-4", 2, 2.0, 1), invented("base", 1, 1, 1), invented("heads-4", 2, 3, 1)]
    results = Results.of(runs)
    assert [each.row for each in results.runs] == ["base", "heads-4"]
    assert results.row("heads-4")[0].nll == 3
    assert Results.from_json(results.to_json()) == results
    good = json.loads(results.to_json())
    for wrong in (
        "", "[]", "{}", json.dumps(good | {"format": 2}), json.dumps(good | {"runs": [{}]}),
        results.to_json().replace('"heads-4"', '"heads-5"'),
        results.to_json().replace('"nll": 3', '"nll": NaN'),
    ):  # fmt: skip
        with pytest.raises(InputError):
            Results.from_json(wrong)


def test_shipped_rows_can_be_computed_again() -> None:
    for run in shipped().runs:
        model = variation(run.row).recipe(run.seed).model
        assert run.parameters == dataclasses.replace(model, vocab_size=run.pieces).n_parameters
        free = {"compile": False, "precision": "auto"}
        stored = {**run.recipe, "training": {**run.recipe["training"], **free}}
        assert run.precision in ("float32", "bfloat16")
        assert Recipe.from_record(stored) == variation(run.row).recipe(run.seed)
