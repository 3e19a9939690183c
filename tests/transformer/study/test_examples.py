import math
import unicodedata
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.random_stacks import SHAPES, random_stack
from tests.tiny_models import SENTENCES, random_model
from transformer.config import ModelConfig
from transformer.hooks import HeadGates
from transformer.measures.heads import largest_weights, rank_correlation
from transformer.models.one_stack.config import Task
from transformer.models.one_stack.model import mask_id
from transformer.models.one_stack.tracer import StackModel
from transformer.search.request import excluded
from transformer.study.corpus import Sentence
from transformer.study.examples import OFS, Example, Look, Term, Where, examples, pairs_of
from transformer.study.importance import ByKind, Model, importance, predicted, readings
from transformer.study.records import Looks, Role, Study
from transformer.study.statistics import agreement
from transformer.text.tokenizer import Tokenizer
from transformer.trace.removals import Head, heads_of
from transformer.translator import Translator
from transformer.types import AttentionKind, Floats, InputError

KEPT = [
    Sentence("a", ("The", "old", "cat", "sat", "."), ("DET", "ADJ", "NOUN", "VERB", "PUNCT"),
         (2, 2, 3, -1, 3), ("det", "amod", "nsubj", "root", "punct"), (-1,) * 5,
         ("Die", "Katze", "saß."), "The old cat sat."),
    Sentence("a", ("It", "ran"), ("PRON", "VERB"), (1, -1), ("nsubj", "root"), (-1, -1),
         ("Sie", "rannte", "ja"), "It ran"),
    Sentence("b", ("She", "saw", "the", "cat", "!"), ("PRON", "VERB", "DET", "NOUN", "PUNCT"),
         (1, -1, 3, 1, 1), ("nsubj", "root", "det", "obj", "punct"), (-1,) * 5,
         ("Sie", "sah", "die", "Katze!"), "She saw the cat!"),
]  # fmt: skip


SIZES: dict[AttentionKind, tuple[int, int]] = {
    "encoder_self": (1, 3), "decoder_self": (2, 2), "cross": (2, 2),
}  # fmt: skip


def study_of(
    sentences: list[Sentence], seed: int, shapes: dict[AttentionKind, tuple[int, int]] = SIZES,
    weights: tuple[int, int] = (0, 4), own: bool = False,
) -> Study:  # fmt: skip
    """Return looks at random keys with weights from a range, including own weights."""
    rng, looks = np.random.default_rng(seed), {}
    for kind, shape in shapes.items():
        counts = [(len(each.queries(kind)), len(each.keys(kind))) for each in sentences]
        starts = np.cumsum([0, *(n for n, _ in counts)])
        drawn = [
            [
                rng.integers(0, max(m, 1), (*shape, n)),
                rng.integers(*(weights if m else (0, 1)), (*shape, n)),
            ]
            for n, m in counts
        ]
        empty = [np.zeros((*shape, 0))] * 2
        keys, values = (
            np.concatenate(each, -1).astype(np.uint8) for each in zip(empty, *drawn, strict=True)
        )
        selves = rng.integers(0, 100, (*shape, starts[-1])).astype(np.uint8)
        looks[kind] = Looks(
            starts, keys, values, selves if own and kind == "encoder_self" else None
        )
    heads = tuple(
        Head(kind, layer, head)
        for kind, (layers, n) in shapes.items()
        for layer in range(layers)
        for head in range(n)
    )
    return Study("m", "", "", "c", "", "", len(sentences), 0, 1, 0, "", (), heads, {},
                 tuple(sentences), looks)  # fmt: skip


@pytest.fixture(params=range(4))
def study(request: pytest.FixtureRequest) -> Study:
    return study_of(
        KEPT * 3, request.param, {"encoder_self": (1, 2), "cross": (2, 1)}, (1, 156), True
    )


