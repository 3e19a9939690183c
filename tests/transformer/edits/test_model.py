"""The edited model, against hooks on the original and against plain formulas."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.tiny_models import SENTENCES, random_model, uneven_model
from tests.transformer.test_model import CONFIGS, SRC, TGT
from transformer.edits.language import VERBS, parse_edit
from transformer.edits.means import head_means
from transformer.edits.model import edited
from transformer.errors import InputError
from transformer.execution import Fast, Reference
from transformer.hooks import Chain, HeadGates, Hook, Record, Site, matching
from transformer.model import Transformer
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator

CLOSE = {"atol": 2e-5, "rtol": 2e-4}
#: Pairs without padding, of unequal lengths.
PAIRS = [([5, 9, 7, 12, 21, 2], [1, 6, 11]), ([14, 8, 2], [1, 17, 4, 9])]


@pytest.fixture(params=CONFIGS)
def model(request: pytest.FixtureRequest) -> Transformer:
    return random_model(CONFIGS[request.param], seed=4)


def recorded(model: Transformer, hook: Hook | None = None) -> Record:
    record = Record(matching())
    hooks = Chain(hook, record)
    model.decode(TGT, model.encode(SRC, hooks=hooks), hooks=hooks)
    return record


def at(name: str, change: Callable[[Tensor], Tensor], **where: object) -> Hook:
    """A hook that changes a value wherever a site's fields are those given."""

    def hook(site: Site, value: Tensor) -> Tensor | None:
        here = all(getattr(site, field) == wanted for field, wanted in where.items())
        return change(value) if here and site.name == name else None

    return hook


def masked(value: Tensor, at: tuple[object, ...], fill: float) -> Tensor:
    value = value.clone()
    value[at] = fill
    return value


def agree(found: Record, expected: Record, *, values: bool = True) -> None:
    """All maps, and all that leaves a block, are the same where tokens are no padding."""
    for site, value in expected.values.items():
        if site.name in ("weights", "hidden") and values:
            real = [(0, slice(None)), (1, slice(0, 4 if site.stack == "encoder" else 3))]
            for row, here in real:
                both = (each[0][row][..., here, :] for each in (found.values[site], value))
                torch.testing.assert_close(
                    *both, **CLOSE, msg=lambda text, at=site: f"{at}: {text}"
                )


def test_heads_off_scaled_and_uniform(model: Transformer) -> None:
    last, head = model.config.n_decoder_layers, model.config.decoder_heads
    gates = HeadGates.of(model.config, {
        ("cross", last - 1, head - 1): 0.0, ("encoder_self", 0, 0): 2.5,
        **{("decoder_self", 0, each): 0.5 for each in range(head)},
    })  # fmt: skip
    same = f"off cross.{last}.{head}; scale encoder.1.1 2.5; scale decoder.1 0.5"
    agree(recorded(edited(model, same)), recorded(model, gates))
    even = at("scores", torch.zeros_like, block="self")
    agree(recorded(edited(model, "uniform encoder; uniform decoder")), recorded(model, even))
    one = at("scores", lambda x: masked(x, (slice(None), 0), 0.0), stack="encoder", layer=0)
    agree(recorded(edited(model, "uniform encoder.1.1")), recorded(model, one))


def test_cut_edges(model: Transformer) -> None:
    every = slice(None)
    two = Chain(
        at("scores", lambda x: masked(x, (every, every, every, 1), -math.inf), block="cross"),
        at("scores", lambda x: masked(x, (every, 0, 2, 0), -math.inf), stack="decoder", layer=0,
           block="self"),
    )  # fmt: skip
    agree(recorded(edited(model, "cut cross k2; cut decoder.1.1 q3 k1")), recorded(model, two))
    # The first position sees itself only; without that edge it reads nothing.
    nothing = recorded(edited(model, "cut decoder.1 q1 k1"))
    assert not nothing[Site("decoder", 0, "self", "weights")][:, :, 0].any()
    assert not nothing[Site("decoder", 0, "self", "heads")][:, :, 0].any()
    assert recorded(edited(model, "cut cross q2"))[Site("decoder", 0, "cross", "heads")][
        :, :, 0
    ].all()


