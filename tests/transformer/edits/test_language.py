import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.tiny_models import CONFIGS, SRC, TGT, random_model
from tests.transformer.edits.plain import PAIRS, PlainEdits, PlainSteps
from transformer.config import ModelConfig
from transformer.edits import language
from transformer.edits.model import Means, edited, head_means
from transformer.execution import Fast, Reference
from transformer.hooks import Record, Site, matching
from transformer.model import Transformer
from transformer.search.beam import Found, search
from transformer.search.rules import Sampling
from transformer.text.tokenizer import Tokenizer
from transformer.trace.removals import with_edits
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools, InputError

NUMBERS = st.integers(0, 999)
MAYBE = st.none() | NUMBERS
HEADS = st.fixed_dictionaries({"where": st.sampled_from(["encoder", "decoder", "cross"])}).flatmap(
    lambda kind: st.one_of(
        st.just(kind),
        st.fixed_dictionaries({"layer": NUMBERS, "index": MAYBE}).map(lambda n: {**kind, **n}),
    )
)
STACKS = st.fixed_dictionaries({"where": st.sampled_from(["encoder", "decoder"])})


def of(verb: str, *parts: st.SearchStrategy[dict[str, object]]) -> st.SearchStrategy[language.Edit]:
    def made(given: tuple[dict[str, object], ...]) -> language.Edit:
        fields = {name: value for part in given for name, value in part.items()}
        return language.Edit(verb, **fields)  # type: ignore[arg-type]

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
def test_an_edit_is_read_as_it_is_written(edit: language.Edit) -> None:
    assert language.parse_edit(str(edit)) == edit
    assert language.parse_edit(f"  {str(edit).replace(' ', '   ')} ") == edit


@given(st.lists(EDITS, max_size=6, unique_by=lambda e: (e.verb, e.where, e.layer, e.index)))
def test_edits_are_a_set(edits: list[language.Edit]) -> None:
    found = language.parse_edits(edits)
    assert language.parse_edits(language.text_of(found)) == found and set(found) == set(edits)
    assert language.parse_edits([*random.Random(1).sample(edits, len(edits)), *edits]) == found


def test_a_step_of_the_link_is_read_as_its_edits_and_its_heads_are_named_together() -> None:
    found = language.parse_edits("off cross.3.5,off cross.1.2; skip decoder.1")
    assert found == language.parse_edits(["skip decoder.1", "off cross.1.2", "off cross.3.5"])
    assert language.in_words(found) == [
        "cross-attention heads 1.2, 3.5 off",
        "decoder layer 1 skipped",
    ]


@given(
    hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5)),
    st.sampled_from(ATTENTION_KINDS),
)
def test_heads_are_out_by_the_edits_that_take_them_out(off: Bools, kind: AttentionKind) -> None:
    edits, shape = language.off_edits(kind, off), (off.shape[0], off.shape[1])
    for other in ATTENTION_KINDS:
        assert (language.heads_off(edits, other, shape) == (off & (other == kind))).all()
    whole = [edit for edit in edits if edit.index is None]
    assert len(edits) == (1 if off.all() else int(off.sum()) - (off.shape[1] - 1) * len(whole))
    silent = language.parse_edits("scale cross.1 0; scale cross.1.1 2; uniform cross; mean cross.1")
    assert (
        language.heads_off(silent, "cross", shape)[0].all()
        and not language.heads_off(silent, kind, shape)[1:].any()
    )


@given(st.text(max_size=100) | st.lists(st.sampled_from(
    [*language.VERBS, "cross.3.5", "decoder.1", "0.5", "q1", "k1", "-1", "1.1.1.1", "²", "\u0661"]
)).map(" ".join))  # fmt: skip
def test_any_text_is_an_edit_or_one_line(text: str) -> None:
    try:
        edit = language.parse_edit(text)
    except InputError as error:
        reason = str(error)
        assert text[:40] in reason
    else:
        assert language.parse_edit(str(edit)) == edit


