"""Given translations: `score` and `traces` with targets, in batches, against plain passes."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_models import SENTENCES, random_model, uneven_model
from transformer.config import ModelConfig
from transformer.errors import InputError
from transformer.hooks import HeadGates, Record, Site, matching
from transformer.text.tokenizer import Tokenizer
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS

EVERY = ("hidden", "heads", "value_norms")
#: Sources and targets of unlike lengths.
PAIRS = [(SENTENCES[n], SENTENCES[m]) for n, m in ((0, 5), (6, 1), (4, 4), (2, 9), (8, 0), (5, 2))]


@pytest.fixture(scope="module", params=["uneven", "pre-norm"])
def translator(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> Translator:
    model = uneven_model(tiny_tokenizer)
    if request.param == "pre-norm":
        model = random_model(ModelConfig(
            vocab_size=tiny_tokenizer.vocab_size, d_model=24, n_heads=3, n_decoder_heads=6, d_ff=20,
            n_encoder_layers=3, n_decoder_layers=1, norm="pre", attention_bias=True,
        ))  # fmt: skip
    return Translator(model, tiny_tokenizer, device="cpu")


def same(one: Trace, other: Trace) -> None:
    names = (*ATTENTION_KINDS, "log_probs", "top_log_probs", "entropy")
    for name in names:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=3e-5)
    assert one.predicted_ids == other.predicted_ids
    for state in EVERY:
        a, b = (getattr(each.states, state) for each in (one, other))
        assert a.keys() == b.keys()
        for at in a:
            np.testing.assert_allclose(a[at], b[at], atol=1e-4, rtol=1e-4)


@settings(max_examples=12)
@given(data=st.data())
def test_a_batch_is_each_alone_in_any_order_and_with_any_neighbours(
    translator: Translator, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3))
    edits = data.draw(st.sampled_from([(), "off cross.1.2", "cut cross q2 k1; skip encoder.1"]))
    sources, targets = zip(*chosen, strict=True)
    maps = data.draw(st.booleans())
    options: dict[str, Any] = {"edits": edits, "states": EVERY, "top_k": 4, "maps": maps}
    together = translator.traces(iter(sources), targets=iter(targets), **options)
    scored = translator.score(sources, targets, edits=edits)
    searched = translator.traces(sources, 2, max_length=7, **options)
    for n, (source, target) in enumerate(chosen):
        alone = translator.trace(source, target, **options)
        same(together[n], alone)
        same(searched[n], translator.trace(source, None, 2, max_length=7, **options))
        np.testing.assert_allclose(scored[n].log_probs, alone.log_probs, atol=3e-5)
        assert scored[n].score == pytest.approx(alone.score, abs=1e-4)
        assert (scored[n].text, scored[n].ids) == (target, alone.predicted_ids[:-1])
        assert (alone.cross.size > 0) == maps and alone.forced


def test_states_are_the_values_at_the_sites(translator: Translator) -> None:
    trace = translator.trace(*PAIRS[1], states=EVERY)
    record, model, config = Record(matching()), translator.model, translator.config
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
    assert translator.trace(*PAIRS[1]).states is None
    only = translator.trace(PAIRS[1][0], max_length=5, states="hidden").states
    assert only is not None and only.hidden and not only.heads and not only.value_norms


def test_hooks_follow_the_sentences_and_edits_are_hooks(translator: Translator) -> None:
    config, sources = translator.config, [source for source, _ in PAIRS[:4]]
    targets = [target for _, target in PAIRS[:4]]
    table = torch.ones(config.n_decoder_layers, 4, config.decoder_heads)
    table[0, 1, 2] = table[0, 3, 1] = 0
    found = translator.score(sources, targets, hooks=HeadGates(cross=table))
    for n, edits in enumerate(("", "off cross.1.3", [], ["off cross.1.2"])):
        (plain,) = translator.score(sources[n : n + 1], targets[n : n + 1], edits=edits)
        np.testing.assert_allclose(found[n].log_probs, plain.log_probs, atol=3e-5)
    gated = translator.traces(
        sources, targets=targets, states="heads", hooks=HeadGates(cross=table)
    )
    assert gated[0].states and gated[1].states
    assert gated[0].states.heads["cross"][0, 2].any()
    for edits in ("off cross.1.3", "no positions"):
        (once,) = translator.translate(sources[1:2], edits=edits, max_length=8)
        assert once == translator.edited(edits).translate(sources[1:2], max_length=8)[0]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["A dog."], ["a", "b"]), {}, "2 targets for 1 sentences"),
        ((["A dog.", "A cat."], ["a", " "]), {}, "^target 2: the target is blank"),
        ((["A dog.", " "], ["a", "b"]), {}, "^sentence 2: the sentence is blank"),
        (("A dog.", ["a"]), {}, "sentences must be a list of sentences, not one text"),
        ((["A dog."], "a"), {}, "targets must be a list of targets, not one text"),
        (([7], [[5, 500]]), {}, "not int"),
        ((["A dog."], [[5, 500]]), {}, "target token 500 .* 0 to 109"),
        ((["A dog."], ["a"]), {"prefix": "a"}, "a target or a prefix"),
        ((["A dog."], ["a"]), {"edits": "off cross.9"}, "“off cross.9”: cross has layers 1 to"),
        ((["A dog."], ["a"]), {"edits": 5}, "edit 5 is neither text"),
        ((["A dog."], ["a"]), {"hooks": 5}, "hooks are Hooks or a function"),
    ],
)  # fmt: skip
def test_one_line_says_what_is_wrong(
    translator: Translator, arguments: Any, options: dict[str, Any], message: str
) -> None:
    for ask in (translator.score, lambda a, b, **more: translator.traces(a, targets=b, **more)):
        with pytest.raises(InputError, match=message):
            ask(*arguments, **options)
    with pytest.raises(InputError, match="state 'hid' is not one of: hidden, heads, value_norms"):
        translator.traces(["A dog."], states=["hid"])


def test_memory_is_said_before_it_is_spent(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "_batches", None)  # no model runs
    sources, targets = zip(*PAIRS, strict=True)
    bare = translator.trace_bytes(sources, targets=targets, maps=False)
    whole = translator.trace_bytes(sources, targets=targets)
    every = translator.trace_bytes(sources, targets=targets, states=EVERY)
    assert bare < whole < every < translator.trace_bytes(sources, 4, states=EVERY)
    monkeypatch.undo()
    traces = translator.traces(sources, targets=targets, states=EVERY)
    arrays = sum(
        each.nbytes for trace in traces
        for name in (*ATTENTION_KINDS, "top_ids", "top_log_probs")
        for each in [getattr(trace, name)]
    )  # fmt: skip
    arrays += sum(
        array.nbytes for trace in traces for name in EVERY
        for array in getattr(trace.states, name).values()
    )  # fmt: skip
    assert 0.9 * every < arrays <= every
    monkeypatch.setattr("transformer.search.request.MAX_RECORD_BYTES", whole - 1)
    with pytest.raises(InputError, match=r"GiB are allowed, so take maps=False or fewer sentences"):
        translator.traces(sources, targets=targets)
    translator.score(sources, targets)
    with pytest.raises(InputError, match="take a smaller beam"):
        translator.trace(sources[0], beam_size=64)


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
