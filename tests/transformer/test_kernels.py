import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer import kernels
from transformer.kernels import Dropout, fused_attention, relu


@given(
    shape=st.lists(st.integers(0, 7), max_size=4),
    p=st.sampled_from([0.1, 0.3, 0.5, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_values_are_dropped_or_scaled_up(shape: list[int], p: float, seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.rand(shape) + 1
    x.requires_grad_()
    y = Dropout(p)(x)
    y.sum().backward()
    assert y.shape == x.shape
    kept = y != 0
    scale = torch.full_like(y[kept], 1 / (1 - p + 1e-9))
    torch.testing.assert_close(y[kept] / x[kept], scale, atol=0, rtol=2**-15)
    torch.testing.assert_close(x.grad, y.detach() / x.detach())
    if p == 1:
        assert not kept.any()


@pytest.mark.parametrize("p", [0.1, 0.3, 0.75])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_share_dropped_is_p(p: float, dtype: torch.dtype) -> None:
    """Within five standard deviations, over all values and each of four neighbours."""
    torch.manual_seed(0)
    n = 400_000
    kept = Dropout(p)(torch.ones(n, dtype=dtype))
    assert kept.dtype == dtype
    for values in (kept, *kept.view(-1, 4).T):
        share = (values == 0).double().mean().item()
        assert abs(share - p) < 5 * (p * (1 - p) / len(values)) ** 0.5
    pairs = (kept[:-1] == 0) & (kept[1:] == 0)  # neighbours are independent
    assert abs(pairs.double().mean().item() - p * p) < 5 * (p * p / n) ** 0.5


def test_the_same_seed_drops_the_same_values_soundly() -> None:
    x, dropout = torch.ones(1000), Dropout(0.4)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x))
    assert not torch.equal(first, second)
    # PyTorch's own checks: the shape without data, no hidden aliasing.
    torch.library.opcheck(
        kernels._kept, (torch.randn(3, 5), 0.3),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )  # fmt: skip


def test_relu_compiled_is_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(50, requires_grad=True)
    plain = relu(x)
    (wanted,) = torch.autograd.grad(plain.square().sum(), x)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    formula = relu(x)
    (found,) = torch.autograd.grad(formula.square().sum(), x)
    assert formula.grad_fn.name() != plain.grad_fn.name()
    assert torch.equal(formula, plain)
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("n_queries", [1, 4, 6])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_short_attention_is_that_of_the_kernel(
    n_queries: int, causal: bool, masked: bool, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, n_queries, 5), torch.randn(2, 3, 6, 5)
    v, bias = torch.randn(2, 3, 6, 4), torch.randn(1, 3, n_queries, 6)
    inputs = [each.double().requires_grad_() for each in (q, k, v, bias)]
    seen = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    seen[1, ..., 4:] = False

    def compute(n: int) -> tuple[torch.Tensor, ...]:
        monkeypatch.setattr(kernels, "_SHORT", n)
        found = fused_attention(
            *inputs[:3], seen if masked else None, inputs[3] if biased else None,
            causal=causal, dropout=0.0,
        )  # fmt: skip
        wanted = inputs if biased else inputs[:3]
        return found, *torch.autograd.grad(found.square().sum(), wanted)

    torch.testing.assert_close(compute(n_queries * 6), compute(n_queries * 6 - 1))
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", None)
        compute(n_queries * 6)  # does without the kernel


def test_a_looked_up_row_has_the_gradient_of_all_its_tokens_and_padding_has_none() -> None:
    table = torch.nn.Embedding(9, 5)
    ids = torch.tensor([[3, 3, 8, 0], [3, 1, 0, 0]])
    by_rows = torch.randn(2, 4, 5) * (ids != 0)[..., None]
    rows = kernels._Lookup.apply(table.weight, ids, 0)
    torch.testing.assert_close(rows, table(ids), atol=0, rtol=0)
    found = torch.autograd.grad(rows, table.weight, by_rows)
    torch.testing.assert_close(found, torch.autograd.grad(table(ids), table.weight, by_rows))