@pytest.mark.parametrize(("text", "reason"), [
    ("of cross.1", "unknown verb; expected one of off, scale, mean, "),
    ("off", "no place; expected one such as cross.3.5"),
    ("off memory.1", "unknown place “memory”; expected encoder or decoder or cross"),
    ("off cross.0", "invalid place “cross.0”"),
    ("off cross.1.2 3", "unexpected “3”"),
    ("scale cross.1 4.5", "“4.5”; expected a number from 0 to 4"),
    ("shift positions 1.5", "expected an integer from 1 to 1000"),
    ("cut cross", "no edge; expected a query such as q4 or a key such as k2"),
    ("cut cross q1 q2", "invalid edge “q2”"),
    ("skip cross.1", "unknown place “cross”; expected encoder or decoder"),
    ("no mask encoder", "unknown place “encoder”; expected decoder"),
    ("neuron decoder.1 0", "expected one such as decoder.2.713"),
    (["scale cross.1 0.5", "scale cross.1 2"], "set the same value"),
    ("; ".join(f"off cross.{n}" for n in range(1, 300)), "at most 256"),
])  # fmt: skip
def test_a_bad_edit_is_one_line_with_the_reason(text: str | list[str], reason: str) -> None:
    with pytest.raises(InputError, match="edit") as raised:
        language.parse_edits(text)
    assert reason in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "there"), [
    ("off encoder.3", "encoder has layers 1 to 2"),
    ("uniform decoder.1.3", "decoder layers have heads 1 to 2"),
    ("neuron encoder.1.13 0", "encoder layers have neurons 1 to 12"),
    ("neuron decoder.1.29 0", "decoder layers have neurons 1 to 28"),
])  # fmt: skip
def test_the_refusal_names_what_a_model_has(text: str, there: str) -> None:
    with pytest.raises(InputError, match=there):
        language.parse_edit(text).check(CONFIGS["a decoder of its own shape"])


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
    for verb in language.VERBS:
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


pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


@st.composite
def an_edit(draw: st.DrawFn, config: ModelConfig) -> language.Edit:
    def place(where: str, most: int, least: int = 0) -> dict[str, int]:
        encoder = where == "encoder"
        layers = config.n_encoder_layers if encoder else config.n_decoder_layers
        heads = config.n_heads if encoder else config.decoder_heads
        n = draw(st.integers(least, most))
        found = {"layer": draw(st.integers(0, layers - 1))} if n else {}
        if n == 2:
            size = config.d_ff if encoder else config.decoder_inner
            found["index"] = draw(st.integers(0, (size if verb == "neuron" else heads) - 1))
        return found

    verb = draw(st.sampled_from(language.VERBS))
    if verb == "shift positions":
        return language.Edit(verb, value=float(draw(st.integers(1, 9))))
    of_stacks = not language.Edit(verb).of_heads
    if verb in ("no positions", "no scaling", "no mask") and draw(st.booleans()):
        return language.Edit(verb)
    where: Any = draw(st.sampled_from(list(language.KINDS)[: 2 if of_stacks else 3]))
    where = "decoder" if verb == "no mask" else where
    if verb == "no positions":
        return language.Edit(verb, where)
    deep = {"neuron": (2, 2), "skip": (1, 1), "ffn off": (1, 0), "no mask": (1, 0),
            "no residual": (1, 0)}.get(verb, (2, 0))  # fmt: skip
    more: dict[str, Any] = place(where, *deep)
    if verb == "scale":
        more["value"] = draw(st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0]))
    if verb == "neuron":
        more["value"] = draw(st.sampled_from([-1.5, 0.0, 2.0]))
    if verb == "cut":
        more["query"], more["key"] = draw(
            st.sampled_from([(0, None), (3, None), (None, 0), (None, 1), (2, 0), (1, 1), (9, 30)])
        )
    return language.Edit(verb, where, **more)


