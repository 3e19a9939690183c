import math
from dataclasses import replace
from itertools import pairwise, permutations
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from torch import nn

from tests.factories import make_trace
from transformer.evaluation.complexity import build
from transformer.measures.compare import (
    HeadAgreement,
    assign,
    divergence,
    head_agreements,
    match,
    not_shared,
    parting,
    partners,
    side_by_side,
    similarity,
    total_log_prob,
)
from transformer.measures.layer_costs import (
    LAYER_COSTS,
    LayerKind,
    PathKind,
    Shape,
    counted,
    counted_crossing,
    crossing,
    fit_exponent,
    path_length,
    route,
    spread,
    successors,
)
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, Floats, Reals


def maps(count: int, seed: int, queries: int = 4, keys: int = 6) -> Floats:
    """Return [count, queries, keys], with sparse and dense rows."""
    rng = np.random.default_rng(seed)
    weights = rng.random((count, queries, keys)) ** 6 * rng.integers(0, 2, (count, queries, keys))
    weights[..., 0] += 1e-3
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


seeds = st.integers(0, 10_000)
matrices = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    elements=st.one_of(st.integers(-3, 3).map(float), st.floats(-2, 2, width=32)),
)


@given(seeds, st.integers(1, 5), st.floats(0.0625, 128, width=32))
def test_divergence_is_a_symmetric_distance(seed: int, count: int, scale: float) -> None:
    one, other = maps(count, seed), maps(count, seed + 1)
    assert (divergence(one, one) == 0).all()
    there, back = divergence(one, other), divergence(other, one)
    np.testing.assert_array_equal(there, back)
    assert ((there >= 0) & (there <= 1)).all() and there.shape == (count, 4)
    scaled = (one * scale).astype(np.float32)
    np.testing.assert_allclose(divergence(scaled, other), there, atol=1e-5)


def test_known_divergences_in_bits() -> None:
    left, right, even = np.eye(2, dtype="f4")[:1], np.eye(2, dtype="f4")[1:], [[0.5, 0.5]]
    assert divergence(left, right)[0] == 1.0  # nothing in common
    halfway = divergence(left, np.array(even, dtype="f4"))[0]
    assert halfway == pytest.approx(0.75 * np.log2(4 / 3))  # by hand: H(3/4, 1/4) - 1/2
    empty = np.zeros((1, 2), dtype="f4")
    assert divergence(empty, left)[0] == 1.0
    assert divergence(empty, empty)[0] == 0.0


@given(seeds, st.integers(1, 5), st.integers(1, 5))
def test_similarity_is_one_minus_the_mean_divergence_of_rows(seed: int, a: int, b: int) -> None:
    one, other = maps(a, seed), maps(b, seed + 1)
    found = similarity(one, other)
    assert found.shape == (a, b)
    for i, j in np.ndindex(a, b):
        assert found[i, j] == pytest.approx(1 - divergence(one[i], other[j]).mean(), abs=1e-12)
    np.testing.assert_array_equal(np.diag(similarity(one, one)), 1.0)
    np.testing.assert_allclose(similarity(other, one), found.T, atol=1e-12)


def test_maps_that_do_not_fit_are_refused() -> None:
    one, broken = maps(2, 0), maps(2, 0)
    broken[0, 0, 0] = np.nan
    for why, compare in (
        ("rows have 6 and 5 keys", lambda: divergence(one, one[..., :5])),
        ("expected", lambda: similarity(one, one[:, :3])),
        ("NaN values", lambda: divergence(broken, one)),
        ("negative", lambda: divergence(-one, one)),
        ("finite", lambda: assign(np.array([[np.inf, 0.0]]))),
    ):
        with pytest.raises(ValueError, match=why):
            compare()


def best_sum(values: NDArray[np.float64]) -> float:
    if values.shape[0] > values.shape[1]:
        values = values.T
    n, m = values.shape
    return max(sum(values[i, p[i]] for i in range(n)) for p in permutations(range(m), n))


