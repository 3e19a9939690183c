import itertools
import json
import random
import string
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from tests.shipped import FOLDER
from tests.transformer.conftest import Command
from transformer.attribution.edges import effects
from transformer.evaluation import alignment
from transformer.measures.pharaoh import MOST_PAIRS, read_linked, read_links, turned, written
from transformer.measures.words import (
    Row,
    alignment_error,
    links,
    source_block,
    word_maps,
    words_of,
)
from transformer.models.catalogue import open_tracer
from transformer.translator import Translator
from transformer.types import Floats, InputError


@pytest.fixture(scope="module")
def reverser() -> Translator:
    return Translator.load(FOLDER / "reverse-toy", device="cpu")


LAYER = 1  # whose two heads reverse, each one some of the letters


def test_the_heads_that_reverse_have_no_error_by_any_measure(reverser: Translator) -> None:
    draws = random.Random(3)
    texts = ["".join(draws.sample(string.ascii_lowercase, n)) for n in (3, 6, 8, 12, 16)]
    aligned = alignment.letters(texts)
    assert aligned.gold[0].sure == {(3, 1), (2, 2), (1, 3)}
    assert reverser.trace("abc").src_tokens == ("▁", *"abc", "</s>")
    grid = alignment.error_grid(reverser, aligned)
    errors = grid.errors()[:, get_args(Row).index("predicting"), LAYER]
    assert errors.shape == (4, 3)  # measures; two heads and both together
    assert errors[:, -1].tolist() == [0, 0, 0, 0]
    assert (errors[:, :2] < 0.1).all()
    effect = []
    for pair in aligned.pairs:
        trace = reverser.trace(*pair)
        values = alignment.measured_maps(reverser, trace, "effect", LAYER)
        found = links(word_maps(trace, "predicting", values, "tokens"))
        effect.append(frozenset(link for link in found if link[1]))
    assert alignment_error(effect, aligned.gold) == 0
    best = grid.best()
    assert (best.row, best.layer, best.head, best.error) == ("predicting", LAYER, None, 0)
    assert best.diagonal > 0.5 and grid.alignment_heads()[0][0] == LAYER


def test_edges_of_a_dead_head_have_no_effect(reverser: Translator) -> None:
    trace = reverser.trace("abcdef")
    dead = reverser.edited("off cross.2.2")
    same = dead.trace("abcdef", trace.text)
    assert np.abs(effects(dead.model, same, "cross", LAYER, 1)).max() < 1e-5
    for head in (0, 1):
        assert alignment.measured_maps(reverser, trace, "effect", LAYER, head).any()
        assert alignment.measured_maps(dead, same, "effect", LAYER, head).any() == (head == 0)


def test_maps_are_shares_and_words_are_sums_and_means(tiny_translator: Translator) -> None:
    trace = tiny_translator.trace("A dog runs.", "Ein Hund rennt.")
    for measure in alignment.MEASURES:
        values = alignment.measured_maps(tiny_translator, trace, measure, 2, 1)
        sums = values.sum(-1)
        assert ((np.abs(sums - 1) < 1e-5) | (sums == 0)).all(), measure
        for row in get_args(Row):
            words = words_of(trace, row)
            assert (words.sources, words.targets) == (
                ("A", "dog", "runs."),
                ("Ein", "Hund", "rennt."),
            )
            merged = word_maps(trace, row, values)
            for t, rows in enumerate(words.rows):
                for s, columns in enumerate(words.columns):
                    part = values[np.ix_(rows, columns)]
                    assert merged[t, s] == pytest.approx(part.sum() / len(rows), abs=1e-6)
    own = alignment.measured_maps(tiny_translator, trace, "weight", 2, 1)
    np.testing.assert_allclose(own, trace.cross[2, 1], atol=1e-6)
    with pytest.raises(InputError, match="layer 9; the model has layers 1 to 3"):
        alignment.measured_maps(tiny_translator, trace, "weight", 8)


def by_hand(
    model: Translator, aligned: alignment.Aligned, row: Row, layer: int, head: int
) -> float:
    found = []
    for pair in aligned.pairs:
        trace = model.trace(*pair)
        found.append(links(word_maps(trace, row)[layer, head]))
    return alignment_error(found, aligned.gold)


