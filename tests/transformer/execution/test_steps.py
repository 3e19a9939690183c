import dataclasses
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.tiny_models import CONFIGS as OTHERS
from tests.transformer.edits.plain import PlainSteps
from transformer.config import ModelConfig
from transformer.execution import CachedSteps, products
from transformer.execution.packed import PackedDecoder, PackedEncoder
from transformer.execution.products import LAYOUTS, Packed, Plain, Transposed, layouts_for, works
from transformer.execution.steps import PackedSteps
from transformer.kernels import linear, relu
from transformer.model import Encoded, Transformer
from transformer.search.beam import Found, search
from transformer.search.rules import SearchSettings

CONFIGS = {
    "post": OTHERS["post-norm"].replace(output_bias=True),
    "pre": OTHERS["pre-norm, learned positions"].replace(max_positions=64),
    "separate": OTHERS["two vocabularies, one head"].replace(d_model=20, n_heads=5, d_k=None),
}

#: Chosen so that the four sentences end at different steps.
SEEDS = {"post": 30, "pre": 1, "separate": 46}

#: Four sources of unequal length, padded with 0 at the end.
SOURCES = torch.tensor(
    [[5, 9, 7, 12, 21, 2], [14, 2, 0, 0, 0, 0], [8, 8, 23, 11, 2, 0], [20, 6, 2, 0, 0, 0]]
)
LENGTHS = [6, 2, 5, 3]


def varied_model(config: ModelConfig, seed: int) -> Transformer:
    """A random model whose last norm has random signs, so that tied embeddings do not repeat."""
    torch.manual_seed(seed)
    model = Transformer(config).double().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        spread = 1.5 * parameter.size(-1) ** -0.5 if parameter.dim() == 2 else 0.2
        parameter.normal_(float("norm.weight" in name), spread)
    pre = config.norm == "pre"
    last = model.decoder_norm if pre else model.decoder[-1].around_feed_forward.norm
    last.weight.normal_(0, 1.5)
    if model.generator.bias is not None:
        model.generator.bias[config.eos_id] = 3.0
    return model


@pytest.fixture(scope="module", params=CONFIGS)
def model(request: pytest.FixtureRequest) -> Transformer:
    """A float64 model, so that differences are not rounding errors."""
    return varied_model(CONFIGS[request.param], SEEDS[request.param])


def find(step: object, settings: SearchSettings, n: int = 4, **options: object) -> list[Found]:
    with torch.inference_mode():
        return search(step, [12] * n, settings, src_lengths=LENGTHS[:n], **options)


def assert_same(found: list[Found], expected: list[Found]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours.hypotheses] == [h.ids for h in theirs.hypotheses]
        for one, other in zip(ours.hypotheses, theirs.hypotheses, strict=True):
            assert one.rows == other.rows
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
        assert len(ours.steps) == len(theirs.steps)
        for step, wanted in zip(ours.steps, theirs.steps, strict=True):
            np.testing.assert_allclose(step.decoder_self, wanted.decoder_self, atol=1e-6)
            np.testing.assert_allclose(step.cross, wanted.cross, atol=1e-6)


def encode(model: Transformer, n: int = 4) -> Encoded:
    return model.encode(SOURCES[:n][:, : max(LENGTHS[:n])])


def packed_steps(model: Transformer, encoded: Encoded, *, need_weights: bool) -> PackedSteps:
    return PackedSteps(PackedDecoder(model), encoded, need_weights=need_weights)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("n", [1, 4])
def test_a_cache_equals_no_cache(model: Transformer, n: int, beam: int) -> None:
    settings = SearchSettings(beam_size=beam, suppressed=(0, 1, 3), record=True, top_k=5)
    expected = find(PlainSteps(model, [row[row != 0].tolist() for row in SOURCES[:n]]), settings, n)
    assert n == 1 or len({len(found.steps) for found in expected}) > 1, "sentences should end apart"
    bare = dataclasses.replace(settings, record=False)
    for steps in (CachedSteps, packed_steps):
        assert_same(find(steps(model, encode(model, n), need_weights=True), settings, n), expected)
        (without, with_weights) = (
            find(steps(model, encode(model, n), need_weights=need), bare, n)
            for need in (False, True)
        )
        assert_same(without, with_weights)


