import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.transformer.conftest import Command
from tests.transformer.training.runs import recipe as short_recipe
from tests.transformer.training.runs import weights
from transformer.config import PRESETS, ConfigError
from transformer.training import data
from transformer.training.corpus import HELD_OUT, load_corpus
from transformer.training.recipe import (
    DataRecipe,
    Recipe,
    TokenizerRecipe,
    TrainingRecipe,
    load_stages,
)

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


@given(lengths=LENGTHS, budget=st.integers(1, 120), seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_batches_hold_every_sentence_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    src, tgt = (np.array(side, dtype=np.int64) for side in zip(*lengths, strict=True))
    batches = data.token_batches(src, tgt, budget, seed=seed, epoch=epoch)
    assert sorted(int(row) for batch in batches for row in batch) == list(range(len(src)))
    for batch in batches:
        padded = (max(src[batch].max(), tgt[batch].max()) + 1) * len(batch)
        assert padded <= budget or len(batch) == 1
    again = data.token_batches(src, tgt, budget, seed=seed, epoch=epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))


def test_batches_are_filled_and_of_similar_length() -> None:
    rng = np.random.default_rng(0)
    src, tgt = rng.integers(3, 40, 2_000), rng.integers(3, 40, 2_000)
    batches = data.token_batches(src, tgt, 1_000, seed=1, epoch=0)
    assert np.mean([(max(src[b].max(), tgt[b].max()) + 1) * len(b) for b in batches]) > 900
    assert np.mean([np.ptp(tgt[b]) for b in batches]) < 2
    first, epoch, seed = (
        np.concatenate(data.token_batches(src, tgt, 1_000, seed=s, epoch=e))
        for s, e in ((1, 0), (1, 1), (2, 0))
    )
    assert not np.array_equal(first, epoch) and not np.array_equal(first, seed)


TEXT = st.text(st.sampled_from("ab !AB"), max_size=4)


@given(pairs=st.lists(st.tuples(TEXT, TEXT), max_size=40), order=st.randoms(use_true_random=False))
def test_a_split_separates_sources_whatever_their_order(pairs, order) -> None:  # type: ignore[no-untyped-def]
    parts = data.split_by_source(pairs, (0.5, 0.2, 0.3))
    keys = [{data.source_key(src) for src, _ in part} for part in parts]
    assert sum(map(len, keys)) == len(set.union(*keys))
    assert sorted(sum(parts, ())) == sorted(pairs)
    shuffled = list(pairs)
    order.shuffle(shuffled)
    assert [*map(sorted, data.split_by_source(shuffled, (0.5, 0.2, 0.3)))] == [*map(sorted, parts)]
    # Nor does it matter which other pairs there are.
    assert data.split_by_source(pairs[:1], (0.5, 0.2, 0.3)) == tuple(
        tuple(pair for pair in part if pair is pairs[0])[:1] if pairs else () for part in parts
    )


def test_a_split_has_about_its_shares() -> None:
    pairs = [(f"sentence {n}", "x") for n in range(20_000)]
    train, val, test = data.split_by_source(pairs, (0.985, 0.005, 0.01))
    assert len(val) == pytest.approx(100, abs=35)
    assert len(test) == pytest.approx(200, abs=45)
    assert len(train) + len(val) + len(test) == 20_000
    for shares in ((0.5, 0.2, 0.2), (1.2, -0.1, -0.1)):
        with pytest.raises(ValueError, match="sum to 1"):
            data.split_by_source([], shares)


def test_merging_keeps_held_out_sources_out_of_training() -> None:
    hot, same, hat = map(data.source_key, ("It's  HOT!", "its hot", "It's hat"))
    assert hot == same != hat
    first = data.Corpus((("Hi.", "Hallo."), ("Go.", "Geh.")), (("Run!", "Lauf!"),))
    second = data.Corpus((("run", "laufen"), ("No.", "Nein.")), (), {"t": (("go", "los"),)})
    merged = data.merge([first, second])
    assert merged.train == (("Hi.", "Hallo."), ("No.", "Nein."))
    assert merged.val == (("Run!", "Lauf!"),) and merged.tests == {"t": (("go", "los"),)}


