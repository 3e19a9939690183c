"""Recipes: valid TOML files, the messages for invalid ones, and stages."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.transformer.conftest import Command
from tests.transformer.training.runs import recipe as short_recipe
from tests.transformer.training.runs import weights
from transformer.config import PRESETS, ConfigError
from transformer.training.recipe import (
    DataRecipe,
    Recipe,
    TokenizerRecipe,
    TrainingRecipe,
    load_stages,
)


def test_presets_are_recipes_with_the_papers_optimisation() -> None:
    for name, preset in PRESETS.items():
        recipe = Recipe.load(name)
        assert recipe.model == preset.replace(vocab_size=recipe.tokenizer.vocab_size)
        assert recipe.training == TrainingRecipe()
        assert name not in ("base", "big") or recipe.tokenizer.vocab_size == 37_000
    training = TrainingRecipe()
    assert (training.beta1, training.beta2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (training.warmup, training.label_smoothing, training.peak_lr) == (4_000, 0.1, 0.0)
    assert training.clip_norm == training.cooldown == 0


def test_a_file_with_every_table(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        '[model]\npreset = "tiny"\nd_ff = 48\ndropout = 0\n'
        '[tokenizer]\nvocab_size = 300\nmodel_type = "bpe"\nbyte_fallback = true\n'
        '[data]\ncorpora = ["a.tsv", "b"]\nsrc = "de"\ntgt = "en"\nval = "v.csv"\n'
        'train_only = ["made.tsv"]\n'
        '[training]\nepochs = 3\npeak_lr = 1\nprecision = "float32"\n'
    )
    recipe = Recipe.load(str(path))
    assert recipe.model == PRESETS["tiny"].replace(vocab_size=300, d_ff=48, dropout=0)
    assert recipe.tokenizer == TokenizerRecipe(300, "bpe", byte_fallback=True)
    assert recipe.data == DataRecipe(("a.tsv", "b"), "de", "en", "v.csv", ("made.tsv",))
    assert recipe.training == TrainingRecipe(epochs=3, peak_lr=1.0, precision="float32")
    assert isinstance(recipe.training.peak_lr, float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model", "not valid TOML"),
        ("[training]\nepochs = " + "9" * 5000, "not valid TOML"),
        ("x = " + 9000 * "[", "nested too deeply"),
        ("stages" + 1500 * ".a" + " = 1", "nested too deeply"),
        ("[modl]\n", "unknown table [modl]"),
        ("model = 3\n", "should be a table"),
        ("[model]\npreset = 'huge'\n", "preset='huge' is not one of base"),
        ("[model]\npreset = ['base']\n", "is not one of base"),
        ("[model]\nd_model = 0\n", "[model] d_model=0"),
        ("[model]\nlayers = 3\n", "unknown setting 'layers'"),
        ("[model]\nvocab_size = 5\n", "differs from [tokenizer] vocab_size=8000"),
        ("[model]\ntgt_vocab_size = 9\ntie_embeddings = 'none'\n", "tokenizer is a joint one"),
        ("[model]\npad_id = 9\n", "the tokenizer sets them"),
        ("[tokenizer]\nmodel_type = 'word'\n", "is not one of: unigram, bpe, char"),
        ("[tokenizer]\nvocab_size = 0\n", "allowed is at least 1"),
        ("[tokenizer]\nbyte_fallback = 1\n", "should be true or false"),
        ("[tokenizer]\ncharacter_coverage = 1.5\n", "allowed is from 0 to 1"),
        ("[data]\ncorpora = 'multi30k'\n", "should be a list of names"),
        ("[data]\ncorpora = []\n", "should be a list of names"),
        ("[data]\ntrain_only = 'made.tsv'\n", "should be a list of names"),
        ("[data]\nval = 3\n", "should be text in quotes"),
        ("[training]\nepoch = 3\n", "unknown setting [training] epoch"),
        ("[training]\nepochs = 0\n", "allowed is at least 1"),
        ("[training]\nepochs = 2.0\n", "should be a whole number"),
        ("[training]\nepochs = true\n", "should be a whole number"),
        ("[training]\nwarmup = -1\n", "allowed is at least 0"),
        ("[training]\npeak_lr = nan\n", "out of range"),
        ("[training]\npeak_lr = inf\n", "out of range"),
        ("[training]\npeak_lr = '1'\n", "should be a number"),
        ("[training]\nlabel_smoothing = 1.0\n", "from 0 to below 1"),
        ("[training]\nprecision = 'float16'\n", "is not one of: auto, float32, bfloat16"),
    ],
)
def test_a_wrong_file_is_named_with_its_setting(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Recipe.load(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)
NAMES = st.sampled_from(
    [
        "d_model", "preset", "n_heads", *TrainingRecipe.__dataclass_fields__,
        *TokenizerRecipe.__dataclass_fields__, *DataRecipe.__dataclass_fields__,
    ]
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["model", "tokenizer", "data", "training", "other"]),
        st.dictionaries(NAMES, VALUES, max_size=2) | VALUES,
        max_size=3,
    )
)
def test_any_values_make_a_recipe_or_a_config_error(values: dict[str, object]) -> None:
    try:
        recipe = Recipe.from_dict(values)
    except ConfigError:
        return
    assert recipe.training.epochs >= 1


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
    return short_recipe(
        folder, f"max_updates = 4\n{stages}", average=1, corpora=["pairs.tsv"], val=None
    )


def test_shipped_recipes_load_and_other_files_are_named(tmp_path: Path) -> None:
    assert SHIPPED
    for path in SHIPPED:
        stages = load_stages(str(path))
        assert stages and stages[-1].recipe is not None and not stages[-1].recipe.data.val, path
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "d.toml").mkdir()
    for name, reason in (
        ("hug", "neither a preset"), (f"{tmp_path}/none.toml", r"none\.toml: No such file"),
        (f"{tmp_path}/b.toml", "not valid TOML"), (f"{tmp_path}/d.toml", "directory"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=reason):
            Recipe.load(name)


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


def test_stages_run_in_turn_and_resume(tmp_path: Path, command: Command) -> None:
    pairs = [f"{n} b{n % 7}\t{n % 7} c{n}" for n in range(1200)]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    path, out = staged(tmp_path, STAGES), tmp_path / "out"
    asked = ["train", path, "--data", tmp_path, "--out", out, "--device", "cpu", "--quiet"]
    made = [str(out / each) for each in ("first", "second", "both", "last")]
    assert command(*asked).out.split() == made
    first, second, both = (weights(out / name) for name in ("first", "second", "both"))
    for name, mixed in both.items():
        expected = torch.lerp(second[name].float(), first[name].float(), 0.25)
        torch.testing.assert_close(mixed.float(), expected, rtol=2e-3, atol=2e-3)
    before = (out / "last" / "model.safetensors").read_bytes()
    assert command(*asked, "--resume").status == 0
    assert (out / "last" / "model.safetensors").read_bytes() == before
