import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.shipped import FOLDER
from tests.tiny_models import SENTENCES, random_model, uneven_model
from transformer.checkpoint.folder import load_checkpoint
from transformer.config import ModelConfig
from transformer.execution import Executions, Fast, Reference
from transformer.hooks import HeadGates, Record, Replace, Site, matching
from transformer.search import request
from transformer.text.tokenizer import Tokenizer
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, InputError

SENTENCE, TARGET = "A dog runs across the green grass.", "Ein Hund rennt."


@pytest.fixture(params=["all", "none"])
def translator(
    request: pytest.FixtureRequest, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> Translator:
    """Shipped and random models with tied and untied embeddings; tests may change them."""
    if request.param == "shipped":
        return Translator.from_checkpoint(load_checkpoint(FOLDER / "everyday-en-de"), device="cpu")
    model = random_model(tiny_config.replace(tie_embeddings=request.param))
    return Translator(model, tiny_tokenizer, device="cpu")


def assert_same(found: Trace, expected: Trace) -> None:
    assert found.predicted_ids == expected.predicted_ids
    for name in (*ATTENTION_KINDS, "log_probs"):
        # Sums in another order differ by the size of their terms.
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-5)


def reference(translator: Translator, **options: object) -> Trace:
    """Run the model itself, with hooks that do nothing."""
    return translator.trace(SENTENCE, hooks=Record(matching(name="input")), **options)


@pytest.mark.parametrize("translator", ["shipped", "all", "decoder", "none"], indirect=True)
@pytest.mark.parametrize("options", [{"target": TARGET}, {"beam_size": 3}], ids=str)
def test_both_executions_agree(translator: Translator, options: dict[str, object]) -> None:
    assert_same(reference(translator, **options), translator.trace(SENTENCE, **options))
    (translation,) = translator.translate([SENTENCE], 3, hooks=Record(matching(name="input")))
    assert translation.ids == translator.translate([SENTENCE], 3)[0].ids


def test_a_trace_shows_replaced_weights(translator: Translator) -> None:
    site = Site("decoder", 0, "cross", "weights")
    uniform = Replace({site: lambda w: torch.full_like(w, 1 / w.size(-1))})
    for options in ({"target": TARGET}, {"beam_size": 2}):
        trace = translator.trace(SENTENCE, hooks=uniform, **options)
        np.testing.assert_allclose(trace.cross[0], 1 / len(trace.src_tokens), rtol=1e-6)
        assert translator.forcing_gap(trace, hooks=uniform) < 2e-5
        assert translator.forcing_gap(trace) > 1e-3
    (many,) = translator.traces([SENTENCE], 2, hooks=uniform)
    assert_same(many, trace)


def check_effect(translator: Translator, before: Trace) -> Trace:
    after = translator.trace(SENTENCE, target=TARGET)
    assert not np.array_equal(after.log_probs, before.log_probs)
    assert_same(after, reference(translator, target=TARGET))
    return after


def test_every_weight_written_to_takes_effect(translator: Translator) -> None:
    trace = translator.trace(SENTENCE, target=TARGET)
    for weight in translator.model.parameters():
        with torch.no_grad():
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        trace = check_effect(translator, trace)


def test_weights_and_modules_exchanged_take_effect(translator: Translator) -> None:
    model, trace = translator.model, translator.trace(SENTENCE, target=TARGET)
    state = {name: value * 1.1 for name, value in model.state_dict().items()}
    attention, feed = model.decoder[0].self_attention, model.encoder[1].feed_forward
    for exchange in (
        lambda: model.load_state_dict(state),
        lambda: setattr(attention.w_v, "weight", nn.Parameter(attention.w_v.weight * -1)),
        lambda: setattr(feed.w_1.weight, "data", feed.w_1.weight.data * 2),
        # PyTorch does not count this one.
        lambda: (feed.w_1.weight.data.mul_(2), translator.repack()),
        lambda: model.encoder.__setitem__(0, model.encoder[1]),
        lambda: setattr(feed, "forward", lambda x, tap: torch.zeros_like(x)),
        # Of a class that the packed execution does not know.
        lambda: setattr(attention, "w_q", nn.Sequential(attention.w_q, nn.Tanh())),
        lambda: setattr(attention, "w_q", attention.w_q[0]),
        lambda: nn.utils.parametrize.register_parametrization(attention.w_q, "weight", nn.Tanh()),
        lambda: nn.utils.parametrize.remove_parametrizations(attention.w_q, "weight", False),
    ):
        exchange()
        trace = check_effect(translator, trace)


