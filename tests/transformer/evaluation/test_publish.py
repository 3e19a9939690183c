"""A finished run becomes a checkpoint with measured figures and a card that states them."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.__main__ import main
from transformer.catalogue import list_entries
from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.training_text import TrainingText, training_text
from transformer.config import ConfigError
from transformer.errors import CheckpointError
from transformer.evaluation import measure as measuring
from transformer.evaluation.card import part_line, summary_table
from transformer.evaluation.measure import measure, measure_test
from transformer.evaluation.publish import SHARES, blended, earlier_parts, publish
from transformer.evaluation.scores import score
from transformer.evaluation.typed import from_dict, typed_sentences
from transformer.search.decoding import Decoding
from transformer.training.corpus import load_corpus
from transformer.training.data import DataError
from transformer.training.recipe import Recipe
from transformer.training.run import train
from transformer.training.run_folder import RunFolder, average_weights
from transformer.translator import Translator

RECIPE = """
[model]
d_model = 16
d_ff = 32
n_heads = 1
n_encoder_layers = 1
n_decoder_layers = 2
max_positions = 64

[tokenizer]
vocab_size = 64
model_type = "char"

[data]
corpora = ["pairs.tsv"]

[training]
epochs = 2
batch_tokens = 1024
average = 2
precision = "float32"
"""

#: A small grid, on the CPU.
LITTLE: dict[str, Any] = {"beams": [2], "alphas": [0.6, 1.0], "device": "cpu"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run on 1,300 pairs, some sources twice."""
    folder = tmp_path_factory.mktemp("publish")
    lines = [f"w{n} and w{n % 7}\tv{n % 7} und v{n}" for n in range(1200)]
    lines += [f"w{n} and w{n % 7}\tv{n} mit v{n % 7}" for n in range(100)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "tiny.toml").write_text(RECIPE, encoding="utf-8")
    recipe = Recipe.load(str(folder / "tiny.toml"))
    return train(recipe, folder, folder / "run", device="cpu", show_progress=False)


def test_published_figures_are_those_of_the_shipped_weights(run: Path, tmp_path: Path) -> None:
    out = publish(run, run.parent, tmp_path / "shipped", **LITTLE)
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    recipe = Recipe.load(str(run.parent / "tiny.toml"))
    (name, pairs), *_ = load_corpus(recipe.data, run.parent).tests.items()
    translator = Translator.load(out, device="cpu")
    how = metrics["default_decoding"]
    texts = translator.translate([src for src, _ in pairs], how["beam_size"], how["alpha"])
    again = score([t.text for t in texts], [tgt for _, tgt in pairs])
    assert metrics["tests"][name]["bleu"] == pytest.approx(again.bleu, abs=1e-3)
    assert metrics["tests"][name]["chrf"] == pytest.approx(again.chrf, abs=1e-3)
    assert metrics["tests"][name]["signature"] == again.signature


def test_a_translator_uses_the_default_that_val_supports(run: Path, tmp_path: Path) -> None:
    out = publish(run, run.parent, tmp_path / "shipped", **LITTLE)
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["chosen_on_val"] in metrics["tried_on_val"]
    trials = metrics["decoding_on_val"]["trials"]
    assert {(each["beam_size"], each["alpha"]) for each in trials} == {(4, 0.6), (2, 0.6), (2, 1.0)}
    assert Translator.load(out, "cpu").decoding == Decoding(**metrics["default_decoding"])
    best = max(trials, key=lambda each: each["val_bleu"])
    assert metrics["decoding_on_val"]["best"].items() <= best.items()


def test_card_and_table_tell_the_figures(run: Path, tmp_path: Path) -> None:
    out = publish(
        run, run.parent, tmp_path / "shipped", **LITTLE, made_by="make it", notes=["Mind this."]
    )
    card = (out / "README.md").read_text(encoding="utf-8")
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    for name, values in metrics["tests"].items():
        how = Decoding(**metrics["default_decoding"])
        assert f"| {name} | {values['sentences']:,} | {how} | {values['bleu']:.1f} |" in card
        assert values["signature"] in card
    assert "1+2 layers" in card
    assert "`make it`" in card
    assert "Mind this." in card
    table = summary_table(list_entries([tmp_path]))
    assert "| shipped | 1+2 layers, 1 head" in table