def test_collate_shifts_the_target_and_reversal_has_answers() -> None:
    batch = data.collate([[5, 6, 7], [8]], [[9], [10, 11]])
    assert batch.src.tolist() == [[5, 6, 7, 2], [8, 2, 0, 0]]
    assert batch.tgt_in.tolist() == [[1, 9, 0], [1, 10, 11]]
    assert batch.tgt_out.tolist() == [[9, 2, 0], [10, 11, 2]]
    assert batch.src.dtype == torch.int64 and batch.n_tokens == 5
    corpus = data.reversal(n=500)
    held_out = corpus.val + corpus.tests["reverse_test"]
    assert all(tgt == src[::-1] for src, tgt in corpus.train + held_out)
    assert not {src for src, _ in corpus.train} & {src for src, _ in held_out}
    assert data.reversal(n=500) == corpus


def write(path: Path, text: str | bytes) -> Path:
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def test_lines_end_at_line_feeds_only_and_pairs_lie_in_two_files_or_one(tmp_path: Path) -> None:
    for name in ("a.txt", "a.txt.gz"):
        path = write(tmp_path / name, "\ufeffone\r\ntwo\x0c\u2028still two\n\nfour")
        assert data.read_lines(path) == ["one", "two\x0c\u2028still two", "", "four"]
    write(tmp_path / "t.en", "a\nb\n")
    write(tmp_path / "t.de.gz", "x\ny\n")
    assert data.read_parallel(tmp_path / "t.en", tmp_path / "t.de") == (("a", "x"), ("b", "y"))
    tsv = write(tmp_path / "t.tsv", 'a "q"\tx\tCC-BY\nb\ty\n\n')
    assert data.read_tsv(tsv) == (('a "q"', "x"), ("b", "y"))
    path = write(tmp_path / "t.csv", 'a,x\n"b, ""c""","y\nz"\n\n')
    assert data.read_csv(path, "en", "de") == (("a", "x"), ('b, "c"', "y\nz"))
    write(path, "id,DE,En\n1,x,a\n2,y,b\n")
    assert data.read_csv(path, "en", "de") == (("a", "x"), ("b", "y"))


@pytest.mark.parametrize(("name", "content", "reason"), [
    ("a.txt", b"\xff\xfe", "a.txt: not UTF-8"),
    ("a.txt.gz", b"not gzip", "a.txt.gz: Not a gzipped file"),
    ("b.txt.gz", gzip.compress(b"x" * 999, mtime=0)[:-20], "b.txt.gz: .* ended"),
    ("c.txt.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff", "c.txt.gz: Error"),
    ("t.tsv", b"a\tx\nno tab\n", r"t\.tsv: line 2 has no tab"),
    ("t.csv", b'a,x\n"b,y\n', r"t\.csv: line \d"), ("t.csv", b"a,x\nb\n", r"t\.csv: line \d"),
    ("t.csv", b"a," + b"x" * 200_000, r"t\.csv: line \d"),
    ("t.en", b"a\nb\n", r"t\.en has 2 lines but .*t\.de has 1"),
    ("t.fr", b"", r"t\.en: no such file \(nor t\.en\.gz\)"),
])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    (tmp_path / "t.de").write_text("x\n")
    pair = path.with_suffix(".en"), tmp_path / "t.de"
    readers = {".tsv": data.read_tsv, ".csv": lambda path: data.read_csv(path, "en", "de")}
    readers |= dict.fromkeys((".en", ".fr"), lambda _: data.read_parallel(*pair))
    with pytest.raises(data.DataError, match=reason):
        readers.get(path.suffix, data.read_lines)(path)