def test_the_best_place_is_chosen_on_one_half(tiny_translator: Translator) -> None:
    texts = ("A dog runs.", "The cat sat on the mat.", "Two men sing.", "A cat and a dog.")
    pairs = tuple((text, "Ein Hund und eine Katze rennen.") for text in texts)
    gold = tuple(read_links(line) for line in ("0-0 1-1", "1p4 0-0", "0-0 2-5 1p1", "1-3 4-1 0-2"))
    aligned = alignment.Aligned(pairs, gold)
    grid = alignment.error_grid(tiny_translator, aligned)
    halves = [alignment.Aligned(pairs[at::2], gold[at::2]) for at in (0, 1)]
    for number, row in enumerate(get_args(Row)):
        for half, some in enumerate(halves):
            expected = by_hand(tiny_translator, some, row, 1, 2)
            assert grid.errors(half)[0, number, 1, 2] == pytest.approx(expected)
    best = grid.best()
    assert best.chosen == grid.errors(0).min()
    layer_heads = -1 if best.head is None else best.head
    place = alignment.MEASURES.index(best.measure), get_args(Row).index(best.row), best.layer
    assert best.error == grid.errors(1)[place][layer_heads]
    assert best.interval[0] <= best.error <= best.interval[1]
    only = alignment.error_grid(tiny_translator, replace(aligned, partial=True), ["weight"])
    assert (only.counts[..., 1] <= grid.counts[:, :1, ..., 1]).all()
    with pytest.raises(InputError, match=r"pair 2: a link joins word 9 to word 1, but .* 6 and 6"):
        alignment.error_grid(
            tiny_translator, replace(aligned, gold=(gold[0], read_links("8-0")) * 2)
        )


def test_links_are_read_and_written() -> None:
    gold = read_links("1-1 2p3 3?1", first=1)
    assert (gold.sure, gold.possible) == ({(0, 0)}, {(0, 0), (1, 2), (2, 0)})
    assert turned(gold).possible == {(0, 0), (2, 1), (0, 2)}
    assert written(gold.possible) == "0-0 2-0 1-2"
    for line, fault in (("0-1", "counts? from 1|word 0"), ("1", "is not a link"), ("1-x", "link")):
        with pytest.raises(InputError, match=fault):
            read_links(line, first=1)


def test_a_visitors_file_is_bounded_and_its_faults_have_lines() -> None:
    rows = [*read_linked("A dog ||| Ein Hund ||| 0-0 1p1\n\nA\tEin\t0-0\r\n")]
    assert [row[:2] for row in rows] == [("A dog", "Ein Hund"), ("A", "Ein")]
    faults = {
        "A ||| B": "line 1: expected source", "\nA ||| B ||| 0-4": "line 2: a link joins word 1",
        "A ||| B ||| zero": "line 1: 'zero' is not", " \n": "no sentence pairs",
        "A ||| B ||| 0-0\n" * (MOST_PAIRS + 1): f"line {MOST_PAIRS + 1}: more than {MOST_PAIRS}",
        "A" * 20_001: "20,001 characters",
        f"{'A ' * 9_900} ||| B ||| 0-0": "line 1: more than",
    }  # fmt: skip
    for text, fault in faults.items():
        with pytest.raises(InputError, match=fault):
            list(read_linked(text))


def test_align_links_a_file(tiny_checkpoint: Path, tmp_path: Path, command: Command) -> None:
    src, tgt = tmp_path / "a.en", tmp_path / "a.de"
    src.write_text("A dog runs.\n\nA cat sat.\n")
    tgt.write_text("Ein Hund rennt.\n\nEine Katze saß.\n")
    out = {name: tmp_path / name for name in ("pharaoh", "subwords", "words")}
    place = ["--measure", "norm", "--layer", 2, "--head", 1, "--row", "reading", "--quiet"]
    files = [part for name, path in out.items() for part in (f"--{name}", path)]
    common = ["align", "--checkpoint", tiny_checkpoint, "--src", src, "--device", "cpu", *place]
    assert command(*common, "--tgt", tgt, *files).status == 0
    model = Translator.load(tiny_checkpoint, device="cpu")
    trace = model.trace("A dog runs.", "Ein Hund rennt.")
    values = alignment.measured_maps(model, trace, "norm", 1, 0)
    lines = {name: path.read_text().split("\n") for name, path in out.items()}
    assert lines["pharaoh"][0] == written(links(word_maps(trace, "reading", values)))
    expected = written(links(word_maps(trace, "reading", values, "tokens")))
    assert lines["subwords"][0] == expected and lines["pharaoh"][1] == ""
    found = json.loads(lines["words"][0])
    assert ["".join(word).replace("▁", "") for word in found["target"]] == ["Ein", "Hund", "rennt."]
    assert [*itertools.chain(*found["source"])] == list(trace.src_tokens[:-1])
    own = command(*common).out.split("\n")
    assert len(own) == 4 and own[1] == "" and own[0]
    bad = {"--measure x": "--measure x; expected weight", "--layer 9": "line 1: layer 9",
           "--units x": "--units x", "--write": "--write needs --data"}  # fmt: skip
    for options, fault in bad.items():
        assert fault in command(*common, "--tgt", tgt, *options.split()).err


def test_a_one_stack_translator_has_weights_only() -> None:
    stack = open_tracer(FOLDER / "decoder-only-en-de", "cpu")
    trace = stack.trace("A dog runs.", "Ein Hund rennt.", top_k=1)
    block: Floats = source_block(trace).weights
    values = alignment.measured_maps(stack, trace, "weight", 1, 0)
    np.testing.assert_allclose(values.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(values * block[1, 0].sum(-1, keepdims=True), block[1, 0], atol=1e-5)
    with pytest.raises(InputError, match=r"only encoder-decoders .* 'norm'"):
        alignment.measured_maps(stack, trace, "norm", 1, 0)