def edits_of(draw: st.DrawFn, config: ModelConfig, *tokens: int) -> tuple[language.Edit, ...]:
    """Edits that fit this model and these lengths, without conflicting values."""
    kept: tuple[language.Edit, ...] = ()
    for edit in draw(st.lists(an_edit(config), min_size=1, max_size=5)):
        try:
            edit.check(config)
            edit.check_tokens(*tokens)
            kept = language.parse_edits([*kept, edit])
        except InputError:
            continue
    return kept


def plainly(
    other: Translator, original: Translator, src: Sequence[int], means: Means, settings: Any
) -> Found:
    """Search with hooks, reading each prefix again; `no mask` has no effect in a search."""
    request = other._request(settings["beam_size"], None, settings["options"])
    edits = [edit for edit in other.edits if edit.verb != "no mask"]
    steps = PlainSteps(original.model, [src], PlainEdits(original.model, edits, means))
    limit = min(other.max_tokens, settings["options"]["max_length"])
    return search(steps, [limit], request.settings)[0]


def check(original: Translator, edits: Sequence[language.Edit], sources: list[list[int]],
          targets: list[list[int]], seed: int) -> None:  # fmt: skip
    eos = original.config.eos_id
    pairs = [([*src, eos], [original.config.bos_id, *tgt]) for src, tgt in
             zip(sources, targets, strict=True)]  # fmt: skip
    means = head_means(original.model, pairs)
    other = original.edited(*edits, means=means)
    with torch.inference_mode():
        for beam, sampling in ((1, None), (3, None), (1, Sampling(seed=seed))):
            options = {"max_length": 5, "sampling": sampling}
            found = other.translate(sources, beam, **options)
            for each, (src, _) in zip(found, pairs, strict=True):
                settings = {"beam_size": beam, "options": options}
                plain = plainly(other, original, src, means, settings).hypotheses[0]
                n = len(plain.ids) - (plain.complete or plain.forced_end)
                assert each.ids == plain.ids[:n], (edits, beam, sampling)
                np.testing.assert_allclose(each.log_probs, plain.log_probs, atol=3e-4, rtol=3e-4)
        given = other.traces(sources, targets=targets)
        for trace, (src, tgt_in) in zip(given, pairs, strict=True):
            hooks = PlainEdits(original.model, other.edits, means)
            logits = original.model(torch.tensor([src]), torch.tensor([tgt_in]), hooks)[0]
            ids = trace.predicted_ids
            assert trace.tgt_ids == tuple(tgt_in)
            if original.config.renormalise:
                logits[:, list(other._request(1, None, {}, 1).settings.excluded)] = -torch.inf
            plain = logits.log_softmax(-1)[range(len(ids)), list(ids)]
            np.testing.assert_allclose(trace.log_probs, plain, atol=3e-4, rtol=3e-4)
            for kind in ATTENTION_KINDS:
                for layer, maps in enumerate(trace.attention(kind)):
                    there = hooks.seen[Site.of(kind, layer, "weights")][0]
                    np.testing.assert_allclose(maps, there, atol=1e-3)


@given(data=st.data())
def test_edited_models_are_hooked_ones(tiny_tokenizer: Tokenizer, data: st.DataObject) -> None:
    shape = CONFIGS[data.draw(st.sampled_from(list(CONFIGS)))]
    config = shape.replace(vocab_size=110, tgt_vocab_size=None, max_positions=40)
    if shape.positions == "sinusoidal" and data.draw(st.booleans()):  # as imported models have it
        config = config.replace(
            positions="stored", renormalise=True, forced_eos=True, suppressed_ids=(9, 11)
        )
    seed = data.draw(st.integers(0, 99))
    original = Translator(random_model(config, seed), tiny_tokenizer, device="cpu")
    rows = st.lists(st.integers(4, 109), min_size=1, max_size=6)
    sources = data.draw(st.lists(rows, min_size=1, max_size=3))
    targets = [data.draw(rows) for _ in sources]
    tokens = [max(map(len, texts)) + 1 for texts in (sources, targets)]
    edits = edits_of(data.draw, config, tokens[0], min(5, tokens[1]))
    check(original, edits, sources, targets, seed)


