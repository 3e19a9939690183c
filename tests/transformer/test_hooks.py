import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tiny_models import CONFIGS, SRC, TGT, random_model
from transformer.hooks import (
    Chain,
    Complete,
    HeadGates,
    Hook,
    Hooks,
    Record,
    Replace,
    Site,
    matching,
    sites,
)
from transformer.model import Transformer
from transformer.steps import KVCache
from transformer.types import ATTENTION_KINDS, AttentionKind, InputError

CLOSE = {"atol": 1e-5, "rtol": 1e-4}


def hidden(model: Transformer, hooks: Hook | None) -> Tensor:
    return model.decode(TGT, model.encode(SRC, hooks=hooks), hooks=hooks).hidden


def recorded(model: Transformer) -> Record:
    record = Record(matching())
    hidden(model, record)
    return record


def test_every_site_is_visited_once_in_order_with_its_shape(model: Transformer) -> None:
    record, config = recorded(model), model.config
    assert tuple(record.values) == sites(config)
    for site, (value,) in record.values.items():
        encoder = site.stack == "encoder"
        n_queries = 6 if encoder else 5
        n_keys = 5 if site.kind == "decoder_self" else 6
        h = config.n_heads if encoder else config.decoder_heads
        d_k = config.d_k or config.d_model // h
        d_v = config.d_v or config.d_model // h
        expected = {
            "q": (h, n_queries, d_k), "k": (h, n_keys, d_k), "v": (h, n_keys, d_v),
            "scores": (h, n_queries, n_keys), "weights": (h, n_queries, n_keys),
            "heads": (h, n_queries, d_v),
            "inner": (n_queries, config.d_ff if encoder else config.decoder_inner),
        }.get(site.name, (n_queries, config.d_model))  # fmt: skip
        assert value.shape == (2, *expected), site


def test_records_and_gates_of_one_change_nothing(model: Transformer) -> None:
    plain = hidden(model, None)
    torch.testing.assert_close(hidden(model, Record(matching())), plain, **CLOSE)
    # Without need for explicit weights the same kernel runs.
    assert torch.equal(hidden(model, Record(matching(name="hidden"))), plain)
    config = model.config
    ones = HeadGates.of(config, {(kind, 0, 0): 1.0 for kind in ATTENTION_KINDS})
    assert ones.cross is not None and ones.cross.shape == (
        config.n_decoder_layers, config.decoder_heads,
    )  # fmt: skip
    assert torch.equal(hidden(model, ones), hidden(model, None))


def test_recorded_values_follow_from_each_other(model: Transformer) -> None:
    record, pre = recorded(model), model.config.norm == "pre"
    for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        x = record[Site(stack, None, "embedding", "hidden")]
        for index, layer in enumerate(layers):
            for block in ("self", "cross", "feed_forward")[:: 2 if stack == "encoder" else 1]:

                def value(name: str) -> Tensor:
                    return record[Site(stack, index, block, name)]  # noqa: B023

                norm = getattr(layer, f"around_{block}").norm
                torch.testing.assert_close(value("input"), norm(x) if pre else x)
                after = x + value("output")
                x = value("hidden")
                torch.testing.assert_close(x, after if pre else norm(after))
        norm = model.encoder_norm if stack == "encoder" else model.decoder_norm
        torch.testing.assert_close(record[Site(stack, None, "final", "hidden")], norm(x))

    for kind in ATTENTION_KINDS:
        block = model.attention_block(kind, 0)
        q, k, v, scores, weights, heads, output = (
            record[Site.of(kind, 0, name)]
            for name in ("q", "k", "v", "scores", "weights", "heads", "output")
        )
        added = model.distances(kind, *scores.shape[-2:])
        logits = q @ k.mT / math.sqrt(q.size(-1))
        torch.testing.assert_close(scores, logits if added is None else logits + added)
        torch.testing.assert_close(heads, weights @ v)
        torch.testing.assert_close(output, block.w_o(heads.transpose(1, 2).flatten(2)))


def test_a_site_knows_its_kind_and_gates_of_heads_that_do_not_exist_are_refused() -> None:
    for kind in ATTENTION_KINDS:
        assert Site.of(kind, 3, "q").kind == kind
    assert Site("encoder", None, "final", "hidden").kind is None
    with pytest.raises(ValueError, match="'self' is not one of"):
        Site.of("self", 0, "q")
    config = CONFIGS["a decoder of its own shape"]
    for head in (("encoder_self", 2, 0), ("cross", 0, 2), ("cross", -1, 0)):
        with pytest.raises(ValueError, match=f"{head[0]} has no layer {head[1]}, head {head[2]}"):
            HeadGates.of(config, {head: 0.0})
    with pytest.raises(ValueError, match="'self' is not one of encoder_self"):
        HeadGates.of(config, {("self", 0, 0): 0.0})