@given(matrices)
def test_the_assignment_is_as_good_as_any(values: NDArray[np.float64]) -> None:
    pairs = assign(values)
    assert len(pairs) == min(values.shape)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert pairs == tuple(sorted(pairs))
    assert sum(values[pair] for pair in pairs) == pytest.approx(best_sum(values), abs=1e-9)


words = st.lists(st.sampled_from("abc"), max_size=7)


@given(words, words)
def test_two_texts_part_where_their_common_beginning_ends(one: list[str], other: list[str]) -> None:
    at = parting(one, other)
    assert (at is None) == (one == other)
    assert at is None or (one[:at] == other[:at] and one[at : at + 1] != other[at : at + 1])
    here, there = not_shared(one, other)
    kept = [word for at, word in enumerate(one) if at not in here]
    assert kept == [word for at, word in enumerate(other) if at not in there]
    assert not_shared(one, one) == ((), ()) and not_shared("abcd", "abce") == ((3,), (3,))


def written(text: str) -> Trace:
    return replace(make_trace(), predicted_tokens=(*text.split(), "</s>"))


@given(*[st.lists(st.sampled_from(["▁a", "▁b", "c"]), max_size=6).map(" ".join)] * 2)
def test_translations_stand_word_beside_word(one: str, other: str) -> None:
    found = side_by_side(written(one), written(other))
    for side, text in enumerate((one, other)):
        words = [pair[side] for pair in found.pairs if pair[side].tokens]
        assert [at for word in words for at in word.tokens] == [*range(len(text.split()) + 1)]
        assert (
            "".join(word.text for word in words) == text.replace("▁", "").replace(" ", "") + "</s>"
        )
    at = found.parts_at
    assert (at is None) == (one == other)
    assert all(a.text == b.text for a, b in found.pairs[:at])


def test_words_are_beside_those_in_their_place_and_letters_alone() -> None:
    for one, other, unit, texts in (
        ("▁Das ▁Tier ▁war ▁m ü de", "▁Das ▁Kind ▁da ▁war ▁alt", "word",
         "Das/Das Tier/Kind /da war/war müde/alt </s>/</s>"),
        ("c b a", "c a", "token", "c/c b/ a/a </s>/</s>"),
    ):  # fmt: skip
        found = side_by_side(written(one), written(other))
        assert " ".join(f"{a.text}/{b.text}" for a, b in found.pairs) == texts
        assert (found.unit, found.parts_at) == (unit, 1)


LEFT = make_trace(S=6, T=5, n_heads=3, src_tokens=("▁The", "▁ani", "mal", "▁was", "▁tired"))


def right(*words: str) -> Trace:
    return make_trace(
        S=len(words) + 1, T=5, n_heads=2, n_encoder_layers=1, n_decoder_layers=4, seed=1,
        src_tokens=words,
    )  # fmt: skip


def test_heads_compare_over_words_of_whichever_sizes() -> None:
    found = head_agreements(LEFT, right("▁T", "he", "▁animal", "▁was", "▁tir", "ed"))
    assert set(found) == set(ATTENTION_KINDS)
    assert found["cross"].values.shape == (2 * 3, 4 * 2)
    assert found["encoder_self"].values.shape == (3 * 3, 1 * 2)
    assert found["encoder_self"].shapes == ((3, 3), (1, 2))
    for alike in found.values():
        assert ((alike.values >= 0) & (alike.values <= 1)).all()
    np.testing.assert_array_equal(np.diag(head_agreements(LEFT, LEFT)["cross"].values), 1.0)
    assert head_agreements(LEFT, right(*LEFT.src_tokens[:-1], "▁now")).keys() == {"decoder_self"}


def test_a_kind_that_a_model_does_not_have_is_left_out() -> None:
    nothing = np.zeros(0, np.float32)
    reader = replace(
        LEFT, tgt_tokens=(), predicted_tokens=(), log_probs=nothing,
        decoder_self=np.zeros((0, 3, 0, 0), "f4"), cross=np.zeros((0, 3, 0, 6), "f4"),
    )  # fmt: skip
    assert set(head_agreements(LEFT, reader)) == {"encoder_self"}
    assert total_log_prob(LEFT) == pytest.approx(LEFT.log_probs.sum())
    without = replace(LEFT, log_probs=nothing)
    assert math.isnan(total_log_prob(without)) and math.isnan(total_log_prob(None))


