"""Recipes of several stages: shared tables, the stage before, mixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.transformer.training.runs import recipe, weights
from transformer.__main__ import main
from transformer.config import ConfigError
from transformer.training.recipe import Recipe
from transformer.training.stages import load_stages

SHIPPED = sorted((Path(__file__).parents[3] / "recipes").rglob("*.toml"))

STAGES = """

[[stages]]
name = "first"
[[stages]]
name = "second"
[stages.training]
init = "stage first"
epochs = 1
[[stages]]
name = "both"
mix = ["second", "first"]
share = 0.25
[[stages]]
name = "last"
[stages.training]
init = "stage both"
epochs = 1
seed = 3
"""


def staged(folder: Path, stages: str) -> Path:
    return recipe(folder, f"max_updates = 4\n{stages}", average=1, corpora=["pairs.tsv"], val=None)


def test_shipped_recipes_load() -> None:
    assert SHIPPED
    for path in SHIPPED:
        stages = load_stages(str(path))
        assert stages and stages[-1].recipe is not None and not stages[-1].recipe.data.val, path


def test_a_stage_overrides_the_shared_tables(tmp_path: Path) -> None:
    first, second, both, last = load_stages(str(staged(tmp_path, STAGES)))
    assert first.recipe and second.recipe and last.recipe
    assert (first.recipe.training.epochs, second.recipe.training.epochs) == (2, 1)
    assert first.recipe.model == second.recipe.model and last.recipe.training.seed == 3
    assert both.recipe is None and both.mix == ("second", "first") and both.share == 0.25
    started = second.started_from(tmp_path)
    assert started and started.training.init == str(tmp_path / "first")
    (only,) = load_stages("tiny")
    assert only.name == "" and only.recipe == Recipe.load("tiny")


@pytest.mark.parametrize(
    ("stages", "fault"),
    [
        ("name = '../x'", "stage 1: name='../x'"),
        ("name = 'a'\n[[stages]]\nname = 'a'", "stage 2: name='a'"),
        ("name = 'a'\nmix = ['b', 'c']", "stage 1: mix"),
        ("name = 'a'\n[[stages]]\nname = 'b'\nmix = ['a', 'a']\nshare = 2.0", "share"),
        ("name = 'a'\n[stages.training]\ninit = 'stage b'", "init='stage b'"),
        ("name = 'a'\n[stages.training]\nepochs = 0", "epochs=0"),
    ],
)
def test_a_faulty_stage_is_refused(tmp_path: Path, stages: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        load_stages(str(staged(tmp_path, f"[[stages]]\n{stages}")))
    with pytest.raises(ConfigError, match="should be tables"):
        load_stages(str(staged(tmp_path, "[stages]\nname = 'a'")))


def test_stages_run_in_turn_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [f"{n} b{n % 7}\t{n % 7} c{n}" for n in range(1200)]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    path, out = staged(tmp_path, STAGES), tmp_path / "out"
    arguments = ["train", str(path), "--data", str(tmp_path), "--out", str(out)]
    arguments += ["--device", "cpu", "--quiet"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.split() == [str(out / each) for each in
                                               ("first", "second", "both", "last")]  # fmt: skip
    first, second, both = (weights(out / name) for name in ("first", "second", "both"))
    for name, mixed in both.items():
        expected = torch.lerp(second[name].float(), first[name].float(), 0.25)
        torch.testing.assert_close(mixed.float(), expected, rtol=2e-3, atol=2e-3)
    before = (out / "last" / "model.safetensors").read_bytes()
    assert main([*arguments, "--resume"]) == 0
    assert (out / "last" / "model.safetensors").read_bytes() == before