def trial_of(
    name: str, study: Study, head: Head, at: int, query: int, wanted: int | None
) -> tuple[bool, float, int] | None:
    """Return a look's hit, weight and key, or None if the query is not a trial."""
    sentence, looks = study.sentences[at], study.looks[head.kind]
    keys, weights = looks.of(head, at)
    words = sentence.keys(head.kind)
    key, weight, m = int(keys[query]), float(weights[query]), len(words)
    if wanted is not None:
        return key == wanted and weight > 0, weight, key
    if m < 2:
        return None
    if name == "marks":
        return unicodedata.category(words[key][0]) == "Po" and weight > 0.5, weight, key
    own, others = 0.0, m
    if looks.own is not None:
        own = float(looks.own[head.layer, head.head, looks.starts[at] + query]) / 255
        others = m - 1 if head.kind == "encoder_self" else query
    on_words = (own + others * weight, own + weight)  # most and least
    on_others = 1 - on_words[0]
    weight, key = max((on_others, -1), (own, query), (weight, key))
    if name in ("previous", "next", "same"):
        there = query + {"next": 1, "previous": -1, "same": 0}[name]
        return (key == there, weight, key) if 0 <= there < m else None
    if name == "end" or head.kind == "decoder_self":
        if on_others < 0.504 and 1 - on_words[1] > 0.499:
            return None  # of that, the study does not keep how much is on other words
        return on_others >= 0.504, weight, key
    assert name == "first"
    if query <= (0 if head.kind == "cross" else 1):
        return None
    return key == 0 and weight > 0.5, weight, key


@pytest.mark.parametrize(
    "name", ["previous", "next", "same", "first", "end", "marks", "up:det", "down:nsubj"]
)
def test_best_failed_and_random_are_those_of_a_plain_loop(study: Study, name: str) -> None:
    role = Role(name, name, "dependencies" if ":" in name else "text")
    for head in study.heads:
        if head.kind == "cross" and ":" in name:
            assert not examples(study, pairs_of(study), role, head).n, "a translation has none"
        if head.kind == "cross" and (":" in name or name in ("previous", "next", "same")):
            continue
        trials: list[tuple[int, int, bool, float, int]] = []
        for at, sentence in enumerate(study.sentences):
            keys, _ = study.looks[head.kind].of(head, at)
            wanted: dict[int, list[int]] = {}
            for child, (parent, relation) in enumerate(
                zip(sentence.parents, sentence.relations, strict=True)
            ):
                if parent >= 0 and name == f"up:{relation}":
                    wanted.setdefault(child, []).append(parent)
                if parent >= 0 and name == f"down:{relation}":
                    wanted.setdefault(parent, []).append(child)
            for query in range(len(keys)):
                for one in wanted.get(query, []) if ":" in name else [None]:
                    if found_one := trial_of(name, study, head, at, query, one):
                        trials.append((at, query, *found_one))
        found = examples(study, pairs_of(study), role, head, most=3)
        assert found.n == len(trials)
        known = {(at, query): (right, weight, key) for at, query, right, weight, key in trials}
        for each in (*found.best, *found.failed, *found.random):
            right, weight, key = known[each.sentence, each.query]
            assert (each.right, each.key) == (right, key)
            assert each.weight == pytest.approx(weight)
        for some, right in ((found.best, True), (found.failed, False)):
            sentences = {at for at, _, is_so, _, _ in trials if is_so is right}
            assert len(some) == min(3, len(sentences)) and all(each.right is right for each in some)
            assert len({each.sentence for each in some}) == len(some)
            heaviest = sorted(
                (max(w for a, _, s, w, _ in trials if a == at and s is right) for at in sentences),
                reverse=True,
            )
            assert [each.weight for each in some] == pytest.approx(heaviest[:3])
        assert len(found.random) == min(3, len({at for at, *_ in trials}))


def test_the_random_ones_depend_on_the_seed_alone(study: Study) -> None:
    role, pairs = Role("previous", "previous"), pairs_of(study)

    def drawn(seed: int) -> list[Example]:
        return examples(study, pairs, role, study.heads[0], most=4, seed=seed).random

    assert drawn(1) == drawn(1) and len({tuple(drawn(seed)) for seed in range(5)}) > 1


