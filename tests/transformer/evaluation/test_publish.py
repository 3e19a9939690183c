import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.shipped import FOLDER
from tests.snapshots import write_snapshots
from tests.transformer.conftest import Command
from tests.transformer.training.runs import recipe
from transformer.checkpoint.folder import (
    TrainingText,
    load_checkpoint,
    save_checkpoint,
    training_text,
)
from transformer.checkpoint.reference import SNAPSHOTS
from transformer.checkpoint.snapshots import read_snapshot
from transformer.checkpoint.weights import layout_of
from transformer.config import ConfigError
from transformer.evaluation import measure as measuring
from transformer.evaluation.card import card
from transformer.evaluation.measure import Measuring, measure, predictions, read_metrics
from transformer.evaluation.publish import SHARES, earlier_parts, publish
from transformer.evaluation.records import stamps, summary_table
from transformer.evaluation.scores import measure_test, score
from transformer.models.catalogue import inspect_entry, list_entries
from transformer.models.one_stack.model import load_stack
from transformer.search.request import Decoding
from transformer.training.corpus import load_corpus
from transformer.training.data import DataError, collate
from transformer.training.objective import task_of
from transformer.training.recipe import Recipe
from transformer.training.run import train
from transformer.training.run_folder import RunFolder, average_weights
from transformer.training.typed import from_dict, typed_sentences
from transformer.translator import Translator
from transformer.types import CheckpointError


