import dataclasses
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headlight
from figures.exhibit import to_csv, to_npz
from tests.factories import make_trace
from tests.riddles import ANIMAL, IT, NOUNS, STEP, STREET, aimed, scene
from transformer.measures.heads import (
    HOWS,
    How,
    Pattern,
    combine,
    combine_chosen,
    divided,
    entropy_bits,
    even_share,
    evenness,
    kept_lines,
    largest_weights,
    mass_by_head,
    mutual_information,
    nats_to_bits,
    pattern_mask,
    pattern_share,
    rank_correlation,
    ranked,
    spread,
    widen,
)
from transformer.measures.referent import best_head, find_referent
from transformer.measures.registered import MEASURES, load_measures, measured, register_measure
from transformer.types import InputError
from ui.export.html import to_html

MAPS = make_trace(S=7, T=5, n_decoder_layers=2, n_heads=3).cross
ALL = tuple(np.ndindex(*MAPS.shape[:2]))
rows = (
    hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 12)),
               elements=st.integers(0, 40).map(float))
    .map(lambda a: a + (a.sum(-1, keepdims=True) == 0))
    .map(lambda a: a / a.sum(-1, keepdims=True))
)  # fmt: skip


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("layer", [None, 0, 1])
@pytest.mark.parametrize("head", [None, 0, 2])
def test_every_cell_of_the_grid_is_combined(how: How, layer: int | None, head: int | None) -> None:
    wide = widen(MAPS, how)
    assert wide.shape == (3, 4, 5, 7)
    row, column = 2 if layer is None else layer, 3 if head is None else head
    np.testing.assert_allclose(combine(MAPS, how, layer, head), wide[row, column], atol=1e-6)
    layers = MAPS if layer is None else MAPS[[layer]]
    chosen = layers if head is None else layers[:, [head]]
    by_hand = chosen.mean(axis=(0, 1)) if how == "mean" else chosen.max(axis=(0, 1))
    np.testing.assert_allclose(wide[row, column], by_hand, atol=1e-6)


