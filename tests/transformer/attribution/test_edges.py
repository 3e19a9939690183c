"""Measures of edges against plain loops over the definitions, and their identities."""

import dataclasses
import math
from typing import Literal

import numpy as np
import pytest
import torch

from tests.factories import make_trace
from tests.tiny_models import random_model
from transformer.attribution.cells import reasons, score_without, trials
from transformer.attribution.edges import MEASURES, edges, effects, mix, row_shares
from transformer.config import ModelConfig
from transformer.edits.model import edited
from transformer.hooks import Record, Site
from transformer.model import Transformer
from transformer.trace.parts import Part
from transformer.trace.records import Trace
from transformer.trace.removals import with_edits
from transformer.types import ATTENTION_KINDS, AttentionKind

SRC, TGT, NEXT = (5, 9, 7, 12, 21, 2), (1, 6, 11, 17), (6, 11, 17, 2)


def followed(model: Transformer) -> Trace:
    """Return the trace of `SRC` and `TGT`, with the model's own maps."""
    with torch.inference_mode():
        encoded = model.encode(torch.tensor([SRC]), need_weights=True)
        decoded = model.decode(torch.tensor([TGT]), encoded, need_weights=True)
    maps = encoded.attention, decoded.self_attention, decoded.cross_attention
    return dataclasses.replace(
        make_trace(S=len(SRC), T=len(TGT)), src_ids=SRC, tgt_ids=TGT, predicted_ids=NEXT,
        **{kind: each[:, 0].numpy() for kind, each in zip(ATTENTION_KINDS, maps, strict=True)},
    )  # fmt: skip


@pytest.fixture
def trace(model: Transformer) -> Trace:
    return followed(model)


def states(model: Transformer, trace: Trace) -> Record:
    record = Record(lambda site: True)
    with torch.inference_mode():
        model(torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_ids]), record)
    return record


def plain(
    model: Transformer, trace: Trace, kind: AttentionKind, layer: int, heads: range
) -> dict[str, np.ndarray]:
    """Return all measures of some heads of a block by loops over queries and keys."""
    record = states(model, trace)

    def value(name: str) -> np.ndarray:
        return record[Site.of(kind, layer, name)][0].double().numpy()  # type: ignore[arg-type]

    block = model.attention_block(kind, layer)
    w_o = block.w_o.weight.double().numpy()
    weights, v, output, added = (value(name) for name in ("weights", "v", "hidden", "output"))
    order = ["embedding", *(("self", "feed_forward") if kind == "encoder_self" else
                            ("self", "cross", "feed_forward"))]  # fmt: skip
    stack = "encoder" if kind == "encoder_self" else "decoder"
    place = order.index("cross" if kind == "cross" else "self")
    before = (
        Site(stack, layer, order[place - 1], "hidden") if place > 1  # type: ignore[arg-type]
        else Site(stack, None, "embedding", "hidden") if layer == 0
        else Site(stack, layer - 1, "feed_forward", "hidden")
    )  # fmt: skip
    stream = record[before][0].double().numpy()
    pre = model.config.norm == "pre"
    layer_module = (model.encoder if stack == "encoder" else model.decoder)[layer]
    around = layer_module.around_cross if kind == "cross" else layer_module.around_self
    gain, shift = (part.double().numpy() for part in (around.norm.weight, around.norm.bias))

    def normalise(x: np.ndarray) -> np.ndarray:
        if pre:
            return x
        return (x - x.mean()) / math.sqrt(x.var() + around.norm.eps) * gain + shift

    def linear(x: np.ndarray, total: np.ndarray) -> np.ndarray:
        return x if pre else (x - x.mean()) / math.sqrt(total.var() + around.norm.eps) * gain

    n, m = weights.shape[1:]
    result = {name: np.zeros((n, m)) for name in ("norm", "zeroing", "contribution")}
    result["stream"] = np.zeros(n)
    for i in range(n):
        total, y = stream[i] + added[i], output[i]
        for j in range(m):
            taken = np.zeros(len(y))
            for head in heads:
                columns = slice(head * block.d_v, (head + 1) * block.d_v)
                taken += weights[head, i, j] * (w_o[:, columns] @ v[head, j])
            result["norm"][i, j] = math.sqrt((taken**2).sum())
            without = normalise(total - taken)
            cosine = without @ y / math.sqrt((without @ without) * (y @ y))
            result["zeroing"][i, j] = 1 - cosine
            whole = len(heads) == block.n_heads
            if whole and kind != "cross" and i == j and (len(weights) > 1 or block.n_heads == 1):
                taken = taken + stream[i]
            distance = np.abs(y - linear(taken, total)).sum()
            result["contribution"][i, j] = max(0.0, np.abs(y).sum() - distance)
        if kind == "cross":
            distance = np.abs(y - linear(stream[i], total)).sum()
            result["stream"][i] = max(0.0, np.abs(y).sum() - distance)
    return result


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_measures_are_those_of_plain_loops(
    model: Transformer, trace: Trace, kind: AttentionKind
) -> None:
    last = trace.attention(kind).shape[0] - 1
    n_heads = model.attention_block(kind, last).n_heads
    joint = plain(model, trace, kind, last, range(n_heads))
    for measure in ("norm", "zeroing", "contribution"):
        result = edges(model, trace, measure)
        np.testing.assert_allclose(result.blocks[kind][last], joint[measure], atol=1e-4)
        np.testing.assert_allclose(result.heads[kind].shape, trace.attention(kind).shape)
        if n_heads > 1:
            single = plain(model, trace, kind, last, range(1, 2))
            np.testing.assert_allclose(result.heads[kind][last, 1], single[measure], atol=1e-4)
        stream = joint["stream"] if measure == "contribution" else 0
        np.testing.assert_allclose(
            result.streams[kind][last], stream + np.zeros(len(joint["norm"])), atol=1e-4
        )
        assert result.gap < 1e-4