def test_a_replaced_hidden_state_is_what_the_rest_reads(model: Transformer) -> None:
    """Activation patching: with another sentence's encoder output, its translation follows."""
    other = SRC.flip(0).clone()
    site = Site("encoder", model.config.n_encoder_layers - 1, "feed_forward", "hidden")
    record = Record([site])
    expected = model.decode(TGT, model.encode(other, hooks=record)).hidden
    # Masks stay those of the sentence itself.
    encoded = model.encode(torch.where(SRC == 0, 4, SRC), hooks=Replace({site: record[site]}))
    found = model.decode(TGT, type(encoded)(encoded.memory, model.encode(other).src_mask)).hidden
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_replaced_weights_are_used_and_recorded(model: Transformer, kind: AttentionKind) -> None:
    """Uniform weights make each head the mean of its values."""
    uniform = Replace({Site.of(kind, 0, "weights"): lambda w: torch.full_like(w, 1 / w.size(-1))})
    record = Record(matching())
    hidden(model, Chain(uniform, record))
    weights, v, heads = (record[Site.of(kind, 0, name)] for name in ("weights", "v", "heads"))
    assert bool((weights == 1 / weights.size(-1)).all())
    torch.testing.assert_close(heads, v.mean(2, keepdim=True).expand_as(heads))
    encoded = model.encode(SRC, hooks=uniform, need_weights=True)
    decoded = model.decode(TGT, encoded, hooks=uniform, need_weights=True)
    maps = {
        "encoder_self": encoded.attention,
        "decoder_self": decoded.self_attention,
        "cross": decoded.cross_attention,
    }
    assert maps[kind] is not None and torch.equal(maps[kind][0], weights)


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_documented_uniform_weights_keep_the_mask(model: Transformer, kind: AttentionKind) -> None:
    """This runs the code in the docstring."""
    (line,) = re.findall(r"^ +(uniform = .+)$", Replace.__doc__ or "", re.MULTILINE)
    names: dict[str, Any] = {"Replace": Replace, "Site": Site, "torch": torch}
    exec(line, names)  # noqa: S102 - from our own docstring
    ((_, change),) = names["uniform"].values.items()
    uniform = Replace({Site.of(kind, 0, "scores"): change})
    assert names["uniform"].values == {Site("decoder", 1, "cross", "scores"): change}
    plain, record = recorded(model), Record(matching())
    hidden(model, Chain(uniform, record))
    site = Site.of(kind, 0, "weights")
    may = plain[site] > 0
    assert not may.all()
    torch.testing.assert_close(record[site], may / may.sum(-1, keepdim=True))


def test_a_chain_is_run_in_order_and_a_record_can_end_the_pass() -> None:
    model = random_model(CONFIGS["post-norm"])
    site = Site("encoder", 1, "self", "heads")
    before, after = Record([site]), Record([site])
    hidden(model, Chain(before, None, Replace({site: lambda x: 2 * x}), after))
    assert torch.equal(after[site], 2 * before[site])
    with pytest.raises(ValueError, match=r"returned \[2, 3, 6\] at Site\(stack='encoder', layer=1"):
        hidden(model, Replace({site: lambda x: x[..., 0]}))
    wanted = [Site("encoder", 0, "self", "q"), Site("encoder", 1, "self", "output")]
    visited = Record(matching())
    with pytest.raises(Complete):
        model.encode(SRC, hooks=Chain(visited, Record(wanted, stop=True)))
    assert list(visited.values)[-1] == wanted[-1]
    with pytest.raises(TypeError, match="collection of sites"):
        Record(matching(name="q"), stop=True)


class Shifted(Hooks):
    """Changes keys and heads depending only on the content of the key or query."""

    def wants(self, site: Site) -> bool:
        return site.name in ("k", "heads", "hidden")

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        return value * 1.1 + 0.01


