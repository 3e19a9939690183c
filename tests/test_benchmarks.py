import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import gpu, train, views
from benchmarks.random_marian import BASE, TINY, sources
from benchmarks.translate import Times, ratios
from benchmarks.turns import Figure, report
from recipes.tools import silver_trees
from transformer.training.data import Corpus
from transformer.trees.score import Score, brackets, score
from transformer.trees.tree import Tree, read_tree


def test_figures_stand_beside_their_aims(capsys: pytest.CaptureFixture[str]) -> None:
    report([Figure("a", 1.25, 1.5, "x"), Figure("b", 3, 2, "s"), Figure("c", 7)], as_json=True)
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        "| a | 1.25 x | at most 1.5: reached |", "| b | 3 s | at most 2: missed |", "| c | 7 |  |",
    ]  # fmt: skip
    assert json.loads(last) == {"a": 1.25, "b": 3, "c": 7}


def test_inputs_are_as_said_and_the_same_every_time() -> None:
    sentences = sources(TINY, 30, 20)
    assert len(sentences) == 30 and len(sentences[0]) == 20
    assert all(10 <= len(each) <= 30 and each[-1] == 0 for each in sentences)
    assert all(2 <= token < TINY.vocab_size - 1 for each in sentences for token in each[:-1])
    assert sentences == sources(TINY, 30, 20)


def test_figures_are_their_median_by_ours() -> None:
    times: Times = {
        ("headlight", "beam 4, recorded"): [0.1, 0.2, 9.0],
        ("transformers", "beam 4, recorded"): [0.7, 0.6, 0.1],
        ("ctranslate2", "beam 4"): [0.3, 0.3, 0.3],
        ("headlight", "trace"): [0.2],
        ("transformers", "trace"): [0.1],
    }
    assert {each.name: each.value for each in ratios(times)} == {
        "recorded_beam4_vs_transformers": 3.0,
        "recorded_beam4_vs_ctranslate2": 1.5,
        "trace_vs_transformers": 0.5,
    }


@pytest.mark.filterwarnings("ignore")  # of the other libraries
@pytest.mark.parametrize("name", ["Headlight", *train.OTHERS])
def test_every_library_trains(name: str, tmp_path: Path) -> None:
    if name in train.OTHERS:
        for module in ("accelerate", name.lower()):
            pytest.importorskip(module)
    corpus = Corpus(tuple(("a dog runs " * n, "ein Hund rennt " * n) for n in range(1, 30)))
    work = train.prepare(train.recipe_of("tiny", "pairs"), corpus, tmp_path)
    update = train.CONTESTANTS[name](work)
    assert update is not None
    seconds, processor, loss = update([work.batch(0), work.batch(1)])
    assert seconds > 0 and processor > 0 and 1 < loss < 100


def test_training_is_compared_within_rounds() -> None:
    rates = {
        "Headlight": [(300.0, 150.0), (900.0, 150.0), (310.0, 150.0)],
        "transformers": [(200.0, 50.0), (300.0, 100.0), (155.0, 50.0)],
        "JoeyNMT": [(100.0, 50.0), (300.0, 50.0), (300.0, 25.0)],
    }
    assert [figure.value for figure in train.ratios(rates)] == [2.0, 3.0, 3.0, 3.0]


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore")  # BertViz leaves a file open
def test_all_maps_are_drawn_by_both(capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("bertviz", "IPython"):
        pytest.importorskip(module)
    try:
        views.fetch_libraries()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"BertViz's libraries: {error}")
    with ThreadPoolExecutor(1) as alone:  # another Playwright may run in this thread
        result = alone.submit(views.race, 8, layers=1, heads=2, repeats=1, timeout=60).result()
    for visit in result.values():
        assert not visit.failure and visit.sent > 1_000 and visit.first > 0 and visit.change > 0


def test_a_drawing_that_came_too_late_is_the_limit() -> None:
    ours = views.Result(100_000, 1.0, 0.1)
    late = views.Result(9_000_000, 120, 120, "> 120 s")
    lines = views.table({512: {"bertviz": late, "headlight": ours}}).splitlines()
    assert lines[2:] == [
        "| 512 | BertViz | 9.00 MB | > 120 s | > 120 s |",
        "|  | Headlight | 0.10 MB | 1.00 s | 0.10 s |",
        "| | | **90 x** | **>120 x** | **>1200 x** |",
    ]


