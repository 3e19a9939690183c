"""Heads scored as aligners of words, against links drawn by people."""

import dataclasses
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.factories import make_trace
from tests.random_stacks import random_stack
from tests.transformer.conftest import Command
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.evaluation.alignment import best_head, head_errors, read_gold, word_maps
from transformer.model import Transformer
from transformer.one_stack.tracer import StackModel
from transformer.text.tokenizer import Tokenizer
from transformer.training.data import DataError
from transformer.training.recipe import Recipe, TokenizerRecipe
from transformer.translator import Translator


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
    first = english.gold[0]
    assert (first.sure, first.possible - first.sure) == ({(0, 0), (1, 1), (2, 2)}, {(3, 3)})
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
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path, command: Command
) -> None:
    gold(tmp_path / "alignment-de-en")
    pieces = TokenizerRecipe(tiny_tokenizer.vocab_size)
    recipe = Recipe(tiny_model.config.replace(max_positions=64), pieces).to_dict()
    metrics = {"training": {"recipe": recipe}}
    folder = save_checkpoint(tmp_path / "kept", tiny_model, tiny_tokenizer, metrics=metrics)
    align = ["align", folder, "--data", tmp_path, "--device", "cpu"]
    shown = json.loads(command(*align, "--json", "--write").out)
    assert json.loads((folder / "metrics.json").read_text())["alignment"] == shown
    layer, head, error = best_head(shown["predicting"])
    expected = f"layer {layer + 1}, head {head + 1}, AER {100 * error:.1f}%"
    assert expected in command(*align).out


def test_maps_over_words_leave_special_tokens_out() -> None:
    """Source pieces are summed, target pieces averaged, in the row that is asked for."""
    words = ("▁das", "▁Spiel", "haus")
    trace = dataclasses.replace(
        make_trace(S=5, T=4, src_tokens=("▁the", "▁play", "house", "▁.")),
        tgt_tokens=("<s>", *words), predicted_tokens=(*words, "</s>"),
    )  # fmt: skip
    by_pieces = trace.cross[..., :4] @ np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    reading = np.stack([by_pieces[..., 1, :], by_pieces[..., 2:4, :].mean(-2)], axis=-2)
    np.testing.assert_allclose(word_maps(trace, "reading"), reading, atol=1e-6)
    predicting = np.stack([by_pieces[..., 0, :], by_pieces[..., 1:3, :].mean(-2)], axis=-2)
    np.testing.assert_allclose(word_maps(trace, "predicting"), predicting, atol=1e-6)
