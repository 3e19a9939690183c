"""The language of edits, and its edits in a model."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.tiny_models import CONFIGS, SRC, TGT
from tests.transformer.edits.plain import PAIRS, PlainEdits
from transformer.edits.language import (
    VERBS,
    Edit,
    heads_off,
    in_words,
    off_edits,
    parse_edit,
    parse_edits,
    text_of,
)
from transformer.edits.means import head_means
from transformer.edits.model import edited
from transformer.errors import InputError
from transformer.hooks import Record, Site, matching
from transformer.model import Transformer
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools

NUMBERS = st.integers(0, 999)
MAYBE = st.none() | NUMBERS
HEADS = st.fixed_dictionaries({"where": st.sampled_from(["encoder", "decoder", "cross"])}).flatmap(
    lambda kind: st.one_of(
        st.just(kind),
        st.fixed_dictionaries({"layer": NUMBERS, "index": MAYBE}).map(lambda n: {**kind, **n}),
    )
)
STACKS = st.fixed_dictionaries({"where": st.sampled_from(["encoder", "decoder"])})


def of(verb: str, *parts: st.SearchStrategy[dict[str, object]]) -> st.SearchStrategy[Edit]:
    def made(given: tuple[dict[str, object], ...]) -> Edit:
        fields = {name: value for part in given for name, value in part.items()}
        return Edit(verb, **fields)  # type: ignore[arg-type]

    return st.tuples(*parts).map(made)


def some(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(fields)


EDITS = st.one_of(
    *(of(verb, HEADS) for verb in ("off", "mean", "uniform", "swap qk", "no scaling")),
    of("scale", HEADS, some(value=st.floats(0, 4))),
    of("cut", HEADS, some(query=NUMBERS, key=MAYBE)),
    of("cut", HEADS, some(key=NUMBERS)),
    *(of(verb, STACKS, some(layer=NUMBERS)) for verb in ("skip", "ffn off", "no residual")),
    of("neuron", STACKS, some(layer=NUMBERS, index=NUMBERS, value=st.floats(-1e4, 1e4))),
    of("shift positions", some(value=st.integers(1, 1000).map(float))),
    of("no positions", some(where=st.sampled_from([None, "encoder", "decoder"]))),
    of("no mask", some(where=st.sampled_from([None, "decoder"]))),
)


@given(EDITS)
def test_an_edit_is_read_as_it_is_written(edit: Edit) -> None:
    assert parse_edit(str(edit)) == edit
    assert parse_edit(f"  {str(edit).replace(' ', '   ')} ") == edit


@given(st.lists(EDITS, max_size=6, unique_by=lambda e: (e.verb, e.where, e.layer, e.index)))
def test_edits_are_a_set(edits: list[Edit]) -> None:
    found = parse_edits(edits)
    assert parse_edits(text_of(found)) == found and set(found) == set(edits)
    assert parse_edits([*random.Random(1).sample(edits, len(edits)), *edits]) == found


def test_a_step_of_the_link_is_read_as_its_edits_and_its_heads_are_named_together() -> None:
    found = parse_edits("off cross.3.5,off cross.1.2; skip decoder.1")
    assert found == parse_edits(["skip decoder.1", "off cross.1.2", "off cross.3.5"])
    assert in_words(found) == ["cross-attention heads 1.2, 3.5 off", "decoder layer 1 skipped"]


@given(
    hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5)),
    st.sampled_from(ATTENTION_KINDS),
)
def test_heads_are_out_by_the_edits_that_take_them_out(off: Bools, kind: AttentionKind) -> None:
    edits, shape = off_edits(kind, off), (off.shape[0], off.shape[1])
    for other in ATTENTION_KINDS:
        assert (heads_off(edits, other, shape) == (off & (other == kind))).all()
    whole = [edit for edit in edits if edit.index is None]
    assert len(edits) == (1 if off.all() else int(off.sum()) - (off.shape[1] - 1) * len(whole))
    silent = parse_edits("scale cross.1 0; scale cross.1.1 2; uniform cross; mean cross.1")
    assert (
        heads_off(silent, "cross", shape)[0].all() and not heads_off(silent, kind, shape)[1:].any()
    )


@given(st.text(max_size=100) | st.lists(st.sampled_from(
    [*VERBS, "cross.3.5", "decoder.1", "0.5", "q1", "k1", "-1", "1.1.1.1", "²", "\u0661"]
)).map(" ".join))  # fmt: skip
def test_any_text_is_an_edit_or_one_line(text: str) -> None:
    try:
        edit = parse_edit(text)
    except InputError as error:
        reason = str(error)
        assert text[:40] in reason
    else:
        assert parse_edit(str(edit)) == edit


@pytest.mark.parametrize(("text", "reason"), [
    ("of cross.1", "begins with none of off, scale, mean, "),
    ("off", "names no place, such as cross.3.5"),
    ("off memory.1", "“memory” is not encoder or decoder or cross"),
    ("off cross.0", "“cross.0” is no place"),
    ("off cross.1.2 3", "“3” is too much"),
    ("scale cross.1 4.5", "“4.5” is not a number from 0 to 4"),
    ("shift positions 1.5", "is not a whole number from 1 to 1000"),
    ("cut cross", "names neither a query such as q4 nor a key such as k2"),
    ("cut cross q1 q2", "“q2” is not one query"),
    ("skip cross.1", "“cross” is not encoder or decoder"),
    ("no mask encoder", "“encoder” is not decoder"),
    ("neuron decoder.1 0", "is no place such as decoder.2.713"),
    (["scale cross.1 0.5", "scale cross.1 2"], "are of one thing"),
    ("; ".join(f"off cross.{n}" for n in range(1, 300)), "at most 256"),
])  # fmt: skip
def test_a_bad_edit_is_one_line_with_the_reason(text: str | list[str], reason: str) -> None:
    with pytest.raises(InputError, match="edit") as raised:
        parse_edits(text)
    assert reason in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "there"), [
    ("off encoder.3", "encoder has layers 1 to 2"),
    ("uniform decoder.1.3", "decoder layers have heads 1 to 2"),
    ("neuron encoder.1.13 0", "encoder layers have neurons 1 to 12"),
    ("neuron decoder.1.29 0", "decoder layers have neurons 1 to 28"),
])  # fmt: skip
def test_the_refusal_names_what_a_model_has(text: str, there: str) -> None:
    with pytest.raises(InputError, match=there):
        parse_edit(text).check(CONFIGS["a decoder of its own shape"])


CLOSE = {"atol": 2e-5, "rtol": 2e-4}


@pytest.mark.parametrize("edits", [
    "off cross.{last}.{head}; scale encoder.1.1 2.5; scale decoder.1 0.5",
    "uniform encoder.1.1; uniform decoder", "cut cross k2; cut decoder.1.1 q3 k1",
    "cut decoder.1 q1 k1", "mean cross.1; scale cross 0.5", "ffn off decoder.{last}",
    "neuron encoder.1.4 -1.5; neuron encoder.1.1 0.25", "skip decoder.1", "skip encoder.1",
    "no residual encoder.1", "no positions encoder", "shift positions 3",
    "no scaling decoder; no scaling cross", "swap qk encoder", "no mask decoder.1",
])  # fmt: skip
def test_each_edit_is_a_plain_hook(model: Transformer, edits: str) -> None:
    config, means = model.config, head_means(model, PAIRS)
    edits = edits.format(last=config.n_decoder_layers, head=config.decoder_heads)
    if config.positions == "relative" and "shift" in edits:
        with pytest.raises(InputError, match="are distances, which no shift changes"):
            edited(model, edits)
        return
    plain, record = PlainEdits(model, edits, means), Record(matching(name="weights"))
    expected = model(SRC[:1], TGT[:1], plain)
    torch.testing.assert_close(edited(model, edits, means)(SRC[:1], TGT[:1], record), expected,
                               **CLOSE)  # fmt: skip
    for site, weights in record.values.items():
        torch.testing.assert_close(weights[0], plain.seen[site], **CLOSE)


def test_means(model: Transformer) -> None:
    means = head_means(model, PAIRS)
    site = Site("decoder", 0, "cross", "heads")
    seen = []
    for src, tgt in PAIRS:
        record = Record([site])
        model(torch.tensor([src]), torch.tensor([tgt]), record)
        seen.append(record[site][0])
    plain = torch.cat(seen, dim=1).mean(1)  # [H, d_v]
    torch.testing.assert_close(means["cross", 0], plain, atol=1e-6, rtol=1e-5)
    with pytest.raises(InputError, match="means are not known"):
        edited(model, "mean cross.1")


def test_an_edited_model_shares_what_is_not_edited(model: Transformer) -> None:
    before = {name: each.clone() for name, each in model.state_dict().items()}
    verbs = {
        "off": "cross.1", "uniform": "encoder", "cut": "cross k1", "ffn off": "decoder.1",
        "neuron": "encoder.1.1 0", "skip": "encoder.1", "no residual": "decoder.1",
        "swap qk": "decoder", "scale": "cross 2", "shift positions": "2",
    }  # fmt: skip
    for verb in VERBS:
        if verb == "mean" or ("shift" in verb and model.config.positions == "relative"):
            continue
        other = edited(model, f"{verb} {verbs.get(verb, '')}")
        assert type(model) is Transformer and not torch.equal(other(SRC, TGT), model(SRC, TGT)), (
            verb
        )
        shared = {each.data_ptr() for each in model.parameters()}
        own = sum(each.numel() for each in other.parameters() if each.data_ptr() not in shared)
        assert own < 0.5 * model.n_parameters
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