@pytest.mark.parametrize("beam", [1, 3, 6])
@pytest.mark.parametrize(
    ("limit", "value"), [("BLOCK_ROWS", 3), ("FIRST_CAPACITY", 1), ("FIRST_CAPACITY", 9)]
)
def test_blocks_of_rows_and_a_full_pool_change_nothing(
    model: Transformer, beam: int, limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SearchSettings(beam_size=beam, suppressed=(0, 1, 3), record=True)
    expected = find(CachedSteps(model, encode(model), need_weights=True), settings)
    monkeypatch.setattr(f"transformer.execution.steps.{limit}", value)
    steps = packed_steps(model, encode(model), need_weights=True)
    assert_same(find(steps, settings), expected)
    if beam > 1 and limit != "BLOCK_ROWS":  # by then every row has entries without descendants
        assert steps.taken < beam * steps.length


@pytest.mark.parametrize("most_real", [0.0, 1.0])
def test_packed_passes_are_those_of_the_model(
    model: Transformer, most_real: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.execution.packed.MOST_REAL", most_real)
    tgt_in = torch.tensor([[1, 7, 9, 4, 12], [1, 8, 8, 20, 5], [1, 4, 6, 7, 7], [1, 9, 8, 7, 6]])
    real = (SOURCES != 0)[..., None]
    with torch.inference_mode():
        encoded, found, plain = (
            each.encode(SOURCES, need_weights=weights)
            for each, weights in ((model, True), (PackedEncoder(model), True),
                                  (PackedEncoder(model), False))
        )  # fmt: skip
        assert plain.attention is None
        for each in (found, plain):
            torch.testing.assert_close(each.memory * real, encoded.memory * real)
            assert bool(each.memory[SOURCES == 0].any()) == (most_real == 0)
        queries = real[:, None]
        torch.testing.assert_close(found.attention * queries, encoded.attention * queries)
        expected = model.decode(tgt_in, encoded, need_weights=True)
        decoded, logits = PackedDecoder(model).read(tgt_in, encoded)
        torch.testing.assert_close(logits, model.logits(expected.hidden))
    torch.testing.assert_close(decoded.self_attention, expected.self_attention)
    torch.testing.assert_close(decoded.cross_attention, expected.cross_attention)


def test_nothing_is_written_to_the_model_or_the_encoder(model: Transformer) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    encoded = encode(model)
    memory = encoded.memory.clone()
    decoder = PackedDecoder(model)
    settings = SearchSettings(beam_size=3, suppressed=(0, 1, 3))
    first = find(PackedSteps(decoder, encoded), settings)
    assert_same(find(PackedSteps(decoder, encoded), settings), first)
    assert torch.equal(memory, encoded.memory)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


ACTIVATIONS = {"none": None, "relu": relu, "silu": F.silu, "gelu": F.gelu}


@pytest.mark.parametrize("layout", [Plain, Packed, products.Convolved, Transposed])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_product_is_that_of_a_linear_layer(layout: type[Plain], name: str) -> None:
    if not works(layout):
        pytest.skip("this PyTorch has no oneDNN")
    draw = torch.Generator().manual_seed(0)
    activation = ACTIVATIONS[name]
    for n_out, n_rows, biased in itertools.product((6, 7), (1, 2, 4, 9, 33), (True, False)):
        x, weight, added, bias = (
            torch.randn(shape, generator=draw)
            for shape in ((n_rows, 12), (n_out, 12), (n_rows, n_out), (n_out,))
        )
        parts = weight, bias if biased else None
        plain = F.linear(x, *parts)
        with torch.inference_mode():
            found = layout(*parts, activation)(x)
            torch.testing.assert_close(found, plain if activation is None else activation(plain))
            assert found.is_contiguous()
            torch.testing.assert_close(layout(*parts)(x, added), plain + added)
            torch.testing.assert_close(linear(x, *parts), plain)


@pytest.mark.parametrize("threads", [1, 3, 4, 5])
def test_slices_for_any_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(threads)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for n_out, n_in in ((12, 20), (7, 11)):
        weight, x = torch.randn(n_out, n_in, generator=draw), torch.randn(1, n_in, generator=draw)
        bias = torch.randn(n_out, generator=draw)
        torch.testing.assert_close(Transposed(weight, bias)(x), F.linear(x, weight, bias))


@pytest.mark.parametrize("capability", [*LAYOUTS, "DEFAULT"])
def test_layouts_follow_size_and_machine(capability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(products, "PACKED_FROM", 50)
    monkeypatch.setattr(products, "TRANSPOSED_FROM", 80)
    monkeypatch.setattr(products, "works", lambda layout: True)
    plain = (Plain, Plain, Plain)
    one, few, many = LAYOUTS.get(capability, plain)
    first = Plain if capability == "DEFAULT" else one
    assert layouts_for(torch.zeros(10, 8)) == (first, few, many)
    assert layouts_for(torch.zeros(8, 10)) == (Plain, few, many)
    assert layouts_for(torch.zeros(9, 8)) == (Plain, few, many)
    assert layouts_for(torch.zeros(7, 7)) == plain
    assert layouts_for(torch.zeros(8, 10).double()) == plain
    assert layouts_for(torch.zeros(8, 10), torch.tanh) == plain
    monkeypatch.setattr(products, "works", lambda layout: False)
    assert layouts_for(torch.zeros(8, 10)) == plain


def test_a_product_takes_the_layout_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Noted(Plain):
        def __call__(self, x: torch.Tensor, added: torch.Tensor | None = None) -> torch.Tensor:
            made.append(type(self).__name__)
            return super().__call__(x, added)

    layouts = tuple(type(name, (Noted,), {}) for name in ("one", "few", "many"))
    monkeypatch.setattr(products, "layouts_for", lambda *_: layouts)
    for many in (False, True):
        product = products.Product(torch.zeros(3, 2), many=many)
        for rows in (1, 2, 4, 5):
            product(torch.zeros(rows, 2))
    assert made == ["one", "few", "few", "many", *["many"] * 4]