def test_forward_hooks_fire(translator: Translator) -> None:
    plain = translator.trace(SENTENCE, target=TARGET)
    module = translator.model.decoder[0].cross_attention
    shapes: list[torch.Size] = []

    def negated(module: nn.Module, given: object, output: torch.Tensor) -> torch.Tensor:
        shapes.append(output.shape)
        return -output

    handle = module.register_forward_hook(negated)
    hooked = translator.trace(SENTENCE, target=TARGET)
    assert shapes == [(1, len(hooked.tgt_tokens), translator.config.d_model)]
    assert not np.allclose(hooked.log_probs, plain.log_probs)
    translator.translate([SENTENCE], beam_size=1, max_length=2)
    fired = len(shapes)
    assert fired > 1
    handle.remove()
    assert_same(translator.trace(SENTENCE, target=TARGET), plain)
    assert len(shapes) == fired
    types: list[type] = []  # a global hook
    handle = nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: types.append(type(module))
    )
    try:
        translator.translate([SENTENCE], beam_size=1, max_length=2)
    finally:
        handle.remove()
    assert nn.Linear in types


def test_nothing_is_packed_twice_without_a_reason(translator: Translator) -> None:
    executions = Executions(translator.model)
    first = executions.choose()
    assert isinstance(first, Fast)
    assert executions.choose() is first
    assert isinstance(executions.choose(HeadGates()), Reference)
    with torch.no_grad():
        translator.model.generator.weight.mul_(2)
    second = executions.choose()
    assert isinstance(second, Fast) and second is not first and executions.choose() is second


WORDS = ("The", "cat", "sat", "on", "the", "mat", "because", "it", "was", "tired")


@settings(max_examples=4)
@given(
    lengths=st.lists(st.integers(0, len(WORDS)), min_size=2, max_size=4),
    seed=st.integers(0, 99), beam=st.sampled_from([1, 2, 5]), tokens=st.sampled_from([1, 60, 6000]),
)  # fmt: skip
def test_values_by_row_follow_their_sentences(
    lengths: list[int], seed: int, beam: int, tokens: int, tiny_translator: Translator
) -> None:
    translator, rng = tiny_translator, torch.Generator().manual_seed(seed)
    config, n = translator.config, len(lengths)
    sentences = [" ".join(WORDS[:length]) for length in lengths]

    def table(layers: int, heads: int) -> Tensor:
        return torch.rand(layers, n, heads, generator=rng).round(decimals=1) * 1.5

    tables = {
        "encoder_self": table(config.n_encoder_layers, config.n_heads),
        "decoder_self": table(config.n_decoder_layers, config.decoder_heads),
        "cross": table(config.n_decoder_layers, config.decoder_heads),
    }
    hooks = HeadGates(**tables)
    alone = [
        HeadGates(**{kind: table[:, [at]] for kind, table in tables.items()}) for at in range(n)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request, "BATCH_TOKENS", tokens)
        found = translator.translate(sentences, beam, hooks=hooks, max_length=8)
        for sentence, done, own in zip(sentences, found, alone, strict=True):
            (one,) = translator.translate([sentence], beam, hooks=own, max_length=8)
            assert done.ids == one.ids and done.score == pytest.approx(one.score, abs=1e-4)
        if all(lengths):
            traces = translator.traces(sentences, beam, hooks=hooks, max_length=8)
            for sentence, together, own in zip(sentences, traces, alone, strict=True):
                trace = translator.trace(sentence, beam_size=beam, hooks=own, max_length=8)
                assert_same(together, trace)
                assert translator.forcing_gap(trace, hooks=own) < 1e-4