def test_means(model: Transformer) -> None:
    means = head_means(model, PAIRS)
    site = Site("decoder", 0, "cross", "heads")
    seen = []
    for src, tgt in PAIRS:
        record = Record([site])
        encoded = model.encode(torch.tensor([src]))
        model.decode(torch.tensor([tgt]), encoded, hooks=record)
        seen.append(record[site][0])
    plain = torch.cat(seen, dim=1).mean(1)  # [H, d_v]
    torch.testing.assert_close(means["cross", 0], plain, atol=1e-6, rtol=1e-5)
    held = at(
        "heads", lambda x: plain[:, None].expand_as(x), stack="decoder", block="cross", layer=0
    )
    agree(recorded(edited(model, "mean cross.1", means)), recorded(model, held))
    half = at("heads", lambda x: 0.5 * plain[:, None].expand_as(x), stack="decoder", block="cross",
              layer=0)  # fmt: skip
    both = edited(model, "mean cross.1; scale cross 0.5", means)
    agree(recorded(both), recorded(edited(model, "scale cross 0.5"), half))
    with pytest.raises(InputError, match="means are not known"):
        edited(model, "mean cross.1")


def test_feed_forward_networks_neurons_and_layers(model: Transformer) -> None:
    off = at("output", torch.zeros_like, stack="decoder", layer=1 % model.config.n_decoder_layers,
             block="feed_forward")  # fmt: skip
    layer = 1 + 1 % model.config.n_decoder_layers
    agree(recorded(edited(model, f"ffn off decoder.{layer}")), recorded(model, off))
    every = slice(None)
    held = Chain(*(
        at("inner", lambda x, n=n, v=v: masked(x, (every, every, n), v), stack="encoder", layer=0)
        for n, v in ((3, -1.5), (0, 0.25))
    ))  # fmt: skip
    neurons = "neuron encoder.1.4 -1.5; neuron encoder.1.1 0.25"
    agree(recorded(edited(model, neurons)), recorded(model, held))

    kept: list[Tensor] = []

    def skip(site: Site, value: Tensor) -> Tensor | None:
        if site == Site("decoder", None, "embedding", "hidden"):
            kept.append(value)
        return kept[-1] if site == Site("decoder", 0, "feed_forward", "hidden") else None

    skipped, plain = recorded(edited(model, "skip decoder.1")), recorded(model, skip)
    end = Site("decoder", None, "final", "hidden")
    torch.testing.assert_close(skipped[end][0], plain[end][0], **CLOSE)

    def alone(site: Site, value: Tensor) -> Tensor | None:
        if site.stack != "encoder" or site.layer != 0:
            return None
        if site.name == "output":
            kept.append(value)
        around = model.encoder[0].around_self if site.block == "self" else (
            model.encoder[0].around_feed_forward)  # fmt: skip
        if site.name == "hidden":
            return kept[-1] if model.config.norm == "pre" else around.norm(kept[-1])
        return None

    agree(recorded(edited(model, "no residual encoder.1")), recorded(model, alone))