def trained(folder: Path, name: str, more: str = "") -> Path:
    path = recipe(
        folder, more, corpora=["pairs.tsv"], max_positions=32, vocab_size=64, batch_tokens=1024
    )
    path = path.rename(path.with_name(f"{name}.toml"))
    return train(Recipe.load(str(path)), folder, folder / name, device="cpu", show_progress=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run on 1,300 pairs with repeated sources."""
    folder = tmp_path_factory.mktemp("publish")
    lines = [f"w{n} and w{n % 7}\tv{n % 7} und v{n}" for n in range(1200)]
    lines += [f"w{n} and w{n % 7}\tv{n} mit v{n % 7}" for n in range(100)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return trained(folder, "run")


@pytest.fixture(scope="module")
def little(run: Path) -> Measuring:
    return Measuring(run.parent, [2], [0.6, 1.0], "cpu")


@pytest.fixture(scope="module")
def shipped(run: Path, little: Measuring) -> Path:
    """The published run; copy it before changing a file."""
    out = run.parent / "roots" / "shipped"
    return publish(run, out, little, made_by="make it", notes=["Mind this."])


@pytest.fixture
def copied(shipped: Path, tmp_path: Path) -> Path:
    return shutil.copytree(shipped, tmp_path / "root" / "shipped")


def test_snapshots_are_compared_with_the_weights_that_are_published(
    run: Path, little: Measuring, copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_snapshots(copied, towards=True)
    assert inspect_entry(copied).relation == "other"
    publish(run, copied, little, dtype="bfloat16")  # other weights only by rounding
    entry = inspect_entry(copied)
    assert entry.relation == "end" and entry.history.about["cosine"] > 0.999
    before = read_snapshot(entry.after(0).ref, layout_of(load_checkpoint(copied).config).stored)
    other = trained(run.parent, "another", f'seed = 5\ninit = "{run}"\npeak_lr = 1e-2')
    publish(other, copied, little)
    after = inspect_entry(copied)
    assert after.relation == "other" and after.history.about["cosine"] < 0.999
    assert after.history.snapshots == entry.history.snapshots
    again = read_snapshot(after.after(0).ref, layout_of(load_checkpoint(copied).config).stored)
    assert all(torch.equal(again[name], before[name]) for name in before)
    assert not caplog.records
    write_snapshots(copied, rest_2=None)
    publish(other, copied, little)
    assert not (copied / SNAPSHOTS).exists() and "snapshots.npz is removed" in caplog.text
    write_snapshots(copied)
    (copied / "tokenizer.model").write_bytes(b"pieces of another model")
    publish(other, copied, little)
    assert not (copied / SNAPSHOTS).exists()


def metrics_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return found


def test_figures_and_default_are_those_of_the_stored_weights(run: Path, shipped: Path) -> None:
    metrics = metrics_of(shipped)
    data = Recipe.load(str(run.parent / "run.toml")).data
    (name, pairs), *_ = load_corpus(data, run.parent).tests.items()
    translator = Translator.load(shipped, device="cpu")
    how = Decoding(**metrics["default_decoding"])
    assert translator.decoding == how
    texts = translator.translate([src for src, _ in pairs], how.beam_size, how.alpha)
    again = score([t.text for t in texts], [tgt for _, tgt in pairs])
    values = metrics["tests"][name]
    assert values["bleu"] == pytest.approx(again.bleu, abs=1e-3)
    assert values["chrf"] == pytest.approx(again.chrf, abs=1e-3)
    assert values["signature"] == again.signature

    model, n_epochs = load_checkpoint(shipped).model, metrics["chosen_on_val"]["averaged_epochs"]
    exact = average_weights(RunFolder(run).epochs()[-n_epochs:], model)
    for key, tensor in model.state_dict().items():
        assert tensor.equal(exact[key].half().float())

    assert any(metrics["chosen_on_val"].items() <= each.items() for each in metrics["tried_on_val"])
    trials = metrics["decoding_on_val"]["trials"]
    assert {(each["beam_size"], each["alpha"]) for each in trials} == {(4, 0.6), (2, 0.6), (2, 1.0)}
    best = max(trials, key=lambda each: each["val_bleu"])
    assert metrics["decoding_on_val"]["best"].items() <= best.items()

    text = (shipped / "README.md").read_text(encoding="utf-8")
    assert f"| {name} | {values['sentences']:,} | {how} | {values['bleu']:.1f} |" in text
    assert "`make it`" in text and "Mind this." in text
    assert "| shipped | 1+2 layers, 3 heads" in summary_table(list_entries([shipped.parent]))


def test_earlier_parts_are_listed_oldest_first(shipped: Path, tmp_path: Path) -> None:
    made, metrics = read_metrics(shipped)

    def part(name: str, init: str, *earlier: str) -> None:
        settings = dataclasses.replace(made.training, init=str(tmp_path / init))
        own = {"recipe": dataclasses.replace(made, training=settings).to_dict(), "name": name}
        more = {"earlier_parts": [{"name": each} for each in earlier]} if earlier else {}
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "metrics.json").write_text(json.dumps({"training": own, **more}))

    def parts_of(name: str) -> list[str]:
        return [each["name"] for each in earlier_parts(str(tmp_path / name))]

    part("first", "missing")
    part("second", "first")
    assert parts_of("second") == ["first", "second"]
    # A published folder lists its own parts; one may begin where its later stage was written.
    part("third", "third", "first", "second")
    assert parts_of("third") == ["first", "second", "third"]
    part("third", "third")
    assert parts_of("third") == ["third"]
    assert parts_of("missing") == []

    parts = [metrics["training"] | {"epochs": count} for count in (0, 1, 11)]
    metrics |= {"earlier_parts": parts[:2], "training": parts[2]}
    text = card("it", load_checkpoint(shipped).config, made, metrics)
    places = [text.index(f"- {length}, ") for length in ("less than an epoch", "1 epoch")]
    assert places == sorted(places) and text.index("- 11 epochs, ") > places[1]


@pytest.mark.parametrize(("metrics", "said"), [
    *(({"tests": tests}, "nothing measured") for tests in (
        None, 5, [1], {"a": 3}, {"a": {"bleu": "high"}}, {"reverse_test": {"bleu": [1]}},
    )),
    *(({"typed": typed}, "nothing measured") for typed in (None, 5, [1], {"right": "7"})),
    ({"typed": {"right": 7}}, "nothing measured"),
    ({"typed": {"right": 7, "sentences": 9}}, "7 of 9 typed sentences right"),
    ({"typed": {"right": 7, "sentences": 9, "measured": 3}}, "7 of 9 typed sentences right"),
    ({"parsing_baselines": [1], "other_decodings": {"tests": 1}}, "nothing measured"),
    ({"parsing": {"f1": 1.0, "sentences": 2}}, "GUM, English trees: labelled F1 1.0"),
])  # fmt: skip
def test_metrics_of_any_kind_make_a_table(copied: Path, metrics: object, said: str) -> None:
    (copied / "metrics.json").write_text(json.dumps(metrics))
    assert summary_table(list_entries([copied.parent])).endswith(f"| {said} |")


@pytest.mark.parametrize("share", [None, 0.25])
def test_another_run_is_mixed_in_by_the_share_that_val_prefers_or_a_given_one(
    run: Path, little: Measuring, tmp_path: Path, share: float | None
) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    first, last = RunFolder(run).epochs()
    shutil.copyfile(first, other / "model.safetensors")
    out = publish(run, tmp_path / "out", little, dtype="float32", mix=other, share=share)
    metrics = metrics_of(out)
    best, asked = metrics["chosen_on_val"], SHARES if share is None else (share,)
    blends = [tried for tried in metrics["tried_on_val"] if tried["beam_size"] > 1][: len(asked)]
    assert {tried["mixed_share"] for tried in blends} == set(asked)
    assert best["mixed_share"] == max(blends, key=lambda t: t["val_bleu"])["mixed_share"]
    model = load_checkpoint(out).model
    mine = average_weights([first, last][-best["averaged_epochs"] :], model)
    theirs = average_weights([first], model)
    for name, tensor in model.state_dict().items():
        mixed = (1 - best["mixed_share"]) * mine[name] + best["mixed_share"] * theirs[name]
        torch.testing.assert_close(tensor, mixed)
    text = (out / "README.md").read_text(encoding="utf-8")
    assert (f"those of `{other}`" in text) == (best["mixed_share"] > 0)
    assert share is None or "the number of epochs was chosen" in text


@pytest.mark.parametrize(("options", "complaint"), [
    ({"mix": FOLDER / "reverse-toy"}, "another shape cannot be mixed in"),
    ({"mix": FOLDER / "reverse-toy", "share": 2}, "share 2 is not"),
    ({"share": 0.5}, r"share 0\.5 is not"),
    ({"dtype": "int8"}, "dtype 'int8' is not one of: float32"),
    ({"dtype": "nn"}, "dtype 'nn' is not one of: float32"),
])  # fmt: skip
def test_what_cannot_be_published(
    run: Path, little: Measuring, tmp_path: Path, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises((ConfigError, CheckpointError), match=complaint):
        publish(run, tmp_path / "out", little, **options)
    with pytest.raises(ConfigError, match="does not record the training"):
        publish(tmp_path, tmp_path / "out", little)


def test_an_unpublished_run_has_nothing_measured(run: Path) -> None:
    assert "nothing measured" in summary_table([inspect_entry(run)])


def test_a_repeated_source_is_measured_both_ways(run: Path) -> None:
    translator = Translator.load(run, device="cpu")
    pairs = [("w1 and w1", "a b c d e"), ("w1 and w1", "b c d e f"), ("w2 and w2", "x y z u v")]
    values = measure_test(translator, pairs, Decoding(1, 0.0), None)
    assert values["sentences"] == 3
    assert values["each_source_once"]["sentences"] == 2
    assert "lc_tok_bleu" not in values
    assert "lc_tok_bleu" in measure_test(translator, pairs, Decoding(1, 0.0), "de")


def test_a_checkpoint_is_measured_again_without_its_run(copied: Path, little: Measuring) -> None:
    weights, metrics = (copied / "model.safetensors").read_bytes(), metrics_of(copied)
    # As older versions left it: without stamps, and figures of a tuned decoding, not of a default.
    old = {k: v for k, v in metrics.items() if k not in ("default_decoding", "decoding_on_val")}
    old["tests"] = {name: {"bleu": 7.0} for name in old["tests"]}
    (copied / "metrics.json").write_text(
        json.dumps(old | {"decoding": {"beam_size": 5, "alpha": 1}})
    )
    table = summary_table(list_entries([copied.parent]))
    assert "| setting not recorded | " in table and table.endswith(": 7.0 sacreBLEU |")
    steps = []
    how = dataclasses.replace(little, progress=lambda what, *_: steps.append(what))
    measure(copied, how, notes=["Another."])
    assert {"settings tried on val", "test sets"} <= set(steps)
    assert metrics_of(copied) == metrics | {"notes": ["Another."]}
    assert (copied / "model.safetensors").read_bytes() == weights
    assert "Another." in (copied / "README.md").read_text(encoding="utf-8")


def test_stale_figures_are_not_kept(copied: Path, little: Measuring, tmp_path: Path) -> None:
    metrics, found = metrics_of(copied), load_checkpoint(copied)
    (name, test), *_ = metrics["tests"].items()
    metrics["alignment"] = test | {"reading": [[0.5]]}
    parameter = next(found.model.parameters())
    parameter.data += 1
    save_checkpoint(copied, found.model, found.tokenizer, metrics=metrics, dtype="float16")
    link = tmp_path / "public"
    link.symlink_to(copied, target_is_directory=True)
    with pytest.raises(ConfigError, match="alignment, decoding_on_val, tests of other weights"):
        measure(link, dataclasses.replace(little, keep_scores=True))
    assert metrics_of(copied) == metrics
    measure(link, little)
    after = metrics_of(copied)
    assert metrics.keys() - after.keys() == {"alignment"} and name in after["tests"]
    digest = hashlib.sha256((copied / "model.safetensors").read_bytes()).hexdigest()[:12]
    assert {stamp["model"] for _, stamp in stamps(after)} == {digest}
    assert test["measured"]["model"] != digest
    assert (copied / "README.md").read_text().startswith("# public\n")


def test_text_without_scores(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        measuring.typed,
        "typed_sentences",
        lambda src, tgt: [each for each in typed_sentences(src, tgt) if len(each.source) < 30][:9],
    )
    before = metrics_of(copied)
    before["training"]["recipe"]["data"] |= {"corpora": ["tatoeba"], "src": "en", "tgt": "de"}
    before["default_decoding"] = {"beam_size": 1, "alpha": 0.0}
    (copied / "metrics.json").write_text(json.dumps(before))
    (tmp_path / "tatoeba").mkdir()
    how = Measuring(tmp_path, device="cpu", keep_scores=True)
    with pytest.raises(DataError, match="tatoeba"):
        measure(copied, how)
    # Every piece is a character: 500 sources have 4 tokens with the space before, 4 more.
    lines = [f"{n:03}\ta{n}" for n in range(500)] + [f"w w w w {n}\tb" for n in range(3)] * 9
    asked = measuring.typed.typed_sentences("en", "de")[0].source
    lines.append(f"Now {asked}\tb")
    (tmp_path / "tatoeba" / "en-de.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    measure(copied, how)
    after = metrics_of(copied)
    assert after.keys() - before.keys() == {"training_text", "typed"}
    assert {key: after[key] for key in before} == before
    assert training_text(after) == TrainingText("everyday sentences", 4)
    typed, text = after["typed"], (copied / "README.md").read_text(encoding="utf-8")
    assert f"**{typed['right']} of 9 right**" in text
    assert [each.source for each in from_dict(typed) if each.near] == [asked]
    wrong = next(each for each in typed["verdicts"] if not each["right"])
    assert f"| instead of: {wrong['reference']} |" in text
    assert text.count("| instead of: ") + text.count("| right |") == 9


@pytest.mark.parametrize("record", [
    None, 5, [], {"kind": "everyday sentences"}, {"kind": "**x**", "src_tokens": 9},
    {"kind": "photo captions", "src_tokens": "9"}, {"kind": "photo captions", "src_tokens": True},
    {"kind": "photo captions", "src_tokens": -9},
])  # fmt: skip
def test_an_invalid_record_of_the_training_text_is_none(record: object) -> None:
    assert training_text({"training_text": record}) is None


@pytest.mark.parametrize("options", [["--beam", "0"], ["--alpha", "nan"]])
def test_a_wrong_grid_is_refused(shipped: Path, command: Command, options: list[str]) -> None:
    line = command("measure", shipped, "--data", ".", *options).refused
    assert " ".join(options)[2:] in line.replace("size ", "")


@pytest.mark.parametrize("task", ["continue", "fill", "translate"])
def test_models_of_one_stack(task: str, run: Path, little: Measuring, tmp_path: Path) -> None:
    more = f'max_updates = 3\n\n[stack]\ntask = "{task}"\nn_layers = 1\n'
    source = trained(run.parent, task, more)
    out = publish(source, tmp_path / "out", little, made_by="train it")
    before, text = metrics_of(out), (out / "README.md").read_text()
    measure(out, little)
    assert metrics_of(out) == before and (out / "README.md").read_text() == text
    table = summary_table([inspect_entry(out)])
    with pytest.raises(ConfigError, match="--mix"):
        publish(source, tmp_path / "no", little, mix=run)
    if task == "translate":
        (name, test), *_ = before["tests"].items()
        setting = test["measured"]["setting"]
        assert f"| {name} | {test['sentences']:,} | {setting} | {test['bleu']:.1f} |" in text
        assert f"| {setting} | {name}: {test['bleu']:.1f} sacreBLEU" in table
        return
    val = before["predictions"]["val"]
    assert f"perplexity {val['perplexity']:.1f}" in text and "only" in table
    assert 0 <= val["right"] <= 1 and val["tokens"] > 5
    # The mean over every token that is asked for; of one that is hidden, none is in plain sight.
    found, made = load_stack(source), Recipe.load(str(run.parent / f"{task}.toml"))
    texts = [f"w{n} and w{n % 5}" for n in range(10, 60)]
    scores = predictions(found.model, found.tokenizer, made, [(t, t) for t in texts])
    ids = sorted(found.tokenizer.encode_many(texts), key=len)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        batch = task_of(made, found.tokenizer).examine(collate(ids, ids))
    asked = batch.tgt_out != 0
    if task == "fill":
        assert asked.equal(batch.tgt_in == found.tokenizer.pieces.index("▁[MASK]"))
    assert scores["tokens"] == int(asked.sum()) > 50
    logits = found.model.logits(found.model.read(batch.tgt_in)).log_softmax(-1)
    nll = -logits.gather(2, batch.tgt_out[..., None])[..., 0][asked].mean()
    assert scores["perplexity"] == pytest.approx(float(nll.exp()), rel=1e-3)
    share = (logits.argmax(-1) == batch.tgt_out)[asked].float().mean()
    assert scores["right"] == pytest.approx(float(share), abs=1e-4)