@settings(max_examples=40)
@given(st.sets(st.sampled_from(ALL), min_size=1))
def test_chosen_heads_are_combined(chosen: set[tuple[int, int]]) -> None:
    maps = np.stack([MAPS[head] for head in chosen])
    np.testing.assert_allclose(combine_chosen(MAPS, [*chosen]), maps.mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(combine_chosen(MAPS, [*chosen], "max"), maps.max(axis=0))
    with pytest.raises(ValueError, match="no heads"):
        combine_chosen(MAPS, [])


@given(rows, st.floats(0, 1))
def test_kept_lines_hold_the_share_and_no_fewer_would(maps: np.ndarray, mass: float) -> None:
    kept = kept_lines(maps, mass)
    assert kept.shape == maps.shape
    for row, keep in zip(maps.astype(np.float64), kept, strict=True):
        held = row[keep].sum()
        assert held >= mass * row.sum() - 2e-6
        if keep.any():
            # The strongest are kept, and the weakest of them is needed to reach the share.
            assert row[keep].min() >= row[~keep].max(initial=0)
            assert held - row[keep].min() < mass * row.sum()
            assert row[keep].min() > 0


def test_the_ends_of_the_slider_and_equal_weights() -> None:
    assert not kept_lines(MAPS, 0).any()
    np.testing.assert_array_equal(kept_lines(MAPS, 1), MAPS > 0)
    with pytest.raises(ValueError, match=r"mass 1\.5"):
        kept_lines(MAPS, 1.5)
    even = np.full((1, 4), 0.25, dtype=np.float32)  # of equal weights the earlier is kept
    np.testing.assert_array_equal(kept_lines(even, 0.75), [[True, True, True, False]])
    np.testing.assert_array_equal(kept_lines(even, 0.76), [[True] * 4])


@given(st.sets(st.integers(0, 4)), st.sets(st.integers(0, 6)))
def test_weight_on_keys_and_on_all_others_make_one(queries: set[int], keys: set[int]) -> None:
    others = sorted(set(range(7)) - keys)
    on, off = (mass_by_head(MAPS, sorted(queries), k) for k in (sorted(keys), others))
    assert on.shape == (2, 3)
    np.testing.assert_allclose(on + off, 1, atol=1e-6)
    by_hand = MAPS[:, :, sorted(queries) or range(5)][..., sorted(keys)].sum(-1).mean(-1)
    np.testing.assert_allclose(on, by_hand, atol=1e-6)


@given(rows)
def test_mutual_information_is_a_difference_of_entropies(maps: np.ndarray) -> None:
    bits = mutual_information(maps[None, None])[0, 0]
    by_hand = entropy_bits(maps.astype(np.float64).mean(axis=0)) - entropy_bits(maps).mean()
    assert bits == pytest.approx(by_hand, abs=1e-5)
    assert -1e-9 <= bits <= np.log2(min(maps.shape)) + 1e-5


TRACE = make_trace(S=7, T=5, n_encoder_layers=2, n_decoder_layers=3, n_heads=3)
sizes = st.integers(1, 9)


@pytest.mark.parametrize("pattern", ["previous", "itself", "next"])
def test_neighbours_are_those_of_a_loop(pattern: Pattern) -> None:
    step = {"previous": -1, "itself": 0, "next": 1}[pattern]
    maps = TRACE.encoder_self
    rows = [i for i in range(7) if 0 <= i + step < 7]
    by_hand = np.mean([maps[:, :, i, i + step] for i in rows], axis=0)
    shares = pattern_share(maps, pattern_mask(pattern, 7, 7, same=True))
    np.testing.assert_allclose(shares, by_hand, atol=1e-6)
    elsewhere = pattern_mask(pattern, 5, 7, same=False)  # another text has none
    assert pattern_share(TRACE.cross, elsewhere) is None


def test_rows_without_a_choice_do_not_count() -> None:
    masked = pattern_mask("next", 5, 5, same=True, causal=True)
    assert pattern_share(TRACE.decoder_self, masked, causal=True) is None
    itself = pattern_mask("itself", 5, 5, same=True, causal=True)
    shares = pattern_share(TRACE.decoder_self, itself, causal=True)
    by_hand = np.mean([TRACE.decoder_self[:, :, i, i] for i in range(1, 5)], axis=0)
    np.testing.assert_allclose(shares, by_hand, atol=1e-6)
    assert even_share(itself, causal=True) == pytest.approx(np.mean([1 / 2, 1 / 3, 1 / 4, 1 / 5]))


def test_patterns_of_unequal_sides() -> None:
    np.testing.assert_array_equal(
        pattern_mask("diagonal", 2, 5, same=False), [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]
    )
    assert pattern_mask("diagonal", 1, 1, same=False).all()
    assert pattern_mask("first", 2, 3, same=False).sum(axis=0).tolist() == [2, 0, 0]
    assert pattern_mask("end", 2, 3, same=False, special=(0, 2)).sum(axis=0).tolist() == [0, 0, 2]
    # Equal heads keep their order.
    assert ranked(np.array([[0.5, 0.9, 0.5]])) == [((0, 1), 0.9), ((0, 0), 0.5), ((0, 2), 0.5)]
    pair = pattern_mask("pair", 4, 3, same=False, queries=(1,), keys=(0, 2))
    assert np.argwhere(pair).tolist() == [[1, 0], [1, 2]]


def test_entropy_counts_bits() -> None:
    rows = np.array([[1, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0]], dtype=np.float32)
    np.testing.assert_allclose(entropy_bits(rows), [0, 2, 1])
    assert nats_to_bits(np.array([math.log(8)])) == pytest.approx(3)
    even = spread(np.full(8, 0.125, dtype=np.float32))
    assert (even.entropy, even.largest, even.slope) == (3.0, 0.125, 0.875)
    one = spread(np.array([0, 1, 0], dtype=np.float32))
    assert (one.entropy, one.largest, one.slope) == (0.0, 1.0, 0.0)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 7), st.integers(2, 6))