def gpu_figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    gpu.main([*arguments, "--tiny", "--device", "cpu"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[0] == "{"]
    assert not [line for line in lines if "failed" in line["figure"]]
    return lines


def test_all_parts_of_a_gpu_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ("--only", "same", "decoding", "training", "--out", str(tmp_path))
    lines = gpu_figures(capsys, *only, "--checkpoint", "checkpoints/reverse-toy")
    assert [line["passed"] for line in lines if "passed" in line] == [True] * 4
    assert sum("ms" in line and "steps" in line for line in lines) == 6
    assert [line["figure"] for line in lines if "tflops" in line] == ["eager", "eager, repeatable"]
    assert len((tmp_path / "figures.jsonl").read_text().splitlines()) == len(lines)


def test_operations_and_weights_are_counted_by_hand() -> None:
    config = gpu.ModelConfig(
        vocab_size=10, d_model=4, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1
    )
    # Source of 2 tokens, target of 3; a multiplication and an addition are two.
    encoder = 2 * (4 * 16 + 2 * 32) + 2 * 4 * 2 * 2
    decoder = 3 * (6 * 16 + 2 * 32) + 2 * (2 * 16) + 2 * 4 * (1 + 2 + 3) + 2 * 4 * 3 * 2
    assert gpu.operations(config, np.array([2]), np.array([3])) == 6 * (encoder + decoder + 3 * 40)
    # A step reads q, k, v, o; q, o; two of the feed-forward; the output.
    per_layer = 4 * 512**2 + 2 * 512**2 + 2 * 512 * 2048
    assert BASE.step_weights == 6 * per_layer + 32_000 * 512


def test_cuts_of_a_chart_gain_most() -> None:
    def most(gains: Any, start: int, end: int) -> float:
        cuts = range(start + 1, end)
        inside = max((most(gains, start, c) + most(gains, c, end) for c in cuts), default=0)
        return float(gains[start, end]) + inside

    def of(gains: Any, cuts: Any, start: int, end: int) -> float:
        cut = cuts[start, end]
        parts = ((start, cut), (cut, end)) if end > start + 1 else ()
        return float(gains[start, end]) + sum(of(gains, cuts, *part) for part in parts)

    for n in range(1, 8):
        gains = np.random.default_rng(n).random((3, n + 1, n + 1), np.float32)
        for one, cuts in zip(gains, silver_trees.best_cuts(gains), strict=True):
            assert of(one, cuts, 0, n) == pytest.approx(most(one, 0, n), rel=1e-5)


def test_silver_trees_are_learned_and_phrases_change_places(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    trees = [
        read_tree(f"(S (NP (NNP {name})) (VP (VBZ sees) (NP (DT the) (NN {noun}))) (. .))")
        for name in ("Ann", "Bob") for noun in ("cat", "dog", "hen")
    ]  # fmt: skip
    trees += [read_tree(f"(S (VP (VB {verb})) (. !))") for verb in ("Go", "Run", "See")]
    words = sorted({word.lower() for tree in trees for word in tree.words})
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    torch.manual_seed(0)
    shape = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=40, intermediate_size=48, **shape)
    transformers.BertModel(config).save_pretrained(tmp_path)
    chart = silver_trees.ChartParser(tmp_path, trees)
    silver_trees.train(chart, trees, 150)
    found = chart.parse([tree.words for tree in trees])
    assert [each.words for each in found] == [tree.words for tree in trees]
    assert sum(map(score, trees, found), Score()).f1 > 0.95
    for tree in trees:
        spans = silver_trees.chains(tree)
        listed = [(label, *span) for span, labels in spans.items() for label in labels]
        assert sorted(listed) == sorted(brackets(tree, [True] * len(tree.words)))
    long = Tree("S", (*trees[0].children, *trees[1].children, *trees[2].children))
    made = list(silver_trees.swapped([long, trees[0]], [[long], trees[3:6]], 200))
    assert len(made) == 200 and len({str(each) for each in made}) > 20
    assert {each.words[0] for each in made} == {"Ann"}  # the first phrase stays
    assert all(str(each).count("(VP (VBZ sees)") == 3 for each in made)
    assert {noun for each in made for noun in each.words[3::5]} == {"cat", "dog", "hen"}