def test_a_matching_weighs_sentences_by_their_words() -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 2), (1, 3))
    one, other = (HeadAgreement(rng.random((4, 3)), rows, shapes, 0.5) for rows in (2, 6))
    found = match([one, None, other])
    assert found is not None and (found.sentences, found.left_out) == (2, 1)
    np.testing.assert_allclose(found.values, (one.values + 3 * other.values) / 4)
    assert found.pairs == assign(found.values) and len(found.pairs) == 3
    assert found.mean == pytest.approx(np.mean([found.values[pair] for pair in found.pairs]))
    assert found.in_place == pytest.approx(np.mean([found.values[0, 0], found.values[1, 1]]))
    assert match([None]) is None


def test_words_in_one_place_are_partners_only_if_most_are_the_same() -> None:
    words = ["the", "animal", "was", "too", "tired"]
    wide = [*words[:-1], "wide"]
    assert partners(words, words) and not partners(words, wide)
    assert partners(words, wide, by_place=True)
    assert not partners(words, words[:-1], by_place=True)
    assert not partners(words, ["a", "b", *words[2:4], "c"], by_place=True)


SIZES = np.array([64.0, 128.0, 256.0, 512.0, 1024.0])


def powers(exponent: float, factor: float = 1.0, noise: float = 0.05, rounds: int = 9) -> Reals:
    source = np.random.default_rng(int(100 * exponent + rounds))
    clean = factor * SIZES[:, None] ** exponent
    return clean * np.exp(noise * source.normal(size=(len(SIZES), rounds)))


def test_counts_grow_as_table_1_says() -> None:
    for kind, cost in LAYER_COSTS.items():
        # Far out, where one term is left: n much larger than d, or d than all else.
        n, d = 10**9, 8
        doubled = counted(kind, Shape(2 * n, d)) / counted(kind, Shape(n, d))
        assert math.log2(doubled) == pytest.approx(cost.in_n, abs=1e-3), kind
    for d in (24, 512):  # they cross at n = d
        for n in (d - 1, d, d + 1):
            products, recurrent, twice, twice_recurrent = (
                counted(kind, Shape(n, width))
                for width in (d, 2 * d)
                for kind in ("products", "recurrent")
            )
            assert np.sign(products - recurrent) == np.sign(n - d)
            assert twice == 2 * products and twice_recurrent == 4 * recurrent
    more: tuple[tuple[LayerKind, dict[str, int], int], ...] = (
        ("convolution", {"kernel": 5}, 2 * 50 * 20**2),
        ("restricted", {"window": 8}, 2 * (2 * 50 * 20)),
        ("attention", {"kernel": 5, "window": 8}, 0),
    )
    for kind, change, count in more:
        before = {"kernel": 3, "window": 6}
        grown = counted(kind, Shape(50, 20, **{**before, **change}))
        assert grown - counted(kind, Shape(50, 20, **before)) == count