def test_the_first_token_of_a_decoder_is_no_word(study: Study) -> None:
    looks, head = study.looks["encoder_self"], Head("decoder_self", 0, 0)
    other = replace(study, looks={"decoder_self": looks}, heads=(head,), sentences=tuple(
        replace(each, target=each.words) for each in study.sentences
    ))  # fmt: skip
    found = examples(other, {}, Role("first", "first"), head, most=9)
    assert found.best and {each.key for each in found.best} == {-1}
    for each in (*found.best, *found.failed):
        assert trial_of("first", other, head, each.sentence, each.query, None) == (
            each.right, pytest.approx(each.weight), each.key,
        )  # fmt: skip


WORDS, TAGS, RELATIONS = (
    ("The", "the", "cat", "Cats"), ("DET", "NOUN"), ("nsubj", "nsubj:pass", "det"),
)  # fmt: skip
PIECES = {"The": ["▁The"], "the": ["▁the"], "cat": ["▁c", "at"], "Cats": ["▁C", "at", "s"]}


@st.composite
def kept(draw: st.DrawFn) -> Sentence:
    words = draw(st.lists(st.sampled_from(WORDS), max_size=5))
    target = draw(st.lists(st.sampled_from(WORDS), max_size=4))
    n = len(words) if draw(st.booleans()) else 0
    return Sentence(
        "d", tuple(words), tuple(draw(st.lists(st.sampled_from(TAGS), min_size=n, max_size=n))),
        (-1,) * n, tuple(draw(st.lists(st.sampled_from(RELATIONS), min_size=n, max_size=n))),
        target=tuple(target),
    )  # fmt: skip


def is_meant(term: Term | None, sentence: Sentence, words: tuple[str, ...], at: int) -> bool:
    if term is None:
        return True
    if term.of == "word":
        return words[at].lower() == term.value.lower()
    if term.of == "token":
        return any(term.value in (each, each[each.startswith("▁") :]) for each in PIECES[words[at]])
    column = sentence.tags if term.of == "tag" else sentence.relations
    if words is not sentence.words or not column:
        return False
    return column[at] == term.value or column[at].split(":")[0] == term.value


def by_hand(study: Study, head: Head, query: Term | None, key: Term | None) -> list[Look]:
    found = []
    for number, sentence in enumerate(study.sentences):
        queries, keys = sentence.queries(head.kind), sentence.keys(head.kind)
        places, weights = study.looks[head.kind].of(head, number)
        for at, (place, weight) in enumerate(zip(places.tolist(), weights.tolist(), strict=True)):
            if (
                weight > 0
                and is_meant(query, sentence, queries, at)
                and is_meant(key, sentence, keys, place)
            ):
                found.append(Look(number, at, place, weight))
    return found


TERMS = st.one_of(st.none(), st.builds(
    Term, st.sampled_from(OFS),
    st.sampled_from([*WORDS, *TAGS, *RELATIONS, "THE", "▁c", "at", "s", "▁", "", "nothing"]),
))  # fmt: skip


@given(st.lists(kept(), max_size=6), st.integers(0, 99), st.integers(0, 10), TERMS, TERMS)
def test_equals_loop(
    sentences: list[Sentence], seed: int, at: int, query: Term | None, key: Term | None
) -> None:
    study = study_of(sentences, seed)
    head = study.heads[at]
    answer = Where(study, lambda word: PIECES[word])(head, query, key, most=4)
    every = by_hand(study, head, query, key)
    best: dict[int, Look] = {}
    for look in sorted(every, key=lambda each: (-each.weight, each.sentence, each.query)):
        best.setdefault(look.sentence, look)
    assert answer.n_looks == len(every) and answer.n_sentences == len(best)
    expected = list(best.values())[:4]
    assert [each[:3] for each in answer.looks] == [each[:3] for each in expected]
    np.testing.assert_allclose([e.weight for e in answer.looks], [e.weight for e in expected])