def test_masked_edges_are_worth_nothing_and_rows_share_one(
    model: Transformer, trace: Trace
) -> None:
    for measure in MEASURES:
        result = edges(model, trace, measure)
        later = np.triu(np.ones((len(TGT), len(TGT)), bool), 1)
        assert not result.heads["decoder_self"][..., later].any()
        for kind in ATTENTION_KINDS:
            rows = row_shares(result.blocks[kind], result.streams[kind]).sum(-1)
            rest = result.streams[kind] / (result.blocks[kind].sum(-1) + result.streams[kind])
            np.testing.assert_allclose(rows + rest, 1, atol=1e-5)
    assert not row_shares(np.zeros((2, 3), np.float32)).any()


def test_a_head_whose_values_are_zero_adds_nothing(model: Transformer, trace: Trace) -> None:
    without = edited(model, "off cross.1.1")
    for measure in ("norm", "zeroing", "contribution"):
        np.testing.assert_allclose(
            edges(without, trace, measure).heads["cross"][0, 0], 0, atol=1e-9
        )


@pytest.mark.parametrize("edits", [
    "skip decoder.1; skip encoder.1", "no residual decoder.1", "scale cross.1 0.5; uniform cross",
])  # fmt: skip
def test_parts_and_biases_give_back_the_output(
    model: Transformer, trace: Trace, edits: str
) -> None:
    assert edges(edited(model, edits), trace, "contribution").gap < 1e-4


def test_progress_counts_the_blocks(model: Transformer, trace: Trace) -> None:
    calls: list[tuple[int, int]] = []
    edges(model, trace, "norm", progress=lambda *done: calls.append(done))
    n = len(model.encoder) + 2 * len(model.decoder)
    assert calls == [(done, n) for done in range(1, n + 1)]


