import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose

from tests.tiny_models import random_model
from transformer.config import ModelConfig
from transformer.hooks import HeadGates
from transformer.measures.heads import divided
from transformer.model import Transformer
from transformer.text.tokenizer import Tokenizer
from transformer.trace.inspection import inspect_head, split_logits, why_not
from transformer.trace.records import HeadStages, LogitSplit, StackName, StackStream, Stream, Trace
from transformer.trace.stream import read_feed_forward, record_stream
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats

#: All with three heads or one, unequal depths, and d_k != d_v.
CHANGES = {
    "as in the paper": {},
    "pre-norm": {"norm": "pre"},
    "biases": {"attention_bias": True},
    "learned positions": {"positions": "learned", "max_positions": 60},
    "relative positions": {"positions": "relative"},
    "one wide head": {"n_heads": 1, "d_k": 17, "d_v": 5},
    "pre-norm, biases, separate tables": {
        "norm": "pre", "attention_bias": True, "tie_embeddings": "none", "scale_embedding": False,
    },
}  # fmt: skip


SELF: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self")


Make = Callable[..., tuple[Translator, Trace]]


@pytest.fixture(scope="module")
def make(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> Make:
    """Return random models with these settings and random biases, and traces with S != T."""

    @functools.cache
    def made(**changes: Any) -> tuple[Translator, Trace]:
        model = random_model(tiny_config.replace(**changes))
        for name, parameter in model.named_parameters():
            if "attention" in name and name.endswith("bias"):
                parameter.copy_(torch.linspace(-1, 1, len(parameter)))
        translator = Translator(model, tiny_tokenizer, device="cpu")
        trace = translator.trace("The cat sat on the mat.", target="Ein Hund rennt.")
        assert len(trace.src_tokens) != len(trace.tgt_tokens)
        return translator, trace

    return made


def check_split(split: LogitSplit, trace: Trace) -> None:
    """Check that terms sum to the logits within 1e-5, and that their softmax is the map."""
    total = np.sum([part.astype(np.float64) for part in split.parts.values()], axis=0)
    assert_allclose(total, split.logits, rtol=1e-5, atol=1e-5 * np.abs(total).max())
    assert split.residual <= 1e-5 * max(1.0, float(np.abs(split.logits).max()))
    weights = torch.from_numpy(np.where(split.mask, total, -np.inf)).softmax(-1)
    assert_allclose(weights, trace.attention(split.kind)[0, split.head], rtol=0, atol=1e-5)
    assert split.tokens == trace.axis_tokens(split.kind)[0]


def check_layer(
    model: Transformer, trace: Trace, kind: AttentionKind, layer: int, at: int,
    gates: HeadGates | None = None,
) -> list[HeadStages]:  # fmt: skip
    """Check one query in all heads of a layer, which sum to the block's output."""
    heads = [
        inspect_head(model, trace, kind, layer, head, at, gates=gates)
        for head in range(trace.attention(kind).shape[1])
    ]
    for stages in heads:
        check(stages, trace)
        assert stages.has_bias == model.config.attention_bias
    together = sum(stages.scaled.contribution for stages in heads) + heads[0].bias
    assert_allclose(together, heads[0].block_output, rtol=1e-5, atol=1e-5)
    assert heads[0].bias.any() == model.config.attention_bias
    return heads


def check(stages: HeadStages, trace: Trace) -> None:
    """Compute each stage from the previous stage in NumPy float64."""
    maps = trace.attention(stages.kind)
    n_keys = maps.shape[3]
    d_model, d_k, d_v = len(stages.x_query), len(stages.q), stages.values.shape[1]
    assert stages.x_keys.shape == (n_keys, d_model)
    assert stages.keys.shape == stages.products.shape == (n_keys, d_k)
    assert stages.w_o.shape == (d_v, d_model)
    close = {"rtol": 1e-5, "atol": 1e-5}
    assert_allclose(stages.products, stages.q * stages.keys, rtol=1e-6)
    size = np.abs(stages.products).sum(axis=1).max()  # what rounding errors scale with
    assert_allclose(
        stages.products.sum(axis=1, dtype=np.float64), stages.dots, rtol=1e-6, atol=1e-6 * size
    )
    relative = 0.0 if stages.relative is None else stages.relative
    assert_allclose(
        stages.scaled.logits, stages.dots / math.sqrt(d_k) + relative, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(stages.unscaled.logits, stages.dots + relative)
    assert_allclose(
        stages.scaled.weights, maps[stages.layer, stages.head, stages.query], rtol=0, atol=1e-5
    )
    # Dot products over the model's own divisor give the recorded map.
    again = divided(stages.dots + math.sqrt(d_k) * relative, stages.mask, math.sqrt(d_k))
    assert_allclose(again, stages.scaled.weights, rtol=0, atol=1e-6)
    assert_allclose(
        stages.gate * stages.scaled.output @ stages.w_o, stages.scaled.contribution, **close
    )
    causal = stages.kind == "decoder_self"
    np.testing.assert_array_equal(
        stages.mask, np.arange(n_keys) <= (stages.query if causal else n_keys)
    )
    for each in (stages.scaled, stages.unscaled):
        np.testing.assert_array_equal(np.isneginf(each.masked), ~stages.mask)
        np.testing.assert_array_equal(each.masked[stages.mask], each.logits[stages.mask])
        assert_allclose(each.weights.sum(), 1, atol=1e-6)
        assert not each.weights[~stages.mask].any()
        expected = divided(each.logits, stages.mask, 1)  # a softmax
        assert_allclose(each.weights, expected, rtol=0, atol=1e-5 + 1e-7 * size)
        assert_allclose(each.weighted, each.weights[:, None] * stages.values, rtol=1e-6, atol=1e-7)
        assert_allclose(each.weighted.sum(axis=0), each.output, **close)
        assert each.contribution.shape == (d_model,)


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_every_stage_follows_and_heads_add_up(changes: dict[str, object], make: Make) -> None:
    translator, trace = make(**changes)
    for kind in ATTENTION_KINDS:
        for layer in range(trace.attention(kind).shape[0]):
            for query in (0, 2):
                check_layer(translator.model, trace, kind, layer, query)


def test_cross_attention_reads_the_encoder_and_places_exist(make: Make) -> None:
    translator, trace = make()
    memory = translator.model.encode(torch.tensor([trace.src_ids])).memory[0]
    for layer in range(3):
        stages = inspect_head(translator.model, trace, "cross", layer, 0, 1)
        assert_allclose(stages.x_keys, memory.numpy(), rtol=1e-5, atol=1e-6)
    for place, name in (((2, 0, 0), "layer=2"), ((0, 3, 0), "head=3"), ((0, 0, 99), "query=99"),
                        ((-1, 0, 0), "layer=-1"), ((0, 0, -1), "query=-1")):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name} does not exist"):
            inspect_head(translator.model, trace, "encoder_self", *place)


def test_a_gate_scales_a_heads_contribution_and_what_comes_after(make: Make) -> None:
    translator, plain = make()
    model = translator.model
    gates = HeadGates(
        encoder_self=torch.tensor([[1.0, 0.0, 0.5], [1.0, 1.0, 1.0]]),
        decoder_self=torch.tensor([[0.3, 1.0, 1.0]] * 3),
        cross=torch.tensor([[1.0, 0.25, 1.0]] * 3),
    )
    trace = translator.trace(plain.source, target=plain.predicted_ids, hooks=gates)
    for kind, layer in (("encoder_self", 0), ("decoder_self", 2), ("cross", 2)):
        heads = check_layer(model, trace, kind, layer, 2, gates)
        factors = getattr(gates, kind)[layer].tolist()
        assert [stages.gate for stages in heads] == pytest.approx(factors)
    off = inspect_head(model, trace, "encoder_self", 0, 1, 2, gates=gates)
    assert off.scaled.output.any() and not off.scaled.contribution.any()
    rows = HeadGates(**{kind: getattr(gates, kind)[:, None] for kind in ATTENTION_KINDS})
    same = inspect_head(model, trace, "encoder_self", 0, 1, 2, gates=rows)
    assert same.gate == off.gate == 0 and not same.scaled.contribution.any()


@pytest.mark.parametrize(
    "changes",
    [{}, {"attention_bias": True}, {"positions": "learned", "max_positions": 60},
     {"scale_embedding": False, "tie_embeddings": "none"}, {"position_layout": "concatenated"}],
    ids=lambda changes: " ".join(changes) or "paper",
)  # fmt: skip
def test_the_parts_add_up(changes: dict[str, object], make: Make) -> None:
    translator, trace = make(**changes)
    for kind in SELF:
        for head in range(3):
            split = split_logits(translator.model, trace, kind, head)
            check_split(split, trace)
            assert ("bias" in split.parts) == bool(changes.get("attention_bias"))


def test_a_part_depends_on_its_own_side_alone(make: Make) -> None:
    translator, trace = make()
    split = split_logits(translator.model, trace, "encoder_self", 1)
    token = next(each for each in split.tokens if split.tokens.count(each) > 1)
    first, second = [i for i, each in enumerate(split.tokens) if each == token][:2]
    content, position = (split.parts[f"{query}_content"] for query in ("content", "position"))
    assert_allclose(content[first], content[second], atol=1e-5)
    assert not np.allclose(position[first], position[second])
    other = translator.trace("A dog runs across it.", "Ein")
    n = min(len(trace.src_ids), len(other.src_ids))
    moved = split_logits(translator.model, other, "encoder_self", 1)
    here, there = (each.parts["position_position"][:n, :n] for each in (split, moved))
    assert_allclose(there, here, atol=1e-6)


def test_there_is_none_where_it_would_not_be_exact(make: Make) -> None:
    for changes, kind, head, why in (
        ({"norm": "pre"}, "encoder_self", 0, "pre-norm"), ({}, "cross", 0, "cross-attention"),
        ({}, "encoder_self", 3, "head=3"),
    ):  # fmt: skip
        translator, trace = make(**changes)
        assert bool(why_not(translator.config)) == bool(changes)
        with pytest.raises(ValueError, match=why):
            split_logits(translator.model, trace, kind, head)


STACKS: tuple[StackName, ...] = ("encoder", "decoder")
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
Traced = tuple[Translator, Trace, Stream]


@pytest.fixture(scope="module", params=CHANGES)
def traced(request: pytest.FixtureRequest, make: Make) -> Traced:
    translator, trace = make(**CHANGES[request.param])
    return translator, trace, record_stream(translator.model, trace)


def normed(norm: torch.nn.LayerNorm, x: Floats) -> Floats:
    given = torch.from_numpy(x).double(), norm.normalized_shape
    return F.layer_norm(*given, norm.weight.double(), norm.bias.double(), norm.eps).numpy()


def test_the_stream_is_a_sum_and_its_end_makes_the_logits(traced: Traced) -> None:
    translator, trace, stream = traced
    model = translator.model
    assert stream.pre_norm == (model.config.norm == "pre")
    for name, n, depth in zip(
        STACKS, (len(trace.src_ids), len(trace.tgt_ids)), (2, 3), strict=True
    ):
        held = stream.stack(name)
        d_model = model.config.d_model
        assert held.hidden.shape == held.outputs.shape == (depth, len(held.blocks), n, d_model)
        assert held.inner.shape == (depth, n, 40) and len(held.tokens) == n
        sums = held.before + held.outputs
        for layer in range(depth):
            for k, block in enumerate(held.blocks):
                norm = getattr(getattr(model, name)[layer], f"around_{block}").norm
                expected = sums[layer, k] if stream.pre_norm else normed(norm, sums[layer, k])
                assert_allclose(held.hidden[layer, k], expected, **CLOSE)
            network = getattr(model, name)[layer].feed_forward
            rebuilt = held.inner[layer] @ network.w_2.weight.numpy().T + network.w_2.bias.numpy()
            assert_allclose(held.outputs[layer, -1], rebuilt, **CLOSE)
        leaving = held.hidden[-1, -1]
        if stream.pre_norm:
            leaving = normed(getattr(model, f"{name}_norm"), leaving)
        assert_allclose(held.leaving, leaving, **CLOSE)

    every = model.logits(torch.from_numpy(stream.decoder.leaving)).log_softmax(-1).numpy()
    assert_allclose(every[range(len(every)), trace.predicted_ids], trace.log_probs, atol=1e-4)


def test_parts_of_the_last_sum_add_up_to_the_logits(traced: Traced) -> None:
    translator, _, stream = traced
    model, tokenizer = translator.model, translator.tokenizer
    held, position = stream.decoder, 1
    size = model.config.target_vocab_size
    reading = read_feed_forward(
        model, tokenizer, stream, "decoder", 2, position, n_neurons=40, n_tokens=size
    )
    total = (held.before + held.outputs)[2, -1, position]
    norm = model.decoder_norm if stream.pre_norm else model.decoder[2].around_feed_forward.norm
    centred = total - reading.added - (total - reading.added).mean()
    rest = centred / np.sqrt(total.var() + norm.eps) * norm.weight.numpy() + norm.bias.numpy()
    without = model.logits(torch.from_numpy(rest.astype(np.float32))).numpy()
    whole = model.logits(torch.from_numpy(held.leaving[position])).numpy()
    added = np.empty(size, np.float32)
    added[reading.promoted.ids] = reading.promoted.logits
    assert_allclose(without + added, whole, atol=1e-4)
    assert (np.diff(reading.promoted.logits) <= 0).all()
    # The neurons and the bias are the whole output.
    by_neuron = np.zeros(size, np.float32)
    for each in reading.neuron_promoted:
        by_neuron[each.ids] += each.logits
    bias = model.decoder[2].feed_forward.w_2.bias.numpy()
    of_bias = (bias - bias.mean()) / np.sqrt(total.var() + norm.eps) * norm.weight.numpy()
    assert_allclose(by_neuron + model.generator.weight.numpy() @ of_bias, added, atol=1e-4)


def test_neurons_are_ranked_and_the_encoder_promotes_nothing(traced: Traced) -> None:
    translator, _, stream = traced
    model, tokenizer = translator.model, translator.tokenizer
    reading = read_feed_forward(model, tokenizer, stream, "encoder", 1, 2, n_neurons=5)
    assert len(reading.neurons) == len(reading.sizes) == 5
    held = stream.encoder.inner[1, 2]
    assert_allclose(held[reading.neurons], np.sort(held)[::-1][:5])
    rows = model.encoder[1].feed_forward.w_2.weight.numpy()[:, reading.neurons]
    assert_allclose(
        reading.sizes, np.linalg.norm(rows, axis=0) * held[reading.neurons], rtol=1e-4, atol=1e-6
    )
    assert reading.promoted is None and not reading.neuron_promoted and not reading.exact
    below = read_feed_forward(model, tokenizer, stream, "decoder", 0, 0)
    assert below.promoted is not None and not below.exact
    for place in ((3, 0), (-1, 0), (0, 99), (0, -1)):
        with pytest.raises(ValueError, match="does not exist"):
            read_feed_forward(model, tokenizer, stream, "decoder", *place)


def test_hooks_change_the_stream(make: Make) -> None:
    translator, trace = make(n_encoder_layers=3, n_decoder_layers=2, decoder_d_ff=12)
    model = translator.model
    gates = HeadGates.of(model.config, {("cross", 1, head): 0.0 for head in range(3)})
    plain, gated = record_stream(model, trace), record_stream(model, trace, hooks=gates)
    assert gated.decoder.added_norms[1, 1].max() == 0 < plain.decoder.added_norms[1, 1].min()
    assert gated.decoder.shares[1, 1].max() == 0
    assert_allclose(plain.encoder.hidden, gated.encoder.hidden)
    assert plain.encoder.inner.shape[::2] == (3, 40)
    assert plain.decoder.inner.shape[::2] == (2, 12)


def test_measures_of_a_stream_that_one_can_check_by_eye() -> None:
    entering = np.array([[3, 4], [0, 0]], np.float32)  # lengths 5 and 0
    outputs = np.array([[[[3, 4], [0, 0]], [[-6, -8], [0, 2]]]], np.float32)
    hidden = entering + np.cumsum(outputs, axis=1)
    inner = np.array([[[0.5, 0, -1], [1, 2, 3]]], np.float32)
    stream = StackStream(
        ("a", "b"), ("self", "feed_forward"), entering, outputs, hidden, hidden[-1, -1], inner
    )
    assert_allclose(stream.norms, [[5, 0], [10, 0], [0, 2]])
    assert_allclose(stream.added_norms, [[[5, 0], [10, 2]]])
    assert_allclose(stream.shares, [[[0.5, 0], [0.5, 1]]])
    assert stream.n_firing.tolist() == [[1, 3]]
    assert_allclose(stream.before[0, 1], hidden[0, 0])
