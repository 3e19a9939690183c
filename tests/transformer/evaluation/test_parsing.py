import dataclasses
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.transformer.conftest import Command
from tests.transformer.training.runs import recipe
from transformer.__main__ import main
from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.weights import digest
from transformer.config import ConfigError
from transformer.evaluation import parsing
from transformer.evaluation.measure import Measuring, measure
from transformer.evaluation.records import summary_table
from transformer.measures.parse import calibrated, confidences, read_parse
from transformer.models.catalogue import inspect_entry
from transformer.training.corpus import gum, load_corpus, make_tokenizer
from transformer.training.data import Corpus, DataError
from transformer.training.grow import grown
from transformer.training.recipe import DataRecipe, Recipe
from transformer.translator import Translator
from transformer.trees.tree import read_tree, rebuild
from transformer.types import CheckpointError, InputError

LINES = (
    "(ROOT (S (NP-SBJ (DT The) (NN {a})) (VP (VBZ sees) (NP (DT a) (NN {b}))) (. .)))",
    "(ROOT (S (NP-SBJ-1 (NNP Mary)) (VP (VBD ran) (PP (IN to) (NP (DT the) (NN {a})))) (. .)))",
    "(ROOT (NP (DT The) (JJ old) (NN {b})))",
    "(ROOT (UH Yes))",
)


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw, nouns = random.Random(1), ["cat", "dog", "house", "tree", "book", "child"]
    folder = tmp_path_factory.mktemp("data")
    (folder / "gum").mkdir()
    for name, size in (("train.ptb", 60), ("dev.ptb", 8)):
        lines = [
            LINES[index % len(LINES)].format(a=draw.choice(nouns), b=draw.choice(nouns))
            for index in range(size)
        ]
        assert all(map(read_tree, lines))
        (folder / "gum" / name).write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def parser_folder(treebank: Path) -> Path:
    """A parser trained for three epochs."""
    from transformer.training.recipe import Recipe
    from transformer.training.run import train

    path = recipe(
        treebank, "peak_lr = 1e-2", epochs=3, average=1, d_model=24, max_positions=64,
        vocab_size=60, batch_tokens=300, corpora=["gum"],
    )  # fmt: skip
    path.write_text(path.read_text().replace("[data]", '[data]\ntgt = "tree"'))
    return train(
        Recipe.load(str(path)), treebank, treebank / "parser", device="cpu", show_progress=False
    )


def test_a_parser_writes_trees_over_the_words(tiny_parser: Path) -> None:
    parser = parsing.load_parser(tiny_parser, "cpu")
    assert (parser.decoding.beam_size, parser.decoding.alpha) == (21, 0.3)
    sentences = [["The", "cat", "sees", "a", "dog", "."], ["(", "Yes"], ["Mary"]]
    found = parsing.parse(parser, iter(sentences), beam_size=2)
    assert [each.tree.words for each in found] == sentences
    assert all(read_tree(str(each)).children for each in found)
    # The grammar allows nothing but trees; without it a random model writes anything.
    assert all(each.complete and not each.rebuilt.repairs for each in found)
    alone = [parsing.parse(parser, [words], beam_size=2)[0] for words in sentences]
    assert [str(each) for each in alone] == [str(each) for each in found]
    free = parsing.parse(
        parsing.load_parser(tiny_parser, "cpu", free=True), sentences[:1], max_length=30
    )
    assert free[0].rebuilt.repairs and free[0].tree.words == sentences[0]
    with pytest.raises(InputError, match="sentence 2 has no words"):
        parsing.parse(parser, [["a"], []])
    with pytest.raises(InputError, match="'a b'"):
        parsing.parse(parser, [["a b"]])


