"""Models of one stack: figures, cards, and heads scored as aligners."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.random_stacks import random_stack
from tests.transformer.evaluation.test_publish import RECIPE
from transformer.__main__ import main
from transformer.catalogue import inspect_entry
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.evaluation.alignment import best_head, head_errors, read_gold, word_maps
from transformer.evaluation.card import summary_table
from transformer.evaluation.descendants import predictions, publish_stack, remeasure_stack
from transformer.model import Transformer
from transformer.one_stack.files import load_stack, save_stack
from transformer.one_stack.tracer import StackModel
from transformer.text.tokenizer import Tokenizer
from transformer.training.data import DataError
from transformer.training.recipe import Recipe, TokenizerRecipe
from transformer.training.run import train
from transformer.translator import Translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, with a short run for each task."""
    folder = tmp_path_factory.mktemp("stacks")
    lines = [f"w{n} and w{n % 7}\tv{n % 7} und v{n}" for n in range(1200)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for task in ("continue", "fill", "translate"):
        path = folder / f"{task}.toml"
        path.write_text(f'{RECIPE}\n[stack]\ntask = "{task}"\nn_layers = 1\n', encoding="utf-8")
        train(Recipe.load(str(path)), folder, folder / task, device="cpu", show_progress=False)
    return folder


@pytest.mark.parametrize("task", ["continue", "fill", "translate"])
def test_published_figures_are_those_of_the_stored_weights(
    task: str, folder: Path, tmp_path: Path
) -> None:
    out = publish_stack(folder / task, folder, tmp_path / "out", device="cpu", made_by="train it")
    before = json.loads((out / "metrics.json").read_text())
    card = (out / "README.md").read_text()
    assert "train it" in card
    table = summary_table([inspect_entry(out)])
    remeasure_stack(out, folder, device="cpu")
    assert json.loads((out / "metrics.json").read_text()) == before
    if task == "translate":
        (name, test), *_ = before["tests"].items()
        assert f"{test['bleu']:.1f}" in card and f"{name}: {test['bleu']:.1f}" in table
    else:
        val = before["predictions"]["val"]
        assert f"perplexity {val['perplexity']:.1f}" in card and "only" in table
        assert 0 <= val["right"] <= 1 and val["tokens"] > 5


def test_perplexity_is_that_of_the_traces(folder: Path) -> None:
    """The mean over tokens of a trace's own log-probabilities, `</s>` among them."""
    found, recipe = load_stack(folder / "continue"), Recipe.load(str(folder / "continue.toml"))
    texts = ["w3 and w3", "w12 and w5"]
    model = StackModel(found.model, found.tokenizer, device="cpu")
    total, right, count = 0.0, 0, 0
    for text in texts:
        ids = [1, *found.tokenizer.encode_many([text])[0]]
        logits = model.model.logits(model.model.read(torch.tensor([ids]))[0]).log_softmax(-1)
        for place, token in enumerate([*ids[1:], 2]):
            total -= float(logits[place, token])
            right += int(logits[place].argmax()) == token
            count += 1
    made = predictions(found.model, found.tokenizer, recipe, [(text, text) for text in texts])
    assert made["tokens"] == count
    assert made["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-3)
    assert made["right"] == pytest.approx(right / count, abs=1e-4)


def gold(folder: Path) -> Path:
    """Two sentence pairs with links."""
    folder.mkdir(parents=True)
    for end, lines in (
        ("en", ["The cat sat .", "A dog runs ."]),
        ("de", ["Die Katze saß .", "Ein Hund rennt ."]),
        ("talp", ["1-1 2-2 3-3 4p4", "1-1 2-2 3-3"]),
    ):
        with gzip.open(folder / f"dev.{end}.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return folder


def test_gold_links_are_read_in_either_direction(tmp_path: Path) -> None:
    gold(tmp_path / "alignment-de-en")
    english = read_gold(tmp_path, "en")
    assert english.pairs[0] == ("The cat sat .", "Die Katze saß .")
    assert english.gold[0].sure == {(0, 0), (1, 1), (2, 2)}
    assert english.gold[0].possible == {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert read_gold(tmp_path, "de").pairs[1] == ("Ein Hund rennt .", "A dog runs .")
    with pytest.raises(DataError, match="'fr'"):
        read_gold(tmp_path, "fr")
    with gzip.open(tmp_path / "alignment-de-en" / "dev.talp.gz", "wt") as file:
        file.write("1-1\n1+1\n")
    with pytest.raises(DataError, match="is not a link"):
        read_gold(tmp_path, "en")
    shutil.rmtree(tmp_path / "alignment-de-en")
    with pytest.raises(DataError, match=r"dev\.de\.gz"):
        read_gold(tmp_path, "en")


def test_both_kinds_of_translators_are_scored_alike(
    tiny_translator: Translator, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    gold(tmp_path / "alignment-de-en")
    aligned = read_gold(tmp_path, "en")
    stack = StackModel(*random_stack("translate", tiny_config, tiny_tokenizer), device="cpu")
    for model in (tiny_translator, stack):
        found = head_errors(model, aligned)
        assert found["sentences"] == 2
        for row in ("reading", "predicting"):
            table = np.array(found[row])
            assert table.shape == (3, 3) and (table >= 0).all() and (table <= 1).all()
            layer, head, error = best_head(found[row])
            assert table[layer, head] == table.min() == error
        trace = model.trace(*aligned.pairs[0])
        for row in ("reading", "predicting"):
            maps = word_maps(trace, row)  # type: ignore[arg-type]
            assert maps.shape == (3, 3, 4, 4)
            assert (maps >= 0).all() and (maps.sum(-1) <= 1 + 1e-5).all()


def test_align_from_the_command_line(
    tiny_model: Transformer,
    tiny_tokenizer: Tokenizer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gold(tmp_path / "alignment-de-en")
    pieces = TokenizerRecipe(tiny_tokenizer.vocab_size)
    recipe = Recipe(tiny_model.config.replace(max_positions=64), pieces).to_dict()
    folder = save_checkpoint(
        tmp_path / "kept", tiny_model, tiny_tokenizer, metrics={"training": {"recipe": recipe}}
    )
    command = ["align", str(folder), "--data", str(tmp_path), "--device", "cpu"]
    assert not main([*command, "--json", "--write"])
    shown = json.loads(capsys.readouterr().out)
    assert json.loads((folder / "metrics.json").read_text())["alignment"] == shown
    main(command)
    layer, head, error = best_head(shown["predicting"])
    expected = f"layer {layer + 1}, head {head + 1}, AER {100 * error:.1f}%"
    assert expected in capsys.readouterr().out


def test_complete_from_the_command_line(
    tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer,
    tiny_checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for task, text in (
        ("continue", "The cat"),
        ("fill", "The [MASK] sat."),
        ("translate", "A dog."),
    ):
        folder = tmp_path / task
        save_stack(folder, *random_stack(task, tiny_config, tiny_tokenizer))  # type: ignore[arg-type]
        main(["complete", text, "--checkpoint", str(folder), "--device", "cpu", "--tokens", "3"])
        shown = capsys.readouterr().out
        model = StackModel.load(folder, "cpu")
        if task == "continue":
            assert shown == model.trace(text, new_tokens=3).text + "\n"
        elif task == "fill":
            assert shown.count("\n") == 1 and model.guesses(model.trace(text))[0].tokens[0] in shown
        else:
            assert shown == model.trace(text).text + "\n"
    assert main(["complete", "x", "--checkpoint", str(tiny_checkpoint)]) != 0
    assert "two stacks" in capsys.readouterr().err