def test_replaced_values_follow_their_sentences(tiny_translator: Translator) -> None:
    site, size = Site("encoder", None, "final", "hidden"), 5
    sentences = [[4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    record = Record([site])
    plain = tiny_translator.translate(sentences, 3, hooks=record)
    assert record.sentences[site] == [(0, 1, 2)] and record[site].shape[:2] == (3, size)
    turned = Replace({site: record[site][[1, 2, 0]].numpy()})
    found = tiny_translator.translate(sentences, 3, hooks=turned)
    assert [done.ids for done in found] == [plain[at].ids for at in (1, 2, 0)]


def test_a_record_says_whose_rows_it_holds(tiny_translator: Translator) -> None:
    site = Site("decoder", 0, "cross", "weights")
    record = Record([site])
    sentences = [SENTENCE[:9], "", SENTENCE, SENTENCE[:20]]
    tiny_translator.translate(sentences, 2, hooks=record, max_length=6)
    assert record.sentences[site][0] == (2, 3, 0)
    for rows, weights in zip(record.sentences[site], record.values[site], strict=True):
        assert len(rows) == len(weights) and 1 not in rows
        for row, weight in zip(rows, weights, strict=True):
            n_source = len(tiny_translator.read(sentences[row]).ids)
            assert bool((weight[..., n_source:] == 0).all() and (weight[..., :n_source] > 0).all())


def test_rows_of_another_number_than_sentences_are_refused(tiny_translator: Translator) -> None:
    config = tiny_translator.config
    gates = HeadGates(cross=torch.ones(config.n_decoder_layers, 2, config.decoder_heads))
    trace = tiny_translator.trace(SENTENCE)
    for refused in (
        lambda: tiny_translator.translate([SENTENCE] * 3, hooks=gates),
        lambda: tiny_translator.traces([SENTENCE], hooks=gates),
        lambda: tiny_translator.trace(SENTENCE, hooks=gates),
        lambda: tiny_translator.trace(SENTENCE, TARGET, hooks=gates),
        lambda: tiny_translator.forcing_gap(trace, hooks=gates),
        lambda: tiny_translator.stream(trace, hooks=gates),
    ):
        with pytest.raises(InputError, match=r"cross gates \[\d, 2, \d\]: .* for [13] rows"):
            refused()


EVERY = ("hidden", "heads", "value_norms")
#: Sources and targets of unlike lengths.
PAIRS = [(SENTENCES[n], SENTENCES[m]) for n, m in ((0, 5), (6, 1), (4, 4), (2, 9), (8, 0), (5, 2))]


@pytest.fixture(scope="module", params=["uneven", "pre-norm"])
def uneven(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> Translator:
    model = uneven_model(tiny_tokenizer)
    if request.param == "pre-norm":
        model = random_model(ModelConfig(
            vocab_size=tiny_tokenizer.vocab_size, d_model=24, n_heads=3, n_decoder_heads=6, d_ff=20,
            n_encoder_layers=3, n_decoder_layers=1, norm="pre", attention_bias=True,
        ))  # fmt: skip
    return Translator(model, tiny_tokenizer, device="cpu")


def same(one: Trace, other: Trace) -> None:
    for name in (*ATTENTION_KINDS, "log_probs", "top_log_probs", "entropy"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=3e-5)
    assert one.predicted_ids == other.predicted_ids
    for state in EVERY:
        a, b = getattr(one.states, state), getattr(other.states, state)
        assert a.keys() == b.keys()
        for at in a:
            np.testing.assert_allclose(a[at], b[at], atol=1e-4, rtol=1e-4)


@settings(max_examples=12)
@given(data=st.data())
def test_a_batch_equals_its_sentences_alone(uneven: Translator, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3))
    edits = data.draw(st.sampled_from([(), "off cross.1.2", "cut cross q2 k1; skip encoder.1"]))
    sources, targets = zip(*chosen, strict=True)
    maps = data.draw(st.booleans())
    options: dict[str, Any] = {"edits": edits, "states": EVERY, "top_k": 4, "maps": maps}
    together = uneven.traces(iter(sources), targets=iter(targets), **options)
    scored = uneven.score(sources, targets, edits=edits)
    searched = uneven.traces(sources, 2, max_length=7, **options)
    for n, (source, target) in enumerate(chosen):
        alone = uneven.trace(source, target, **options)
        same(together[n], alone)
        same(searched[n], uneven.trace(source, None, 2, max_length=7, **options))
        np.testing.assert_allclose(scored[n].log_probs, alone.log_probs, atol=3e-5)
        assert scored[n].score == pytest.approx(alone.score, abs=1e-4)
        assert (scored[n].text, scored[n].ids) == (target, alone.predicted_ids[:-1])
        assert (alone.cross.size > 0) == maps and alone.forced


def test_states_are_the_values_at_the_sites(uneven: Translator) -> None:
    trace = uneven.trace(*PAIRS[1], states=EVERY)
    record, model, config = Record(matching()), uneven.model, uneven.config
    model(torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_ids]), hooks=record)
    found = trace.states
    assert found is not None
    for stack, layers in (("encoder", config.n_encoder_layers),
                          ("decoder", config.n_decoder_layers)):  # fmt: skip
        assert len(found.hidden[stack]) == layers + 1
        for layer in range(layers):
            plain = record[Site(stack, layer, "feed_forward", "hidden")][0]
            np.testing.assert_allclose(found.hidden[stack][layer + 1], plain, atol=1e-5)
        plain = record[Site(stack, None, "embedding", "hidden")][0]
        np.testing.assert_allclose(found.hidden[stack][0], plain, atol=1e-6)
    for kind in ATTENTION_KINDS:
        np.testing.assert_allclose(found.heads[kind], record.layers(kind, "heads")[:, 0], atol=1e-5)
        lengths = record.layers(kind, "v")[:, 0].norm(dim=-1)
        np.testing.assert_allclose(found.value_norms[kind], lengths, atol=1e-5)
    assert uneven.trace(*PAIRS[1]).states is None
    only = uneven.trace(PAIRS[1][0], max_length=5, states="hidden").states
    assert only is not None and only.hidden and not only.heads and not only.value_norms


