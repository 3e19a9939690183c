"""Table 3: its rows, a run of one, and the summary of results."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.transformer.conftest import Command
from transformer.errors import InputError
from transformer.experiments import ablation_runs
from transformer.experiments.ablation_summary import student, table
from transformer.experiments.ablations import (
    RUN_ORDER,
    VARIATIONS,
    Results,
    Run,
    shipped,
    variation,
)
from transformer.training.recipe import Recipe

#: The base of a very short run.
SMALL = {
    "model": {
        "n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 16, "d_ff": 16, "n_heads": 8,
        "d_k": 2, "d_v": 2, "max_positions": 30,
    },
    "tokenizer": {"vocab_size": 40},
    "data": {"corpora": ["pairs"], "val": "held_out"},
    "training": {"epochs": 1, "batch_tokens": 90, "warmup": 5, "average": 1},
}  # fmt: skip


def invented(row: str, seed: int, nll: float, bleu: float) -> Run:
    recipe = variation(row).recipe(seed)
    return Run(
        row, seed, nll, bleu, recipe.model.n_parameters, 4000, 10, 1000, 0.1, "a processor", "2",
        json.loads(json.dumps(recipe.to_dict())),
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
    monkeypatch.setattr("transformer.experiments.ablations.BASE", SMALL)
    out, file = tmp_path / "runs", tmp_path / "table.json"
    asked = [
        "ablations", "--data", data, "--out", out, "--table", file, "--rows", "layers-1",
        "--seeds", 3, "--device", "cpu", "--quiet", "--json",
    ]  # fmt: skip
    (run,) = Results.from_json(command(*asked).out).runs
    assert (run.row, run.seed) == ("layers-1", 3) and run.recipe["model"]["n_encoder_layers"] == 1
    assert math.isfinite(run.nll) and run.updates > 0
    folder = ablation_runs.run_folder(out, "layers-1", 3)
    assert not (folder / "state.pt").exists() and (folder / "model.safetensors").exists()
    # The stored row can be recomputed from the run's files.
    again = ablation_runs.make(
        variation("layers-1"), 3, data, out, start=SMALL, device="cpu", show_progress=False
    )
    assert again == run
    file.unlink()
    ran = command(*asked)
    assert (ran.status, ran.err) == (0, ""), "finished runs are gathered, not trained"
    (folder / "result.json").write_text("{}")
    assert "result.json" in command(*asked).refused


def test_what_agrees_with_the_paper() -> None:
    runs = [
        invented(row, seed, nll + 0.01 * seed, bleu)
        for row, nll, bleu in (
            ("base", 1.60, 25.2), ("heads-1", 1.70, 25.1), ("learned-positions", 1.61, 25.2),
            ("dropout-0", 1.50, 25.0),
        )
        for seed in (1, 2, 3)
    ]  # fmt: skip
    runs += [invented("keys-4", 1, 1.90, 20), invented("keys-8", 1, 1.63, 25)]
    lines = {each.variation.name: each for each in table(Results.of(runs))}
    assert [each.variation for each in table(Results.of(runs))] == list(VARIATIONS)
    said = {name: line.nll.verdict for name, line in lines.items() if line.nll}
    assert said["heads-1"] == "agrees" and said["learned-positions"] == "agrees"
    assert said["dropout-0"] == "differs"
    # One seed is judged by the spread of the others.
    assert said["keys-4"] == "agrees" and said["keys-8"] == "too close to tell"
    assert lines["heads-4"].nll is None and lines["heads-4"].parameters is None
    found = lines["heads-1"].nll
    assert found is not None
    assert found.difference == pytest.approx(0.1)
    assert found.spread == pytest.approx(0.01)
    assert found.reach == pytest.approx(student(8) * 0.01 * math.sqrt(2 / 3))
    assert found.theirs == pytest.approx(math.log(5.29 / 4.92))
    alone = [run for run in runs if run.seed == 1]  # without a second seed nothing is clear
    found = {each.variation.name: each for each in table(Results.of(alone))}["keys-4"].nll
    assert found is not None and math.isnan(found.reach)
    assert found.verdict == "too close to tell"


@pytest.mark.parametrize("freedom", [1, 2, 5, 10, 11, 38, 200])
def test_students_t_leaves_five_percent(freedom: int) -> None:
    """The density, integrated by the midpoint rule after x = tan(u)."""
    angles = (np.arange(200_000) + 0.5) * math.pi / 2 / 200_000
    density = (1 + np.tan(angles) ** 2 / freedom) ** (-(freedom + 1) / 2) / np.cos(angles) ** 2
    outside = density[angles > math.atan(student(freedom))].sum() / density.sum()
    assert outside == pytest.approx(0.05, abs=1e-4)
    assert math.isnan(student(0))


def test_the_command_prints_a_line_for_every_row(tmp_path: Path, command: Command) -> None:
    runs = [invented("base", seed, math.log(5), 25 + 0.1 * seed) for seed in (1, 2, 3)]
    runs += [invented("heads-1", seed, math.log(6), 25.1) for seed in (1, 2, 3)]
    runs += [invented("keys-4", 1, math.log(6), 24.3)]
    file = tmp_path / "table.json"
    file.write_text(Results.of(runs).to_json())
    lines = command("ablations", "--table", file).out.splitlines()[1:]
    assert len(lines) == len(VARIATIONS)
    rows = {name: next(line for line in lines if f" {name} " in line) for name in RUN_ORDER}
    assert "5.00" in rows["base"] and "25.2 ± 0.1" in rows["base"]
    assert "6.00" in rows["heads-1"] and "+0.182 agrees" in rows["heads-1"]
    assert "24.3" in rows["keys-4"] and "±" not in rows["keys-4"] and "nan" not in rows["keys-4"]
    assert rows["keys-4"].index("25.1") == rows["heads-1"].index("24.9")  # the paper's
    assert "not run" in rows["heads-4"]


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
        stored = {**run.recipe, "training": {**run.recipe["training"], "compile": False}}
        assert Recipe.from_record(stored) == variation(run.row).recipe(run.seed)