def test_tatoeba_in_both_directions(tmp_path: Path) -> None:
    rows = [f"source {n}\tZiel {n}\tCC-BY" for n in range(500)]
    write(tmp_path / "en-de.tsv.gz", "\n".join(rows) + "\n")
    there, back = data.tatoeba(tmp_path, "en", "de"), data.tatoeba(tmp_path, "de", "en")
    for corpus in (there, back):
        assert len(corpus.train) + len(corpus.val) + len(corpus.tests["tatoeba_test"]) == 500
        assert corpus.tests["tatoeba_test"]
    assert there.train[0][0].startswith("source") and back.train[0][0].startswith("Ziel")
    with pytest.raises(data.MissingFileError, match=r"en-fr\.tsv"):
        data.tatoeba(tmp_path, "en", "fr")


def test_train_only_text_holds_nothing_out(tmp_path: Path) -> None:
    real = [(f"source {n}", f"Satz {n}") for n in range(2000)]
    (tmp_path / "real.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in real))
    alone = load_corpus(DataRecipe(("real.tsv",)), tmp_path)
    thrice = load_corpus(DataRecipe(("real.tsv",) * 3), tmp_path)  # read as often, held out once
    assert thrice.train == alone.train * 3
    assert (thrice.val, thrice.tests) == (alone.val, alone.tests)
    rows = "".join(f"{tgt},{src}\n" for src, tgt in real)
    (tmp_path / "real.csv").write_text(f"de,en\n{rows}")
    assert load_corpus(DataRecipe(("real.csv",)), tmp_path) == alone
    held_out = {src for src, _ in (*alone.val, *alone.tests["real_test"])}
    assert held_out
    made = [(src, f"noch ein {tgt}") for src, tgt in real] + [("back", "zurück")]
    (tmp_path / "made.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in made))
    both = load_corpus(DataRecipe(("real.tsv",), train_only=("made.tsv",)), tmp_path)
    assert (both.val, both.tests) == (alone.val, alone.tests)
    assert both.train == alone.train + tuple(pair for pair in made if pair[0] not in held_out)


@pytest.mark.parametrize(
    ("text", "why"), [(f"{HELD_OUT[0]}\tTier\n", "all pairs are held out"), ("", "no pairs")]
)
def test_why_there_is_nothing_to_train_on(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "one.tsv").write_text(text)
    with pytest.raises(data.DataError, match=f"one.tsv: {why}"):
        load_corpus(DataRecipe(("one.tsv",)), tmp_path)


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
        '[data]\ncorpora = ["a.tsv", "b"]\nsrc = "de"\ntgt = "en"\ntrain_only = ["made.tsv"]\n'
        '[training]\nepochs = 3\npeak_lr = 1\nprecision = "float32"\n'
    )
    recipe = Recipe.load(str(path))
    assert recipe.model == PRESETS["tiny"].replace(vocab_size=300, d_ff=48, dropout=0)
    assert recipe.tokenizer == TokenizerRecipe(300, "bpe", byte_fallback=True)
    assert recipe.data == DataRecipe(("a.tsv", "b"), "de", "en", ("made.tsv",))
    assert recipe.training == TrainingRecipe(epochs=3, peak_lr=1.0, precision="float32")
    assert isinstance(recipe.training.peak_lr, float)


@pytest.mark.parametrize(("text", "message"), [
    ("[model", "not valid TOML"),
    ("[training]\nepochs = " + "9" * 5000, "not valid TOML"),
    ("x = " + 9000 * "[", "nested too deeply"),
    ("stages" + 1500 * ".a" + " = 1", "nested too deeply"),
    ("[modl]\n", "unknown table [modl]"),
    ("model = 3\n", "should be a table"),
    ("[model]\npreset = ['base']\n", "is not one of base"),
    ("[model]\nd_model = 0\n", "[model] d_model=0"),
    ("[model]\nlayers = 3\n", "unknown setting 'layers'"),
    ("[model]\nvocab_size = 5\n", "differs from [tokenizer] vocab_size=8000"),
    ("[model]\ntgt_vocab_size = 9\ntie_embeddings = 'none'\n", "tokenizer is joint"),
    ("[model]\npad_id = 9\n", "the tokenizer sets them"),
    ("[tokenizer]\nmodel_type = 'word'\n", "is not one of: unigram, bpe, char"),
    ("[tokenizer]\nvocab_size = 0\n", "allowed is at least 1"),
    ("[tokenizer]\nbyte_fallback = 1\n", "should be true or false"),
    ("[tokenizer]\ncharacter_coverage = 1.5\n", "allowed is from 0 to 1"),
    ("[data]\ncorpora = 'multi30k'\n", "should be a list of names"),
    ("[data]\ncorpora = []\n", "should be a list of names"),
    ("[data]\nsrc = 3\n", "should be text in quotes"),
    ("[training]\nepoch = 3\n", "unknown setting [training] epoch"),
    ("[training]\nepochs = 0\n", "allowed is at least 1"),
    ("[training]\nepochs = true\n", "should be a whole number"),
    ("[training]\nwarmup = -1\n", "allowed is at least 0"),
    ("[training]\npeak_lr = nan\n", "out of range"),
    ("[training]\npeak_lr = '1'\n", "should be a number"),
    ("[training]\nlabel_smoothing = 1.0\n", "from 0 to below 1"),
    ("[training]\nprecision = 'float16'\n", "is not one of: auto, float32, bfloat16"),
])  # fmt: skip
def test_a_wrong_file_is_named_with_its_setting(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Recipe.load(str(path))
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)
NAMES = st.sampled_from([
    "d_model", "preset", "n_heads", *TrainingRecipe.__dataclass_fields__,
    *TokenizerRecipe.__dataclass_fields__, *DataRecipe.__dataclass_fields__,
])  # fmt: skip


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
    return short_recipe(folder, f"max_updates = 4\n{stages}", average=1, corpora=["pairs.tsv"])


def test_shipped_recipes_load_and_other_files_are_named(tmp_path: Path) -> None:
    assert SHIPPED
    for path in SHIPPED:
        stages = load_stages(str(path))
        assert stages and stages[-1].recipe is not None, path
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


@pytest.mark.parametrize(("stages", "fault"), [
    ("name = '../x'", "stage 1: name='../x'"),
    ("name = 'a'\n[[stages]]\nname = 'a'", "stage 2: name='a'"),
    ("name = 'a'\nmix = ['b', 'c']", "stage 1: mix"),
    ("name = 'a'\n[[stages]]\nname = 'b'\nmix = ['a', 'a']\nshare = 2.0", "share"),
    ("name = 'a'\n[stages.training]\ninit = 'stage b'", "init='stage b'"),
    ("name = 'a'\n[stages.training]\nepochs = 0", "epochs=0"),
])  # fmt: skip
def test_a_faulty_stage_is_refused(tmp_path: Path, stages: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        load_stages(str(staged(tmp_path, f"[[stages]]\n{stages}")))
    with pytest.raises(ConfigError, match="must be an array of tables"):
        load_stages(str(staged(tmp_path, "[stages]\nname = 'a'")))


def test_stages_run_in_turn_and_resume(tmp_path: Path, command: Command) -> None:
    pairs = [f"{n} b{n % 7}\t{n % 7} c{n}" for n in range(1200)]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    path, out = staged(tmp_path, STAGES), tmp_path / "out"
    line = ["train", path, "--data", tmp_path, "--out", out, "--device", "cpu", "--quiet"]
    folders = [str(out / name) for name in ("first", "second", "both", "last")]
    assert command(*line).out.split() == folders
    first, second, both = (weights(out / name) for name in ("first", "second", "both"))
    for name, mixed in both.items():
        expected = torch.lerp(second[name].float(), first[name].float(), 0.25)
        torch.testing.assert_close(mixed.float(), expected, rtol=2e-3, atol=2e-3)
    before = (out / "last" / "model.safetensors").read_bytes()
    assert command(*line, "--resume").status == 0
    assert (out / "last" / "model.safetensors").read_bytes() == before