def test_hooks_follow_the_sentences_and_edits_are_hooks(uneven: Translator) -> None:
    config, (sources, targets) = uneven.config, zip(*PAIRS[:4], strict=True)
    table = torch.ones(config.n_decoder_layers, 4, config.decoder_heads)
    table[0, 1, 2] = table[0, 3, 1] = 0
    found = uneven.score(sources, targets, hooks=HeadGates(cross=table))
    for n, edits in enumerate(("", "off cross.1.3", [], ["off cross.1.2"])):
        (plain,) = uneven.score(sources[n : n + 1], targets[n : n + 1], edits=edits)
        np.testing.assert_allclose(found[n].log_probs, plain.log_probs, atol=3e-5)
    gated = uneven.traces(sources, targets=targets, states="heads", hooks=HeadGates(cross=table))
    assert gated[0].states and gated[1].states
    assert gated[0].states.heads["cross"][0, 2].any()
    for edits in ("off cross.1.3", "no positions"):
        (once,) = uneven.translate(sources[1:2], edits=edits, max_length=8)
        assert once == uneven.edited(edits).translate(sources[1:2], max_length=8)[0]


@pytest.mark.parametrize(("arguments", "options", "message"), [
    ((["A dog."], ["a", "b"]), {}, "2 targets for 1 sentences"),
    ((["A dog.", "A cat."], ["a", " "]), {}, "^target 2: the target is blank"),
    ((["A dog.", " "], ["a", "b"]), {}, "^sentence 2: the sentence is blank"),
    (("A dog.", ["a"]), {}, "sentences must be a list of sentences, not one text"),
    ((["A dog."], "a"), {}, "targets must be a list of targets, not one text"),
    (([7], [[5, 500]]), {}, "not int"),
    ((["A dog."], [[5, 500]]), {}, "target token 500 .* 0 to 109"),
    ((["A dog."], ["a"]), {"prefix": "a"}, "a target or a prefix"),
    ((["A dog."], ["a"]), {"edits": "off cross.9"}, "“off cross.9”: cross has layers 1 to"),
    ((["A dog."], ["a"]), {"edits": 5}, "edit 5; expected text"),
    ((["A dog."], ["a"]), {"hooks": 5}, "hooks are Hooks or a function"),
])  # fmt: skip
def test_errors_are_named(
    uneven: Translator, arguments: Any, options: dict[str, Any], message: str
) -> None:
    for ask in (uneven.score, lambda a, b, **more: uneven.traces(a, targets=b, **more)):
        with pytest.raises(InputError, match=message):
            ask(*arguments, **options)
    with pytest.raises(InputError, match="state 'hid' is not one of: hidden, heads, value_norms"):
        uneven.traces(["A dog."], states=["hid"])


def test_memory_is_estimated_first(uneven: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uneven, "_batches", None)  # no model runs
    sources, targets = zip(*PAIRS, strict=True)
    bare = uneven.trace_bytes(sources, targets=targets, maps=False)
    whole = uneven.trace_bytes(sources, targets=targets)
    every = uneven.trace_bytes(sources, targets=targets, states=EVERY)
    assert bare < whole < every < uneven.trace_bytes(sources, 4, states=EVERY)
    monkeypatch.undo()
    traces = uneven.traces(sources, targets=targets, states=EVERY)
    names = (*ATTENTION_KINDS, "top_ids", "top_log_probs")
    arrays = sum(getattr(trace, name).nbytes for trace in traces for name in names)
    arrays += sum(
        array.nbytes for trace in traces for name in EVERY
        for array in getattr(trace.states, name).values()
    )  # fmt: skip
    assert 0.9 * every < arrays <= every
    monkeypatch.setattr("transformer.search.request.MAX_RECORD_BYTES", whole - 1)
    with pytest.raises(InputError, match=r"GiB are allowed, so take maps=False or fewer sentences"):
        uneven.traces(sources, targets=targets)
    uneven.score(sources, targets)
    with pytest.raises(InputError, match="take a smaller beam"):
        uneven.trace(sources[0], beam_size=64)


def test_passes_over_targets_are_shared(tiny_translator: Translator) -> None:
    order = list(PAIRS) * 9
    random.Random(3).shuffle(order)
    sources, targets = zip(*order, strict=True)
    record = Record([Site("decoder", None, "final", "hidden")])
    done: list[tuple[int, int]] = []
    tiny_translator.score(sources, targets, hooks=record, on_scored=lambda *at: done.append(at))
    (passes,) = record.values.values()
    assert len(passes) == len(done) == 1 and done[-1] == (54, 54)
    assert tiny_translator.score([], []) == tiny_translator.traces([]) == []