@pytest.mark.parametrize(
    ("epochs", "length"),
    [(0, "less than an epoch"), (1, "1 epoch"), (2, "2 epochs"), (11, "11 epochs")],
)
def test_the_length_of_a_part_is_said_in_words(epochs: int, length: str) -> None:
    part = {
        "recipe": {"training": {"init": "", "seed": 3}}, "epochs": epochs, "updates": 1200,
        "target_tokens": 30, "hours": 0.1, "hardware": "1 CPU thread", "bfloat16": False,
    }  # fmt: skip
    said = f"- {length}, 1,200 updates, 30 target tokens, seed 3; 0.1 hours on 1 CPU thread"
    assert part_line(part) == said


def test_parts_that_came_before_are_told_too(run: Path, tmp_path: Path) -> None:
    text = (run.parent / "tiny.toml").read_text(encoding="utf-8")

    def follow(init: Path, name: str, seed: int) -> Path:
        path = tmp_path / f"{name}.toml"
        path.write_text(f'{text}\ninit = "{init.as_posix()}"\nseed = {seed}\nmax_updates = 2\n')
        recipe = Recipe.load(str(path))
        return train(recipe, run.parent, tmp_path / name, device="cpu", show_progress=False)

    second = follow(run, "second", 5)
    shipped = publish(second, run.parent, tmp_path / "shipped", **LITTLE)
    # A third part begins from the published folder and takes its place.
    third = follow(shipped, "third", 6)
    out = publish(third, run.parent, shipped, **LITTLE)
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    kept = [json.loads((each / "metrics.json").read_text()) for each in (run, second, third)]
    assert [*metrics["earlier_parts"], metrics["training"]] == [each["training"] for each in kept]
    card = (out / "README.md").read_text(encoding="utf-8")
    places = [card.index(f"seed {seed};") for seed in (1, 5, 6)]
    assert places == sorted(places)
    # If the origin is lost, the card states what is known.
    assert earlier_parts(str(tmp_path / "nowhere")) == []


@pytest.mark.parametrize("tests", [
    None, 5, [1], {"a": 3}, {"a": {"bleu": "high"}}, {"reverse_test": {"bleu": [1]}},
])  # fmt: skip
def test_metrics_of_any_kind_make_a_table(run: Path, tmp_path: Path, tests: object) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "metrics.json").write_text(json.dumps({"tests": tests}))
    assert summary_table(list_entries([tmp_path])).endswith("| nothing measured |")