def test_a_head_that_was_not_studied_is_one_line() -> None:
    where = Where(study_of([Sentence("d", ("cat", "the"))], 0))
    assert where.values("cross", "word", keys=True) == ["cat", "the"]
    with pytest.raises(InputError, match="no data on decoder self-attention layer 3, head 1"):
        where(Head("decoder_self", 2, 0))


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
    """Return the loss of each text under some gates, from separate passes."""
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
    every = importance(model, ENGLISH[:3], GERMAN[:3], names=names)  # type: ignore[arg-type]
    return {name: found for name, found, _ in every}


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
        ((_, found, _),) = importance(
            tiny_translator, ENGLISH, GERMAN, names=["bleu"], report=lambda *step: seen.append(step)
        )
    assert most <= 2  # each prepares weights of its own
    whole = bleu(tiny_translator)
    for head in heads_of(tiny_translator.model.config.head_shapes)[::5]:
        lost = whole - bleu(tiny_translator.edited(head.off))
        assert found[head.kind][head.layer, head.head] == pytest.approx(lost, abs=1e-3)
    assert seen[-1][0] == seen[-1][1] and seen == sorted(seen)


def test_without_references_there_is_no_bleu(tiny_translator: Translator) -> None:
    names = [name for name, *_ in importance(tiny_translator, ENGLISH[:1])]
    assert names == ["gradient", "removal", "order", "sharpness"]


def test_sentences_that_cannot_be_read_are_left_out(tiny_translator: Translator) -> None:
    lengths = sorted(len(tiny_translator.tokenize(each).ids) for each in ENGLISH)
    few = Translator(
        tiny_translator.model, tiny_translator.tokenizer, device="cpu", max_tokens=lengths[-1]
    )
    short = [each for each in ENGLISH if len(few.tokenizer.tokenize(each).ids) < lengths[-1]]
    ((_, mixed, noisy),) = importance(few, ["", *ENGLISH, "  "], names=["removal"])
    ((_, alone, reliability),) = importance(few, short, names=["removal"])
    assert 0 < len(short) < len(ENGLISH) and noisy == reliability
    np.testing.assert_array_equal(mixed["cross"], alone["cross"])
    with pytest.raises(InputError, match="cannot read any of these sentences"):
        list(importance(few, ["", " "]))


@pytest.mark.parametrize("task", ["fill", "continue", "translate"])
def test_tokens_are_predicted_once(
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
    assert found["a", "b"].r == pytest.approx(-1) and math.isnan(found["a", "c"].r)


def test_agreement_of_noisy_measures_is_corrected_for_their_reliability() -> None:
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=4_000), rng.normal(size=(4, 4_000))
    a, b, c, d = (np.float32(truth + each)[None] for each in noise)
    same = rank_correlation(a, b)  # of two halves: the reliability of either
    found = agreement({"a": {"cross": c}, "b": {"cross": d}}, {"a": same, "b": same})["a", "b"]
    assert found.corrected > 0.9 and found.low < found.r < found.high < 0.6
    for known in ({}, {"a": same, "b": 0.1}):  # unknown, or mostly noise
        left = agreement({"a": {"cross": c}, "b": {"cross": d}}, known)["a", "b"]
        assert math.isnan(left.corrected) and left.r == found.r


def test_reliability_is_the_correlation_of_two_halves(tiny_translator: Translator) -> None:
    def grids(sentences: list[str], targets: list[str]) -> Floats:
        ((_, found, _),) = importance(tiny_translator, sentences, targets, names=["removal"])
        return np.concatenate([grid.ravel() for grid in found.values()])

    ((_, _, found),) = importance(tiny_translator, ENGLISH, GERMAN, names=["removal"])
    half = rank_correlation(*(grids(ENGLISH[at::2], GERMAN[at::2]) for at in (0, 1)))
    assert found == pytest.approx(max(0, 2 * half / (1 + half)), abs=0.02)