def test_evenness_runs_from_one_key_to_all_keys(layers: int, heads: int, n: int, m: int) -> None:
    even = np.full((layers, heads, n, m), 1 / m, dtype=np.float32)
    np.testing.assert_allclose(evenness(even), 1, atol=1e-6)
    one = np.zeros_like(even)
    one[..., 0] = 1
    one[0, 0] = 1 / m  # so that every key is there to be seen
    spread = evenness(one)
    assert spread.shape == (layers, heads) and spread[0, 0] == pytest.approx(1, abs=1e-6)
    assert not spread.ravel()[1:].any()
    causal = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]  # masked keys do not count
    spread = evenness(np.broadcast_to(causal, (layers, heads, n, n)).astype("f4"))
    np.testing.assert_allclose(spread, 1, atol=1e-6)
    assert not evenness(np.ones((1, heads, 1, 1), dtype="f4")).any()


ROWS = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-30, 30))


@given(ROWS, st.floats(1, 20))
def test_dividing_is_a_softmax_of_the_quotients(dots: np.ndarray, divisor: float) -> None:
    mask = np.arange(len(dots)) <= len(dots) // 2
    weights = divided(dots, mask, divisor)
    expected = torch.tensor(dots[mask] / divisor).softmax(0).numpy()
    np.testing.assert_allclose(weights[mask], expected, atol=1e-12)
    assert not weights[~mask].any()


@pytest.mark.parametrize(("kind", "layer", "head"), [("encoder_self", 2, 4), ("cross", 1, 0)])
def test_the_head_that_singles_out_every_noun_is_found(kind: str, layer: int, head: int) -> None:
    scenes = [aimed(scene(seed), kind, layer, head, ANIMAL) for seed in range(3)]
    scenes[1] = aimed(scenes[1], kind, 0, 0, ANIMAL)  # in one of them alone
    found = [find_referent(each, "it", NOUNS) for each in scenes]
    assert all(found) and best_head(found) == (kind, layer, head)
    one = found[0]
    assert (one.step, one.nouns, one.pronoun) == (STEP, (1, 4), 6)
    assert one.n_heads == one.preferred.size == 3 * 5 + 2 * 5
    # The pieces of "animal" add up.
    assert one.weights_of(kind, layer, head).weights[one.nouns[0]] == pytest.approx(1)


def test_a_head_counts_if_it_looks_there_from_the_pronoun_alone() -> None:
    trace = scene()
    encoder, cross = trace.encoder_self.copy(), trace.cross.copy()
    for maps, row in ((encoder, IT), (cross, STEP)):
        maps[:, :, row, STREET] = maps[:, :, row, list(ANIMAL)].sum(axis=-1)
    even = dataclasses.replace(trace, encoder_self=encoder, cross=cross)
    found = find_referent(even, "it", NOUNS)
    assert best_head([found]) is None and set(found.preferred.tolist()) == {-1}
    stares = aimed(even, "cross", 1, 3, ANIMAL)
    assert best_head([find_referent(stares, "it", NOUNS)]) == ("cross", 1, 3)
    cross = stares.cross.copy()
    cross[1, 3] = cross[1, 3, STEP]
    stares = dataclasses.replace(stares, cross=cross)
    assert best_head([find_referent(stares, "it", NOUNS)]) is None


def test_what_is_not_in_the_sentence_or_not_translated_is_not_found() -> None:
    trace = scene()
    assert find_referent(trace, "she", NOUNS) is None
    assert find_referent(trace, "it", ("animal", "bridge")) is None
    assert find_referent(trace, "it", ()) is None
    assert find_referent(trace, "animal", ("street",)) is None  # a noun after its pronoun
    cross = trace.cross.copy()
    cross[:, :, :, 6] = 2  # every row looks at another word most
    assert find_referent(dataclasses.replace(trace, cross=cross), "it", NOUNS) is None
    signs = ("<s>", "▁die", "▁Katze", ",", "▁auf", "▁der")
    ends = dataclasses.replace(trace, predicted_tokens=(*signs[1:4], ".", "▁der", "</s>"))
    assert find_referent(ends, "it", NOUNS) is None
    without = dataclasses.replace(trace, encoder_self=np.zeros((0, 0, 0, 0), np.float32))
    assert find_referent(without, "it", NOUNS) is None