@pytest.mark.parametrize(("edits", "reason"), [
    ("cut cross k2; cut cross k99", "k99”: k99 is beyond the source, k1 to k5"),
    ("cut encoder q6", "q6 is beyond the source, q1 to q5"),
    ("cut decoder.1 q4 k1", "q4 is beyond the translation, q1 to q3"),
    ("cut cross.1 q1; cut decoder k4", "k4 is beyond the translation, k1 to k3"),
])  # fmt: skip
def test_every_token_of_an_edit_is_in_a_sentence(
    tiny_tokenizer: Tokenizer, edits: str, reason: str
) -> None:
    config = CONFIGS["a decoder of its own shape"].replace(vocab_size=110)
    plain = Translator(random_model(config, 3), tiny_tokenizer, device="cpu")
    source, target, own = [5, 9, 40, 7], [60, 8], plain.edited(edits)
    for run in (
        lambda: own.trace(source, target), lambda: own.score([source], [target]),
        lambda: plain.translate([source], max_length=3, edits=edits),
        lambda: plain.traces([[5], source], 2, max_length=3, edits=edits),
        lambda: with_edits(plain.model, plain.trace(source, target), [edits]),
    ):  # fmt: skip
        with pytest.raises(InputError, match=reason):
            run()
    assert own.translate([[]])[0].text == ""
    assert own.trace([*source, *[6] * 94], [*target, *[6] * 94]).src_ids


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_factors_of_one_change_no_bit(tiny_tokenizer: Tokenizer, norm: Any) -> None:
    config = CONFIGS["a decoder of its own shape"].replace(vocab_size=110, norm=norm)
    plain = Translator(random_model(config, 3), tiny_tokenizer, device="cpu")
    sources = [[5, 9, 40, 7], [60, 8]]
    for way in ({"beam_size": 1}, {"beam_size": 3}, {"beam_size": 1, "sampling": Sampling(seed=2)}):
        whole = plain.translate(sources, max_length=8, **way)
        assert plain.translate(
            sources, max_length=8, **way, edits="scale cross 1; scale encoder.2.5 1"
        ) == whole  # fmt: skip
    weights = "off cross.1.1; uniform encoder; no scaling cross.1.2; ffn off decoder.1"
    for edits, execution in ((f"{weights}; swap qk cross; no positions", Fast),
                             (f"{weights}; cut cross k1", Reference)):  # fmt: skip
        assert isinstance(plain.edited(edits)._batches.executions.choose(), execution)
    ones = "scale decoder 1; scale encoder 1; scale cross.1.2 1"
    assert plain.score(sources, sources, edits=ones) == plain.score(sources, sources)
    one, other = (plain.trace(sources[0], edits=edits) for edits in ("", ones))
    for kind in ATTENTION_KINDS:
        assert np.array_equal(one.attention(kind), other.attention(kind))


def test_edits_of_an_edited_model_add_up(tiny_tokenizer: Tokenizer) -> None:
    from transformer.edits.model import edited

    config = CONFIGS["relative positions"].replace(vocab_size=110)
    model, (src, tgt) = random_model(config, 2), map(torch.tensor, ([[5, 9, 7, 2]], [[1, 6, 11]]))
    means = head_means(model, PAIRS)
    for one, more in (
        ("cut cross k1", "cut cross q2; cut decoder.1.2 k2"),
        ("mean cross.1.1", "scale cross 0.5; mean cross.1.2"),
        ("uniform encoder.1.1", "uniform encoder.1.2; cut encoder k2"),
        ("neuron decoder.1.2 1", "neuron decoder.1.3 0; skip encoder.1"),
        ("no mask", "cut decoder k1; off decoder.2"),
        ("cut cross k1; skip decoder.1", "no residual encoder"),
    ):
        twice = edited(edited(model, one, means), more, means)
        once = edited(model, f"{one}; {more}", means)
        torch.testing.assert_close(twice(src, tgt), once(src, tgt), msg=f"{one} and {more}")