def test_shares_of_source_and_prefix_are_products_of_layers(
    model: Transformer, trace: Trace
) -> None:
    result = edges(model, trace, "contribution")
    found = mix(result)
    np.testing.assert_allclose(found.source.sum(-1) + found.prefix.sum(-1), 1, atol=1e-5)
    # The same by following one prediction down, layer by layer.
    read = np.eye(len(SRC))
    for layer in result.blocks["encoder_self"]:
        read = layer / layer.sum(-1, keepdims=True) @ read
    for t in range(len(TGT)):
        own, source = np.eye(len(TGT))[t], np.zeros(len(SRC))
        for n in reversed(range(len(model.decoder))):
            cross, stream = result.blocks["cross"][n], result.streams["cross"][n]
            total = cross.sum(-1) + stream
            source = source + own @ (cross / total[:, None]) @ read
            kept = own * stream / total
            layer = result.blocks["decoder_self"][n]
            own = kept @ (layer / layer.sum(-1, keepdims=True))
        np.testing.assert_allclose(found.source[t], source, atol=1e-5)
        np.testing.assert_allclose(found.prefix[t], own, atol=1e-5)


@pytest.mark.parametrize("kind", ["decoder_self", "cross"])
def test_an_effect_is_that_of_the_cut(
    model: Transformer, trace: Trace, kind: AttentionKind
) -> None:
    place = "decoder" if kind == "decoder_self" else "cross"
    for layer, head in ((None, None), (0, None), (0, 0)):
        at = "".join(f".{n + 1}" for n in (layer, head) if n is not None)
        found = effects(model, trace, kind, layer, head, excluded=(3,))
        for t, j in ((0, 0), (2, 1), (3, 3), (3, 0)):
            cut = f"cut {place}{at} q{t + 1} k{j + 1}"
            change = with_edits(model, trace, [cut], excluded=(3,))[0, t]
            assert found[t, j] == pytest.approx(change, abs=1e-5), (at, t, j)