def test_limit_views_and_what_is_no_parser(tiny_parser: Path, tiny_checkpoint: Path) -> None:
    parser = parsing.load_parser(tiny_parser, "cpu")
    most: set[int] = set()
    parser.translate(["Mary ran"], 1, progress=lambda _, steps: most.add(steps))
    assert most == {len(parser.read("Mary ran").ids) + 300}
    parser = Translator.load(tiny_parser, "cpu")
    trace = parser.trace("The cat sees a dog .", beam_size=3)
    assert trace.tgt_tokens[1].startswith("▁⟨") and parser.forcing_gap(trace) < 1e-5
    assert not parsing.is_parser(Translator.load(tiny_checkpoint, "cpu"))
    with pytest.raises(CheckpointError, match="does not write trees"):
        parsing.load_parser(tiny_checkpoint, "cpu")


def test_new_symbols_and_bad_text(parser_folder: Path, treebank: Path, tmp_path: Path) -> None:
    recipe = Recipe.load(str(treebank / "recipe.toml"))
    training = dataclasses.replace(recipe.training, init=str(parser_folder), grow=True)
    recipe = dataclasses.replace(recipe, training=training)
    before = load_checkpoint(parser_folder)
    corpus = Corpus((("A dog runs .", "⟨FRAG ·DT A ·NN dog ·VBZ runs ·. . ⟩"),))
    tokenizer = make_tokenizer(recipe, corpus, tmp_path / "tokenizer.model")
    assert tokenizer.pieces == (*before.tokenizer.pieces, "▁⟨FRAG")
    assert make_tokenizer(recipe, corpus, tmp_path / "tokenizer.model").pieces == tokenizer.pieces
    config = before.config.replace(vocab_size=tokenizer.vocab_size)
    was = before.model.state_dict()
    for name, tensor in grown(before, config, tokenizer).items():
        assert torch.allclose(tensor[: len(was[name])], was[name].float()), name
    assert tokenizer.vocab_size == before.config.vocab_size + 1
    with pytest.raises(DataError, match="tgt to 'tree', not 'de'"):
        load_corpus(DataRecipe(("gum",)), treebank)
    (tmp_path / "gum").mkdir()
    (tmp_path / "gum" / "train.ptb").write_text("(S (NN a))\n\n(S (NN a)\n")
    with pytest.raises(DataError, match="line 3: 1 open brackets"):
        gum(tmp_path / "gum")


def test_the_command(tiny_parser: Path, treebank: Path, tmp_path: Path, command: Command) -> None:
    start = ["parse", "--checkpoint", tiny_parser, "--device", "cpu", "--beam", 2]
    tree = read_tree(command(*start, "--raw", "The cat (a dog) ran.").out)
    assert (tree.label, tree.words) == ("ROOT", ["The", "cat", "(", "a", "dog", ")", "ran", "."])
    gold = treebank / "gum" / "dev.ptb"
    results = json.loads(command(*start, "--gold", gold, "--json").out)
    assert results["sentences"] == 8 and 0 < results["f1"] < 100
    assert results["repaired"] == 0 and results["beam_size"] == 2
    # The sentences are of the kinds that the grammar was read off; a right-branching tree is not.
    others = results["parsing_baselines"]
    assert others["PCFG"]["f1"] == 100 and 0 < others["right-branching"]["f1"] < 60
    assert others["PCFG"]["measured"].items() >= {"model": "", "setting": "given the tags"}.items()
    shutil.copy(gold, tmp_path / "alone.ptb")
    out = command(*start, "--gold", tmp_path / "alone.ptb").out
    assert "f1 of right-branching" in out and "PCFG" not in out
    pairs = command(*start, "--pairs", "The old house", "Mary ran to the tree .").out.splitlines()
    for source, written in (line.split("\t") for line in pairs):
        assert rebuild(written.split(), source.split()).repairs == ()
    assert len(pairs) == 2
    for wrong, why in ((["--json", "a"], "needs --gold"), (["--gold", gold, "a"], "its own")):
        assert why in command(*start, *wrong).refused