def test_another_run_is_mixed_in_by_the_share_that_val_prefers(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    first, last = RunFolder(run).epochs()
    save_weights(other / "model.safetensors", first)
    out = publish(
        run,
        run.parent,
        tmp_path / "out",
        device="cpu",
        beams=[2],
        alphas=[0.6, 1.0],
        dtype="float32",
        mix=other,
    )
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    best = metrics["chosen_on_val"]
    beams = [tried for tried in metrics["tried_on_val"] if tried["beam_size"] > 1]
    asked = beams[: len(SHARES)]
    assert best["mixed_share"] == max(asked, key=lambda t: t["val_bleu"])["mixed_share"]
    assert {tried["mixed_share"] for tried in asked} == set(SHARES)
    mine = average_weights([first, last][-best["averaged_epochs"] :])
    theirs = average_weights([first])
    for name, tensor in load_checkpoint(out).model.state_dict().items():
        share = best["mixed_share"]
        torch.testing.assert_close(tensor, (1 - share) * mine[name] + share * theirs[name])
    card = (out / "README.md").read_text(encoding="utf-8")
    assert (f"those of `{other}`" in card) == (best["mixed_share"] > 0)


def test_a_share_that_something_else_chose_is_taken_and_told(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    first, _last = RunFolder(run).epochs()
    save_weights(other / "model.safetensors", first)
    out = publish(run, run.parent, tmp_path / "out", **LITTLE, mix=other, share=0.25)
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["chosen_on_val"]["mixed_share"] == 0.25
    blends = {t["mixed_share"] for t in metrics["tried_on_val"] if t["beam_size"] > 1}
    assert blends == {0.25}
    card = (out / "README.md").read_text(encoding="utf-8")
    assert f"25% those of `{other}`; the number of epochs was chosen" in card
    with pytest.raises(ConfigError, match="share 2 is not"):
        publish(run, run.parent, tmp_path / "no", **LITTLE, mix=other, share=2)
    with pytest.raises(ConfigError, match=r"share 0\.5 is not"):
        publish(run, run.parent, tmp_path / "no", **LITTLE, share=0.5)


@given(st.floats(0, 1))
def test_a_blend_lies_between_the_two(share: float) -> None:
    zero, one = {"w": torch.zeros(3)}, {"w": torch.ones(3)}
    assert blended(zero, one, share)["w"].tolist() == pytest.approx([share] * 3)
    assert blended(zero, one, 0.0)["w"].equal(zero["w"])
    assert blended(zero, one, 1.0)["w"].equal(one["w"])


def test_a_model_of_another_shape_is_not_mixed_in(run: Path, tmp_path: Path) -> None:
    other = Path(__file__).resolve().parents[3] / "checkpoints" / "reverse-toy"
    with pytest.raises(CheckpointError, match="another shape cannot be mixed in"):
        publish(run, run.parent, tmp_path / "out", **LITTLE, mix=other)


def save_weights(path: Path, epoch: Path) -> None:
    """Save a checkpoint with the weights of an epoch."""
    path.write_bytes(epoch.read_bytes())


def test_half_precision_is_what_is_stored(run: Path, tmp_path: Path) -> None:
    whole = publish(run, run.parent, tmp_path / "whole", **LITTLE, dtype="float32")
    half = publish(run, run.parent, tmp_path / "half", **LITTLE, dtype="float16")
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (half, whole)]
    assert sizes[0] < 0.7 * sizes[1]
    exact = load_checkpoint(whole).model.state_dict()
    for name, tensor in load_checkpoint(half).model.state_dict().items():
        assert tensor.equal(exact[name].half().float())


def test_a_type_that_weights_cannot_have_is_named_at_once(run: Path, tmp_path: Path) -> None:
    for dtype in ("int8", "nn"):
        with pytest.raises(ConfigError, match=f"dtype '{dtype}' is not one of: float32"):
            publish(run, tmp_path / "no text here", tmp_path / "out", dtype=dtype)


def test_text_of_which_nothing_is_held_out_for_testing(run: Path, tmp_path: Path) -> None:
    """As when `val` names a file."""
    folder = run.parent
    (folder / "val.tsv").write_text("w1 and w1\tv1 und v1\n" * 3, encoding="utf-8")
    copy = shutil.copytree(run, tmp_path / "run")
    metrics = json.loads((copy / "metrics.json").read_text())
    metrics["training"]["recipe"]["data"]["val"] = "val.tsv"
    (copy / "metrics.json").write_text(json.dumps(metrics))
    out = publish(copy, folder, tmp_path / "out", **LITTLE)
    assert "No text was held out for testing" in (out / "README.md").read_text(encoding="utf-8")
    (entry,) = list_entries([tmp_path])[:1]
    assert entry.metrics["tests"] == {}
    assert "nothing measured" in summary_table([entry])


def test_a_repeated_source_is_measured_both_ways(run: Path) -> None:
    translator = Translator.load(run, device="cpu")
    pairs = [("w1 and w1", "a b c d e"), ("w1 and w1", "b c d e f"), ("w2 and w2", "x y z u v")]
    values = measure_test(translator, pairs, Decoding(1, 0.0), None)
    assert values["sentences"] == 3
    assert values["each_source_once"]["sentences"] == 2
    assert "lc_tok_bleu" not in values
    assert "lc_tok_bleu" in measure_test(translator, pairs, Decoding(1, 0.0), "de")


def test_a_checkpoint_is_measured_again_without_its_run(run: Path, tmp_path: Path) -> None:
    out = publish(run, run.parent, tmp_path / "shipped", notes=["Mind this."], **LITTLE)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    steps = []
    measure(out, run.parent, **LITTLE, progress=lambda what, *_: steps.append(what))
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert {"settings tried on val", "test sets"} <= set(steps)
    # As older versions left it: figures of a tuned decoding, and no default.
    metrics = json.loads(before["metrics.json"])
    old = {k: v for k, v in metrics.items() if k not in ("default_decoding", "decoding_on_val")}
    (out / "metrics.json").write_text(json.dumps(old | {"decoding": {"beam_size": 5, "alpha": 1}}))
    assert "| beam 5, alpha 1 | " in summary_table(list_entries([tmp_path]))
    measure(out, run.parent, **LITTLE, notes=["Another."])
    again = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert again == metrics | {"notes": ["Another."]}
    assert (out / "model.safetensors").read_bytes() == before["model.safetensors"]
    assert "Another." in (out / "README.md").read_text(encoding="utf-8")


def test_texts_are_measured_without_the_scores(run: Path, tmp_path: Path) -> None:
    out = publish(run, run.parent, tmp_path / "shipped", **LITTLE)
    before = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    before["training"]["recipe"]["data"] |= {"corpora": ["tatoeba"], "src": "en", "tgt": "de"}
    before["default_decoding"] = {"beam_size": 1, "alpha": 0.0}
    (out / "metrics.json").write_text(json.dumps(before))
    (tmp_path / "tatoeba").mkdir()
    with pytest.raises(DataError, match="tatoeba"):
        measure(out, tmp_path, device="cpu", keep_scores=True)
    # Every piece is a character: 500 sources have 4 tokens with the space before, 4 more.
    lines = [f"{n:03}\ta{n}" for n in range(500)] + [f"w w w w {n}\tb" for n in range(3)] * 9
    asked = typed_sentences("en", "de")[0].source
    lines.append(f"Now {asked}\tb")
    (tmp_path / "tatoeba" / "en-de.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    measure(out, tmp_path, device="cpu", keep_scores=True)
    after = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert after.keys() - before.keys() == {"training_text", "typed"}
    assert {key: after[key] for key in before} == before
    assert training_text(after) == TrainingText("everyday sentences", 4)
    assert after["typed"]["sentences"] == 200
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "- 99% of the different sources have at most 4 tokens\n" in card
    assert f"**{after['typed']['right']} of 200 right**" in card
    near = [each.source for each in from_dict(after["typed"]) if each.near]
    assert near == [asked]
    assert "The training text has 1 of them but for one word. Of the other 199, " in card
    wrong = next(each for each in after["typed"]["verdicts"] if not each["right"])
    assert f"| instead of: {wrong['reference']} |" in card
    assert card.count("| instead of: ") + card.count("| right |") == 200


@pytest.mark.parametrize("record", [
    None, 5, [], {"kind": "everyday sentences"}, {"kind": "**x**", "src_tokens": 9},
    {"kind": "photo captions", "src_tokens": "9"}, {"kind": "photo captions", "src_tokens": True},
    {"kind": "photo captions", "src_tokens": -9},
])  # fmt: skip
def test_an_invalid_record_of_the_training_text_is_none(record: object) -> None:
    assert training_text({"training_text": record}) is None


@pytest.mark.parametrize(("options", "complaint"), [
    (["--data", "."], "does not record the training"),
    (["--data", ".", "--beam", "0"], "beam size 0"),
    (["--data", ".", "--alpha", "nan"], "alpha nan"),
])  # fmt: skip
def test_what_cannot_be_measured_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    assert main(["measure", str(tmp_path), *options]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not record the training"):
        publish(tmp_path, tmp_path, tmp_path / "out")


def test_figures_and_card_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("metrics.json", "README.md")
    for name in names:
        (tmp_path / "it").mkdir(exist_ok=True)
        (tmp_path / "it" / name).write_text("old")
    write, wrote = measuring.write_atomic, []

    def once(path: Path, data: bytes) -> None:
        if wrote:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)
        wrote.append(path)

    monkeypatch.setattr(measuring, "write_atomic", once)
    with pytest.raises(OSError, match="No space"):
        measuring.write_figures(tmp_path / "it", {"bleu": 1}, "new")
    assert wrote and [(tmp_path / "it" / name).read_text() for name in names] == ["old", "old"]