def test_effects_read_each_edge_once_above_the_cut(
    model: Transformer, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.attribution.edges._EDGES", 7)
    last, sizes = len(model.decoder) - 1, list[list[int]]()
    for n, layer in enumerate(model.decoder):
        sizes.append([])
        layer.register_forward_hook(
            lambda _, args, out, n=n: sizes[n].append(args[0].shape[0] * args[0].shape[1])
        )
    done: list[tuple[int, int]] = []
    effects(model, trace, "cross", last, progress=lambda *now: done.append(now))
    edges = [7, 7, 7, 3]  # 4 steps and 6 keys
    assert sizes == [[len(TGT)]] * last + [[len(TGT), *edges]]
    assert done == [(7, 24), (14, 24), (21, 24), (24, 24)]
    effects(model, trace, "decoder_self")
    assert [row[-3:] for row in sizes] == [[len(TGT), 7, 3]] * (last + 1)


@pytest.mark.parametrize("edits", [
    "skip decoder.1; no residual decoder.2", "uniform decoder; scale cross.1 0.5; swap qk cross",
    "no positions; no scaling decoder.2", "cut decoder.1 q3 k1; cut cross q2 k4",
])  # fmt: skip
def test_effects_in_an_edited_model_are_those_of_one_more_cut(
    model: Transformer, trace: Trace, edits: str
) -> None:
    if len(model.decoder) < 2:
        pytest.skip("the edits name a second layer")
    other = edited(model, edits)
    for kind, place in (("decoder_self", "decoder.2"), ("cross", "cross.2.1")):
        head = 0 if kind == "cross" and model.config.decoder_heads > 1 else None
        found = effects(other, trace, kind, 1, head, excluded=(3,))  # type: ignore[arg-type]
        place = place if head is not None else place.removesuffix(".1")
        edges = (0, 0), (2, 0), (2, 1), (3, 1), (3, 3)
        cuts = [f"{edits}; cut {place} q{t + 1} k{j + 1}" for t, j in edges]
        before, *after = with_edits(model, trace, [edits, *cuts], excluded=(3,))
        for (t, j), changes in zip(edges, after, strict=True):
            assert found[t, j] == pytest.approx(changes[t] - before[t], abs=1e-5), (kind, t, j)
    with pytest.raises(ValueError, match="expected decoder_self or cross"):
        effects(model, trace, "encoder_self")
    with pytest.raises(ValueError, match="layer=9 does not exist"):
        effects(model, trace, "cross", 9)


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_parts_of_a_score_add_up_to_it(
    model: Transformer, trace: Trace, kind: AttentionKind
) -> None:
    n_layers, n_heads, n, _ = trace.attention(kind).shape
    for layer, head, query, key in ((0, 0, n - 1, 1), (n_layers - 1, n_heads - 1, 2, 0)):
        found = reasons(model, trace, kind, layer, head, query, key)
        assert found.shares.sum(dtype=np.float64) + found.relative == pytest.approx(
            found.score, abs=1e-4
        )
        own = states(model, trace)[Site.of(kind, layer, "scores")][0, head, query, key]
        assert found.score == pytest.approx(float(own), abs=1e-5)
        assert len(set(found.query_parts)) == len(found.query_parts)


@pytest.mark.parametrize("edits", ["skip encoder.1", "no residual encoder.1", "off encoder.1.1"])
def test_parts_of_an_edited_model_add_up_too(model: Transformer, trace: Trace, edits: str) -> None:
    found = reasons(edited(model, edits), trace, "cross", 0, 0, 1, 2)
    assert found.shares.sum(dtype=np.float64) + found.relative == pytest.approx(
        found.score, abs=1e-4
    )


def test_a_part_of_the_last_step_alone_is_measured_as_predicted() -> None:
    """A pre-norm model without LayerNorm in between would be linear; one layer up is close."""
    model = random_model(ModelConfig(
        vocab_size=30, d_model=24, n_heads=3, d_ff=20, n_encoder_layers=2, n_decoder_layers=1,
    ))  # fmt: skip
    trace = followed(model)
    place = ("encoder_self", 0, 1, 3, 2)
    found = reasons(model, trace, *place)  # type: ignore[arg-type]
    position = Part("encoder", "position")
    after = score_without(model, trace, *place, position)  # type: ignore[arg-type]
    # Before the first block of a post-norm model nothing is normalised: prediction is exact.
    assert after - found.score == pytest.approx(-found.share_of(position), abs=1e-4)
    with pytest.raises(ValueError, match="biases occur in many places"):
        score_without(model, trace, *place, Part("encoder", "bias"))  # type: ignore[arg-type]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_parts_of_a_deep_model_are_shown_in_groups(norm: Literal["post", "pre"]) -> None:
    model = random_model(ModelConfig(
        vocab_size=30, d_model=20, n_heads=5, d_ff=12, n_encoder_layers=6, n_decoder_layers=7,
        norm=norm,
    ))  # fmt: skip
    split = reasons(model, followed(model), "cross", 6, 4, 3, 5)
    assert (len(split.query_parts), len(split.key_parts)) == (3 + 6 * 11 + 5, 3 + 6 * 6)
    for most in (4, 100):
        of_query, of_key, shares = split.grouped(most)
        assert shares.shape == (len(of_query), len(of_key))
        assert shares.sum(dtype=np.float64) == pytest.approx(split.score, abs=1e-4)
    assert None not in of_query + of_key
    of_query, of_key, shares = split.grouped(4)
    assert of_query[-1] is None and of_key[-1] is None
    for row, part in enumerate(of_query[:-1]):
        own = split.shares[split.query_parts.index(part)]  # type: ignore[arg-type]
        assert shares[row].sum() == pytest.approx(own.sum(), abs=1e-5)
        smaller = [np.abs(each).sum() for each in split.shares]
        assert np.abs(own).sum() >= sorted(smaller)[-4]


def test_the_largest_parts_are_taken_out(model: Transformer, trace: Trace) -> None:
    place = ("decoder_self", len(model.decoder) - 1, 0, 3, 1)
    split = reasons(model, trace, *place)  # type: ignore[arg-type]
    results = trials(model, trace, split, 3)
    parts = {*split.query_parts} - {Part("decoder", "bias")}
    largest = sorted((abs(split.share_of(part)) for part in parts), reverse=True)[:3]
    assert [abs(trial.predicted) for trial in results] == largest
    for trial in results:
        after = score_without(model, trace, *place, trial.part)  # type: ignore[arg-type]
        assert trial.measured == after - split.score