@pytest.mark.parametrize("explicit", [False, True])
def test_hooks_work_step_by_step_with_a_cache(model: Transformer, explicit: bool) -> None:
    def hooks() -> tuple[Hooks, Record]:
        record = Record(matching(stack="decoder", name="weights" if explicit else "hidden"))
        gates = HeadGates.of(model.config, {("decoder_self", 0, 0): 0.5, ("cross", 0, 0): 0.0})
        return Chain(Shifted(), gates, record), record

    every, whole = hooks()
    encoded = model.encode(SRC, hooks=every)
    expected = model.decode(TGT, encoded, hooks=every).hidden
    (every, steps), cache = hooks(), KVCache()
    found = [
        model.decode(TGT[:, t : t + 1], encoded, cache=cache, hooks=every).hidden for t in range(5)
    ]
    torch.testing.assert_close(torch.cat(found, 1), expected, **CLOSE)
    for site, values in steps.values.items():
        assert len(values) == 5
        for t, value in enumerate(values):
            one_pass = whole[site][..., t : t + 1, :]
            if site.kind == "decoder_self" and site.name == "weights":
                one_pass = one_pass[..., : t + 1]
            torch.testing.assert_close(value, one_pass, **CLOSE)


class Nowhere(Hooks):
    def wants(self, site: Site) -> bool:
        return site.layer == 9


@pytest.mark.parametrize(("hooks", "said"), [
    (Replace({Site("encoder", 2, "self", "q"): lambda x: x}), "layer is one of None, 0, 1 "),
    (Replace({Site("decoder", -1, "cross", "q"): lambda x: x}), "layer=-1.* None, 0 there"),
    (Record([Site("encoder", 0, "cross", "q")]), "block is one of 'self', 'feed_forward' "),
    (Record([Site("decoder", 0, "feed_forward", "weights")]), "name is one of 'input', 'inner"),
    (Record([Site("middle", 0, "self", "q")]), "stack is one of 'encoder', 'decoder'"),
    (Record([Site("decoder", None, "self", "q")]), "block is one of 'embedding', 'final'"),
    (
        Record(matching(layer=7)),
        "Record wants none .*, which has encoder layers 0 to 1, decoder layers 0 to 0",
    ),
    (Chain(lambda site, value: None, Nowhere()), "Nowhere wants none"),
    (HeadGates(cross=torch.ones(3, 2)), r"cross gates \[3, 2\]: the model has 1 such layers"),
    (HeadGates(cross=torch.ones(1, 5, 2)), r"or \[1, 2, heads\] for 2 rows"),
    (HeadGates(encoder_self=torch.ones(2, 1)), "gates of 1 heads; the model has 5"),
    (Replace({Site("encoder", 0, "self", "q"): torch.ones(3, 3, 6, 2)}), "for 2 rows"),
    ({}, "a function of"),
    (Record, "a function of"),
])  # fmt: skip
def test_hooks_on_what_the_model_does_not_have_are_refused(hooks: Hook, said: str) -> None:
    model = random_model(CONFIGS["a decoder of its own shape"])
    with pytest.raises(InputError, match=said):
        model.encode(SRC, hooks=hooks)
    with pytest.raises(InputError, match=said):
        hidden(model, hooks)


@pytest.mark.parametrize("field", ["stack", "block", "name"])
def test_a_test_for_a_name_that_no_site_has_is_refused(field: str) -> None:
    with pytest.raises(InputError, match="'crossattn' is not one of"):
        matching(**{field: "crossattn"})


def test_a_function_is_a_hook_and_may_leave_the_value() -> None:
    model, seen = random_model(CONFIGS["relative positions"]), []
    plain = hidden(model, None)

    def look(site: Site, value: Tensor) -> None:
        seen.append(site)

    torch.testing.assert_close(hidden(model, look), plain, **CLOSE)
    assert tuple(seen) == sites(model.config)
    site = Site("decoder", 0, "self", "hidden")
    nothing = Replace({site: lambda value: None})
    assert torch.equal(hidden(model, nothing), plain)
    expected = hidden(model, Replace({site: lambda value: 2 * value}))

    def double(here: Site, value: Tensor) -> Tensor | None:
        return 2 * value if here == site else None

    for hooks in (double, Chain(nothing, look, double, look)):  # with explicit weights
        torch.testing.assert_close(hidden(model, hooks), expected, **CLOSE)
    with pytest.raises(InputError, match="a hook returned int at Site"):
        hidden(model, lambda site, value: 1)


def test_arrays_of_numpy_are_values_and_gates() -> None:
    model = random_model(CONFIGS["a decoder of its own shape"])
    site = Site("encoder", 1, "self", "hidden")
    value = torch.randn(2, 6, model.config.d_model)
    expected = hidden(model, Replace({site: value}))
    assert torch.equal(hidden(model, Replace({site: value.double().numpy()})), expected)
    table = torch.tensor([[0.0, 0.5]])
    expected = hidden(model, HeadGates(cross=table))
    assert torch.equal(hidden(model, HeadGates(cross=table.numpy())), expected)