def test_the_ingredients_of_the_paper(model: Transformer) -> None:
    config = model.config
    if config.positions == "relative":
        bare = at("scores", lambda x: x - model.distances("encoder_self", 6, 6), stack="encoder",
                  block="self")  # fmt: skip
        agree(recorded(edited(model, "no positions encoder")), recorded(model, bare))
        with pytest.raises(InputError, match="are distances, which no shift changes"):
            edited(model, "shift positions 1")
    else:
        table = model.src_positions(0, 9)
        for edit, change in (
            ("no positions encoder", lambda x: x - table[:6]),
            ("shift positions 3", lambda x: x + table[3 : 3 + x.size(1)] - table[: x.size(1)]),
        ):
            both = {} if "shift" in edit else {"stack": "encoder"}
            moved = at("hidden", change, block="embedding", **both)
            if config.positions == "learned" and "shift" in edit:
                continue  # the decoder has a table of its own
            agree(recorded(edited(model, edit)), recorded(model, moved))
        root = math.sqrt(config.d_k or config.d_model // config.decoder_heads)
        wide = at("scores", lambda x: x * root, stack="decoder")
        agree(
            recorded(edited(model, "no scaling decoder; no scaling cross")), recorded(model, wide)
        )
        turned = at("scores", lambda x: x.mT, stack="encoder", block="self")
        agree(recorded(edited(model, "swap qk encoder")), recorded(model, turned))

    record = recorded(edited(model, "no mask decoder.1"))
    scores = record[Site("decoder", 0, "self", "scores")]
    weights = record[Site("decoder", 0, "self", "weights")]
    torch.testing.assert_close(weights[0], scores[0].softmax(-1))
    torch.testing.assert_close(weights[1, :, :3, :3], scores[1, :, :3, :3].softmax(-1))
    assert not weights[1, :, :, 3:].any()  # padding


def test_an_edited_model_shares_what_is_not_edited(model: Transformer) -> None:
    before = {name: each.clone() for name, each in model.state_dict().items()}
    ones = edited(model, "scale cross 1; scale encoder.1.1 1")
    assert torch.equal(ones(SRC, TGT), model(SRC, TGT))
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


@pytest.mark.parametrize(("edits", "way"), [
    ("off cross.1.1; scale decoder.2.2 0.5; uniform encoder.1", Fast),
    ("no positions; ffn off decoder.1; swap qk cross", Fast),
    ("cut decoder q3 k1; cut cross q2 k1; cut encoder k2", Reference),
    ("skip decoder.1; neuron decoder.2.3 1; no mask", Reference),
])  # fmt: skip
def test_a_search_computes_what_a_pass_over_its_result_does(
    tiny_tokenizer: Tokenizer, edits: str, way: type
) -> None:
    """A step at a time with a cache, in batches, beams and both executions."""
    translator = Translator(uneven_model(tiny_tokenizer), tiny_tokenizer, device="cpu")
    other = translator.edited(edits)
    assert isinstance(other._batches.executions.choose(), way)
    for trace in other.traces(SENTENCES[:5], beam_size=3, max_length=9):
        assert trace.tgt_ids
        if "no mask" not in edits:
            assert other.forcing_gap(trace) < 1e-5
    fast = other._batches.executions.choose()
    encoded = other.model.encode(SRC[:1])
    torch.testing.assert_close(fast.encode(SRC[:1]).memory, encoded.memory, **CLOSE)
    _, logits = Reference(other.model).read(TGT[:1], encoded)
    torch.testing.assert_close(fast.read(TGT[:1], encoded)[1], logits, **CLOSE)


def test_edits_of_a_translator_add_up(tiny_translator: Translator) -> None:
    one = tiny_translator.edited("mean cross.1.2", sentences=SENTENCES[:4])
    two = one.edited("off cross.1.1")
    assert two.edits == (parse_edit("off cross.1.1"), parse_edit("mean cross.1.2"))
    assert not tiny_translator.edits and tiny_translator.model is not two.model
    with pytest.raises(InputError, match="cross has layers 1 to 3"):
        two.edited("off cross.4")


def test_the_toy_needs_one_head_and_its_positions() -> None:
    toy = Translator.load("checkpoints/reverse-toy", device="cpu")
    right = [text[::-1] for text in ("badcafe", "headlight", "transform")]

    def share(*edits: str) -> float:
        found = toy.edited(*edits).translate([text[::-1] for text in right], 1)
        return sum(a.text == b for a, b in zip(found, right, strict=True)) / len(right)

    assert share() == 1
    assert share("no positions") == 0
    heads = {f"off cross.{layer}.{head}": share(f"off cross.{layer}.{head}")
             for layer in (1, 2) for head in (1, 2)}  # fmt: skip
    assert 0 in heads.values()
    # A head whose slice of W_O is 0 does nothing, so nothing changes without it.
    dead = max(heads, key=heads.__getitem__)
    edit = parse_edit(dead)
    block = toy.model.attention_block("cross", edit.layer or 0)
    start = (edit.index or 0) * block.d_v
    with torch.no_grad():
        block.w_o.weight[:, start : start + block.d_v] = 0
    toy.repack()
    before, after = (each.trace("badcafe", beam_size=1) for each in (toy, toy.edited(dead)))
    assert before.predicted_ids == after.predicted_ids
    assert after.log_probs == pytest.approx(before.log_probs, abs=1e-6)