@pytest.mark.parametrize("first", ["products", "attention", "explicit"])
@pytest.mark.parametrize("second", ["recurrent", "lstm", "convolution"])
def test_counts_cross_where_they_are_equal(first: LayerKind, second: LayerKind) -> None:
    for d in (24, 100):
        least = counted_crossing(first, second, d)
        for n in (1, 2, d // 2, d - 1, d, d + 1, 2 * d, 2 * d + 1, 50 * d):
            more = counted(first, Shape(n, d)) - counted(second, Shape(n, d))
            assert np.sign(more) == np.sign(n - least), n


def test_an_exponent_is_found_within_its_interval() -> None:
    for exponent in (0.0, 1.0, 1.7):
        found = fit_exponent(SIZES, powers(exponent))
        assert found.low <= found.value <= found.high
        assert found.value == pytest.approx(exponent, abs=0.05)
        assert 0 < found.high - found.low < 0.2
    exact = fit_exponent(SIZES, powers(2, noise=0))
    assert (exact.value, exact.low, exact.high) == pytest.approx((2, 2, 2))
    times = powers(1, noise=0)
    times[-1, 3] *= 50  # one slow round
    assert fit_exponent(SIZES, times).value == pytest.approx(1)


def test_a_crossing_is_found_between_two_sizes() -> None:
    # n^2 and 300 n are equal at n = 300.
    found = crossing(SIZES, powers(2), powers(1, 300, rounds=9))
    assert found.value == pytest.approx(300, rel=0.1)
    assert found.low <= found.value <= found.high < 512
    assert crossing(SIZES, powers(2, noise=0), powers(1, 300, noise=0)).value == pytest.approx(300)
    fast, slow = powers(1, noise=0), powers(1, 2, noise=0)
    assert crossing(SIZES, fast, slow).value == math.inf
    assert crossing(SIZES, slow, fast).value == 0
    fast[2] *= 4  # the last change counts, not a bump in the middle
    assert crossing(SIZES, fast, slow).value == math.inf


KINDS: tuple[PathKind, ...] = get_args(PathKind)
SIZED = [
    (kind, size)
    for kind in KINDS
    for size in {"restricted": (2, 6), "convolution": (3, 5), "dilated": (3, 5)}.get(kind, (0,))
]
N = 14


def steps_to(kind: PathKind, size: int, start: int) -> dict[int, int]:
    """Return the fewest steps to each later position, by breadth-first search."""
    found: dict[int, int] = {}
    for step, nodes in enumerate(spread(kind, start, N, N, size)):
        for _, place in nodes:
            if step:
                found.setdefault(place, step)
    return found


@pytest.mark.parametrize(("kind", "size"), SIZED)
def test_routes_follow_edges_and_are_as_short_as_a_search_finds(kind: PathKind, size: int) -> None:
    edges = {}
    for start in range(N - 1):
        found = steps_to(kind, size, start)
        for end in range(start + 1, N):
            assert path_length(kind, end - start, size) == found[end], (start, end)
            nodes = route(kind, start, end, size)
            assert nodes[0][1] == start and nodes[-1][1] == end
            assert len(nodes) == 1 + found[end]
            for node, other in pairwise(nodes):
                if node not in edges:
                    edges[node] = set(successors(kind, node, N, size))
                assert other in edges[node]


def reads(layer: nn.Module, d: int) -> set[tuple[int, int]]:
    """Return the connected (input, output) positions of a layer, from its gradients."""
    x = torch.randn(1, N, d, generator=torch.Generator().manual_seed(1), requires_grad=True)
    y = layer(x)
    found = set()
    for place in range(N):
        (slope,) = torch.autograd.grad(y[0, place].sum(), x, retain_graph=True)
        found |= {(int(source), place) for source in slope[0].abs().sum(-1).nonzero()}
    return found


@pytest.mark.parametrize(
    ("kind", "layer", "size"),
    [("attention", "attention", 0), ("attention", "explicit", 0), ("attention", "products", 0),
     ("restricted", "restricted", 6), ("convolution", "convolution", 5)],
)  # fmt: skip
def test_edges_are_those_of_the_real_layer(kind: PathKind, layer: LayerKind, size: int) -> None:
    torch.manual_seed(0)
    module = build(layer, 12, kernel=size or 3, window=size or 2)
    drawn = {(i, j) for i in range(N) for _, j in successors(kind, (0, i), N, size)}
    assert reads(module, 12) == drawn


@pytest.mark.parametrize("level", [0, 1, 2])
def test_edges_of_dilated_convolutions_are_those_of_pytorch(level: int) -> None:
    kernel, step = 3, 3**level
    torch.manual_seed(0)
    layer = nn.Conv1d(4, 4, kernel, dilation=step)

    class Causal(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = layer(nn.functional.pad(x.mT, ((kernel - 1) * step, 0))).mT
            return output

    drawn = {(i, j) for i in range(N) for _, j in successors("dilated", (level, i), N, kernel)}
    assert reads(Causal(), 4) == drawn
