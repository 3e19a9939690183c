"""The residual stream: the blocks' outputs add up to the stream, and to the logits."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from tests.transformer.trace.test_inspection import CHANGES
from tests.transformer.trace.test_split import make
from transformer.config import ModelConfig
from transformer.hooks import HeadGates
from transformer.model import Transformer
from transformer.text.tokenizer import Tokenizer
from transformer.trace.records import StackName, StackStream, Stream, Trace
from transformer.trace.stream import read_feed_forward, record_stream
from transformer.types import Floats

STACKS: tuple[StackName, ...] = ("encoder", "decoder")
CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(scope="module", params=CHANGES)
def traced(
    request: pytest.FixtureRequest, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> tuple[Transformer, Trace, Stream]:
    model, trace = make(tiny_config.replace(**CHANGES[request.param]), tiny_tokenizer)
    return model, trace, record_stream(model, trace)


def normed(norm: torch.nn.LayerNorm, x: Floats) -> Floats:
    x = x.astype(np.float64)
    variance = x.var(axis=-1, keepdims=True) + norm.eps
    scaled = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(variance)
    result: Floats = scaled * norm.weight.numpy() + norm.bias.numpy()
    return result


def test_the_stream_is_the_sum_of_what_blocks_add(
    traced: tuple[Transformer, Trace, Stream],
) -> None:
    model, trace, stream = traced
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


def test_the_decoder_s_end_makes_the_logits_of_the_trace(
    traced: tuple[Transformer, Trace, Stream],
) -> None:
    model, trace, stream = traced
    logits = model.logits(torch.from_numpy(stream.decoder.leaving))
    chosen = torch.tensor(trace.predicted_ids)[:, None]
    assert_allclose(
        logits.log_softmax(-1).gather(1, chosen)[:, 0].numpy(), trace.log_probs, atol=1e-4
    )


def test_parts_of_the_last_sum_add_up_to_the_logits(
    traced: tuple[Transformer, Trace, Stream], tiny_tokenizer: Tokenizer
) -> None:
    """The network's part changes the model's logits by what it promotes."""
    model, _, stream = traced
    held, position = stream.decoder, 1
    size = model.config.target_vocab_size
    reading = read_feed_forward(
        model, tiny_tokenizer, stream, "decoder", 2, position, n_neurons=40, n_tokens=size
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
    assert reading.lowered.ids[0] == reading.promoted.ids[-1]
    assert reading.lowered.logits[0] == pytest.approx(reading.promoted.logits[-1])
    # The neurons and the bias are the whole output.
    by_neuron = np.zeros(size, np.float32)
    for each in reading.neuron_promoted:
        by_neuron[each.ids] += each.logits
    bias = model.decoder[2].feed_forward.w_2.bias.numpy()
    of_bias = (bias - bias.mean()) / np.sqrt(total.var() + norm.eps) * norm.weight.numpy()
    assert_allclose(by_neuron + model.generator.weight.numpy() @ of_bias, added, atol=1e-4)


def test_neurons_are_ranked_and_the_encoder_promotes_nothing(
    traced: tuple[Transformer, Trace, Stream], tiny_tokenizer: Tokenizer
) -> None:
    model, _, stream = traced
    reading = read_feed_forward(model, tiny_tokenizer, stream, "encoder", 1, 2, n_neurons=5)
    assert len(reading.neurons) == len(reading.sizes) == 5
    held = stream.encoder.inner[1, 2]
    assert_allclose(held[reading.neurons], np.sort(held)[::-1][:5])
    rows = model.encoder[1].feed_forward.w_2.weight.numpy()[:, reading.neurons]
    assert_allclose(
        reading.sizes, np.linalg.norm(rows, axis=0) * held[reading.neurons], rtol=1e-4, atol=1e-6
    )
    assert reading.promoted is None and not reading.neuron_promoted and not reading.exact
    below = read_feed_forward(model, tiny_tokenizer, stream, "decoder", 0, 0)
    assert below.promoted is not None and not below.exact
    for place in ((3, 0), (-1, 0), (0, 99), (0, -1)):
        with pytest.raises(ValueError, match="does not exist"):
            read_feed_forward(model, tiny_tokenizer, stream, "decoder", *place)


def test_hooks_change_the_stream(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> None:
    config = tiny_config.replace(n_encoder_layers=3, n_decoder_layers=2, decoder_d_ff=12)
    model, trace = make(config, tiny_tokenizer)
    gates = HeadGates.of(config, {("cross", 1, head): 0.0 for head in range(3)})
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