@given(hnp.arrays(np.float32, (2, 12), elements=st.integers(-3, 3)))
def test_rank_correlation_is_that_of_ranks_counted_one_by_one(pair: np.ndarray) -> None:
    def ranks(values: np.ndarray) -> list[float]:
        return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]

    if len(set(pair[0])) == 1 or len(set(pair[1])) == 1:
        assert math.isnan(rank_correlation(*pair))
        return
    expected = np.corrcoef(ranks(pair[0]), ranks(pair[1]))[0, 1]
    assert rank_correlation(*pair) == pytest.approx(expected, abs=1e-5)
    assert rank_correlation(pair[0], np.exp(pair[0])) == pytest.approx(1)


def test_largest_weights_of_a_row_and_on_average() -> None:
    maps = make_trace(S=6, T=4).cross
    assert np.array_equal(largest_weights(maps, 2), maps[:, :, 2].max(-1))
    np.testing.assert_allclose(largest_weights(maps)[1, 2], np.mean([max(r) for r in maps[1, 2]]))


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = dict(MEASURES)
    yield
    MEASURES.clear()
    MEASURES.update(before)


def test_a_registered_measure_is_a_number_for_each_head() -> None:
    trace = make_trace(S=7, T=5, n_encoder_layers=2, n_decoder_layers=3, n_heads=5)
    headlight.register_measure("peak", lambda maps: maps.max(-1).mean(-1))
    assert np.array_equal(measured("peak", trace.cross), trace.cross.max(-1).mean(-1))
    headlight.register_measure("peak", lambda maps: 3 - 9 * maps.min(axis=(-1, -2)))
    for kind in ("encoder_self", "decoder_self", "cross"):
        figure = headlight.found_heads(trace, "peak", kind)
        plain = 3 - 9 * trace.attention(kind).min(axis=(-1, -2))
        np.testing.assert_allclose(figure.arrays["values"], plain, rtol=1e-6)
        assert to_csv(figure) and to_npz(figure) and to_html(figure) and "peak" in figure.title


@pytest.mark.parametrize(("measure", "said"), [
    (lambda maps: maps / 0 * "x", "failed: "),
    (lambda maps: [][5], "failed: IndexError: list index out of range"),
    (lambda maps: maps.max(), r"returned shape \[\]; expected .* \[3, 5\]"),
    (lambda maps: maps.max(-1), r"returned shape \[3, 5, 4\]; expected .* \[3, 5\]"),
    (lambda maps: maps[..., 0, 0] * np.nan, "returned NaN or infinity"),
    (lambda maps: maps.fill(0), "failed: ValueError: assignment destination is read-only"),
    (lambda maps: int("one\ntwo"), "ValueError: invalid literal"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_a_measure_that_fails_is_one_line(measure: Any, said: str) -> None:
    register_measure("mine", measure)
    maps = make_trace(S=6, T=4, n_decoder_layers=3, n_heads=5).cross
    maps.setflags(write=False)
    with pytest.raises(InputError, match=f"^measure “mine” .*{said}") as caught:
        measured("mine", maps)
    assert "\n" not in str(caught.value)


def test_names_and_functions_are_checked() -> None:
    for name in ("", "  ", "x" * 41, "a\nb"):
        with pytest.raises(InputError, match="expected 1 to 40 printable characters"):
            register_measure(name, np.max)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is 5; expected a function of maps"):
        register_measure("five", 5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown measure “none”"):
        measured("none", np.zeros((1, 1, 2, 2), np.float32))
    with pytest.raises(InputError, match=r"no row of cross has the pattern 'previous'"):
        headlight.found_heads(make_trace(), "previous", "cross")


def test_modules_of_others_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "outside_one.py").write_text(
        "import headlight\nheadlight.register_measure('first key', lambda m: m[..., 0].mean(-1))\n"
    )
    (tmp_path / "outside_two.py").write_text("raise KeyError('no')\n")
    load_measures("")
    load_measures("outside_one, ")
    maps = make_trace().cross
    assert np.array_equal(measured("first key", maps), maps[..., 0].mean(-1))
    with pytest.raises(InputError, match=r"“outside_two” .* failed to import: KeyError: 'no'"):
        load_measures("outside_one,outside_two")
    with pytest.raises(InputError, match=r"“not_there” .* ModuleNotFoundError"):
        load_measures("not_there")
    sys.modules.pop("outside_one")
