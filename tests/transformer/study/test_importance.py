"""Importance: slopes of gates, single removals, BLEU, an order, on models of one stack and two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from itertools import chain
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
import torch

from tests.random_stacks import SHAPES, random_stack
from tests.tiny_models import SENTENCES, random_model
from transformer.config import ModelConfig
from transformer.errors import InputError
from transformer.hooks import HeadGates
from transformer.measures.heads import largest_weights
from transformer.one_stack.config import Task
from transformer.one_stack.files import mask_id
from transformer.one_stack.tracer import StackModel
from transformer.search.request import excluded
from transformer.study.importance import (
    ByKind,
    Model,
    agreement,
    importance,
    predicted,
    readings,
)
from transformer.text.tokenizer import Tokenizer
from transformer.trace.removals import heads_of
from transformer.translator import Translator
from transformer.types import AttentionKind, Floats

ENGLISH, GERMAN = SENTENCES[::2], SENTENCES[1::2]
TWO_STACKS = {
    "pre-norm, relative": {"norm": "pre", "positions": "relative", "n_decoder_heads": 2},
    "no output bias": {"norm": "post", "output_bias": False, "renormalise": True},
}


@pytest.fixture(
    scope="module", params=[*TWO_STACKS, "2017 continue", "later fill", "later translate"]
)
def model(
    request: pytest.FixtureRequest, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> Model:
    if request.param in TWO_STACKS:
        config = tiny_config.replace(**TWO_STACKS[request.param])
        return Translator(random_model(config), tiny_tokenizer, device="cpu")
    shape, _, task = request.param.partition(" ")
    named: Task = task
    stack = random_stack(named, tiny_config.replace(**SHAPES[shape]), tiny_tokenizer)
    return StackModel(*stack, device="cpu", name=task)


def loss(model: Model, factors: dict[tuple[AttentionKind, int, int], float]) -> list[float]:
    """The loss of each text with some gates, from the logits of a pass of its own."""
    found, pad = [], model.model.config.pad_id
    shapes = model.model.config.head_shapes
    tables = {kind: torch.ones(shape) for kind, shape in shapes.items()}
    for (kind, layer, head), factor in factors.items():
        tables[kind][layer, head] = factor
    precise = deepcopy(model.model).double()
    for text in chain.from_iterable(readings(model, ENGLISH[:3], GERMAN[:3])):
        logits = precise(
            torch.tensor([text.src_ids], dtype=torch.long), torch.tensor([text.tgt_ids]),
            hooks=HeadGates(**tables),
        )[0]  # fmt: skip
        logits[:, list(banned(model))] = -math.inf
        rows = logits.log_softmax(-1)
        values = [
            -float(rows[at, right]) for at, right in enumerate(text.predicted_ids) if right != pad
        ]
        found.append(sum(values) / len(values))
    return found


def banned(model: Model) -> tuple[int, ...]:
    return excluded(model.config) if isinstance(model, Translator) else ()


def measured(model: Model, *names: str) -> dict[str, ByKind]:
    return dict(importance(model, ENGLISH[:3], GERMAN[:3], wanted=names))  # type: ignore[arg-type]


def test_slopes_are_finite_differences_of_gates(model: Model) -> None:
    found, step = measured(model, "gradient")["gradient"], 1e-4
    for head in heads_of(model.model.config.head_shapes)[::2]:
        more, less = (loss(model, {head: 1 + sign * step}) for sign in (1, -1))
        expected = np.mean([abs(a - b) / (2 * step) for a, b in zip(more, less, strict=True)])
        assert found[head.kind][head.layer, head.head] == pytest.approx(
            expected, rel=2e-3, abs=1e-5
        )


def test_a_removal_is_a_pass_without_the_head(model: Model) -> None:
    found = measured(model, "removal")["removal"]
    pad = model.model.config.pad_id
    counts = [
        sum(each != pad for each in text.predicted_ids)
        for text in chain.from_iterable(readings(model, ENGLISH[:3], GERMAN[:3]))
    ]
    before = np.dot(loss(model, {}), counts)
    for head in heads_of(model.model.config.head_shapes)[::2]:
        lost = (np.dot(loss(model, {head: 0.0}), counts) - before) / sum(counts)
        assert found[head.kind][head.layer, head.head] == pytest.approx(lost, abs=1e-4)


def test_sharpness_is_the_largest_weight_of_a_query(tiny_translator: Translator) -> None:
    model = tiny_translator
    sums: dict[AttentionKind, list[Floats]] = {kind: [] for kind in model.kinds}
    for source, target in zip(ENGLISH[:3], GERMAN[:3], strict=True):
        trace = model.trace(source, target)
        for kind, rows in sums.items():
            maps = trace.attention(kind)
            rows += [largest_weights(maps, row) for row in range(maps.shape[2])]
    found = measured(model, "sharpness")["sharpness"]
    for kind, rows in sums.items():
        np.testing.assert_allclose(found[kind], np.mean(rows, axis=0), rtol=1e-4)


def test_the_order_takes_every_head_once_and_the_least_harmful_first(model: Model) -> None:
    found = measured(model, "order")
    if not isinstance(model, Translator):
        assert not found
        return
    places = np.concatenate([each.ravel() for each in found["order"].values()])
    heads = heads_of(model.model.config.head_shapes)
    assert sorted(places) == list(range(1, len(heads) + 1))
    first = heads[int(places.argmin())]
    sums = []
    for head in heads:
        gates = HeadGates.of(model.config, {head: 0.0})
        sums.append(sum(
            float(predicted(model.model, text, gates, excluded=banned(model)).sum())
            for text in chain.from_iterable(readings(model, ENGLISH[:3], GERMAN[:3]))
        ))  # fmt: skip
    assert first == heads[int(np.argmax(sums))]


def test_bleu_is_lost_by_translating_without_the_head(tiny_translator: Translator) -> None:
    from sacrebleu.metrics.bleu import BLEU

    def measure(found: Sequence[str], references: Sequence[str]) -> float:
        return float(BLEU().corpus_score(list(found), [list(references)]).score)

    def bleu(model: Translator) -> float:
        return measure([model.translate([each], 1)[0].text for each in ENGLISH], GERMAN)

    seen: list[tuple[int, int]] = []
    edited, most, alive = Translator.edited, 0, WeakSet[Translator]()

    def counted(*asked: Any) -> Translator:
        nonlocal most
        alive.add(model := edited(*asked))
        most = max(most, len(alive))
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "edited", counted)
        ((_, found),) = importance(
            tiny_translator,
            ENGLISH,
            GERMAN,
            wanted=["bleu"],
            report=lambda *step: seen.append(step),
        )
    assert most <= 2  # each prepares weights of its own
    whole = bleu(tiny_translator)
    for head in heads_of(tiny_translator.model.config.head_shapes)[::5]:
        lost = whole - bleu(tiny_translator.edited(head.off))
        assert found[head.kind][head.layer, head.head] == pytest.approx(lost, abs=1e-3)
    assert seen[-1][0] == seen[-1][1] and seen == sorted(seen)


def test_without_references_there_is_no_bleu(tiny_translator: Translator) -> None:
    names = [name for name, _ in importance(tiny_translator, ENGLISH[:1])]
    assert names == ["gradient", "removal", "order", "sharpness"]


def test_sentences_that_cannot_be_read_are_left_out(tiny_translator: Translator) -> None:
    lengths = sorted(len(tiny_translator.tokenize(each).ids) for each in ENGLISH)
    few = Translator(
        tiny_translator.model, tiny_translator.tokenizer, device="cpu", max_tokens=lengths[-1]
    )
    short = [each for each in ENGLISH if len(few.tokenizer.tokenize(each).ids) < lengths[-1]]
    mixed = dict(importance(few, ["", *ENGLISH, "  "], wanted=["removal"]))
    alone = dict(importance(few, short, wanted=["removal"]))
    assert 0 < len(short) < len(ENGLISH)
    np.testing.assert_array_equal(mixed["removal"]["cross"], alone["removal"]["cross"])
    with pytest.raises(InputError, match="none of these sentences"):
        list(importance(few, ["", " "]))


@pytest.mark.parametrize("task", ["fill", "continue", "translate"])
def test_every_token_of_a_text_is_predicted_once(
    task: Task, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> None:
    model = StackModel(*random_stack(task, tiny_config, tiny_tokenizer), device="cpu", name=task)
    pad, bos, eos = 0, 1, 2
    (texts,) = readings(model, [ENGLISH[0]], [GERMAN[0]])
    right = [[each for each in text.predicted_ids if each != pad] for text in texts]
    source = list(tiny_tokenizer.tokenize(ENGLISH[0]).ids)
    if task == "fill":
        assert sorted(chain.from_iterable(right)) == sorted(source)
        hidden = mask_id(model.tokenizer)
        for text in texts:
            pairs = list(zip(text.tgt_ids, text.predicted_ids, strict=True))
            assert all((given == hidden) == (wanted != pad) for given, wanted in pairs)
        return
    (whole,) = right
    target = list(tiny_tokenizer.tokenize(GERMAN[0]).ids)
    assert whole == (source if task == "continue" else [*target, eos])
    assert task == "continue" or texts[0].tgt_ids[len(source) + 1] == bos


def test_agreement_is_over_all_kinds_together() -> None:
    one: ByKind = {"cross": np.array([[1.0, 2.0]]), "encoder_self": np.array([[3.0], [4.0]])}
    other = {kind: -each for kind, each in one.items()}
    found = agreement({"a": one, "b": other, "c": {kind: each * 0 for kind, each in one.items()}})
    assert found["a", "b"] == pytest.approx(-1) and math.isnan(found["a", "c"])