@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_bracket_has_the_row_that_wrote_it(tiny_parser: Path, beam_size: int) -> None:
    parser = Translator.load(tiny_parser, "cpu")
    for text in ("The cat sees a dog .", "house ( Mary", "Yes", "unheardof the the the old tree"):
        words = text.split()
        trace = parser.trace(parsing.source_text(words), beam_size=beam_size, max_length=60)
        reading = read_parse(trace, words, parser.tokenizer)
        (alone_parse,) = parsing.parse(parser, [words], beam_size, max_length=60)
        assert str(reading.parse) == str(alone_parse)
        assert [words[node.first] for node in reading.nodes if node.is_word] == words
        for node in reading.nodes:
            around = reading.nodes[node.parent]
            assert node.parent == -1 or around.first <= node.first < node.end <= around.end
            if node.row is not None:
                mark = "·" if node.is_word else f"⟨{node.label}"
                assert trace.predicted_tokens[node.row].startswith(f"▁{mark}")
        stack, both = [], dict[int, float]()  # a phrase's two brackets, by the row of the first
        for row, token in enumerate(trace.predicted_tokens[: trace.n_words]):
            if token.startswith("▁⟨"):
                stack.append(row)
            elif token == "▁⟩" and stack:
                opened = stack.pop()
                both[opened] = trace.log_probs[opened] + trace.log_probs[row]
        alone = dict(enumerate(trace.log_probs))
        expected = [
            (alone if node.is_word else both).get(-1 if node.row is None else node.row, np.nan)
            for node in reading.nodes
        ]
        found = confidences(reading, trace)
        assert np.allclose(found, expected, equal_nan=True)
        shares = calibrated(np.sort(found[~np.isnan(found)]))  # in the same order, never certain
        assert (np.diff(shares) >= 0).all() and shares[0] > 0 and shares[-1] < 1
        assert (np.isfinite(expected).sum() > len(words)) == trace.complete
        assert reading.word_of[-1] == -1 and max(reading.word_of) == len(words) - 1


def test_publishing_scores_the_parser_and_its_baselines(
    parser_folder: Path, tiny_parser: Path, treebank: Path, tmp_path: Path
) -> None:
    out = tmp_path / "published"
    command = ["publish", str(parser_folder), "--data", str(treebank), "--out", str(out)]
    assert main([*command, "--baseline", "random weights", str(tiny_parser)]) == 0
    parser = Translator.load(out, "cpu")
    assert (parser.decoding.beam_size, parser.decoding.alpha) == (4, 0.3)
    metrics, card = load_checkpoint(out).metrics, (out / "README.md").read_text()
    text = treebank / "gum" / "dev.ptb"
    table = summary_table([inspect_entry(out)])
    stamps = []
    for beam, record in ((21, "parsing"), (4, "parsing_baselines")):
        scored = parsing.evaluate(parsing.load_parser(out, "cpu"), text, beam)
        found = metrics[record] if beam == 21 else metrics[record]["this model"]
        stamps.append(found["measured"])
        assert found == scored | {"measured": stamps[-1]}
        assert stamps[-1]["setting"] == f"beam {beam}, alpha 0.3"
        row = f"| beam {beam}, alpha 0.3 | {scored['f1']:.1f} | {scored['precision']:.1f} |"
        assert f"| this model {row}" in card
        assert (
            f"| beam {beam}, alpha 0.3 | GUM, English trees: labelled F1 {scored['f1']:.1f} |"
            in table
        )
    stamps.append(metrics["parsing_baselines"]["random weights"]["measured"])
    assert len({stamp["model"] for stamp in stamps}) == 2
    assert {stamp["sha256"] for stamp in stamps} == {digest(text.read_bytes())}
    assert "| random weights | beam 4, alpha 0.3 |" in card in card
    for name, values in parsing.baselines(text).items():
        assert f"| {name} | given the tags | {values['f1']:.1f} | {values['precision']:.1f}" in card
    with pytest.raises(ConfigError, match="a parser is scored by"):
        measure(out, Measuring(treebank))
