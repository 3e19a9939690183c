"""Edited models in every way of decoding, against hooks on the original that reads all again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_models import CONFIGS, random_model
from tests.transformer.edits.plain import PAIRS, PlainEdits, PlainSteps
from transformer.config import ModelConfig
from transformer.edits.language import KINDS, VERBS, Edit, parse_edits
from transformer.edits.means import head_means
from transformer.edits.model import Means
from transformer.errors import InputError
from transformer.execution import Fast, Reference
from transformer.hooks import Site
from transformer.search.beam import Found, search
from transformer.search.sampling import Sampling
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


@st.composite
def an_edit(draw: st.DrawFn, config: ModelConfig) -> Edit:
    """Any edit that a model of this shape can take."""

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

    verb = draw(st.sampled_from(VERBS))
    if verb == "shift positions":
        return Edit(verb, value=float(draw(st.integers(1, 9))))
    of_stacks = not Edit(verb).of_heads
    if verb in ("no positions", "no scaling", "no mask") and draw(st.booleans()):
        return Edit(verb)
    where: Any = draw(st.sampled_from(list(KINDS)[: 2 if of_stacks else 3]))
    where = "decoder" if verb == "no mask" else where
    if verb == "no positions":
        return Edit(verb, where)
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
    return Edit(verb, where, **more)


def edits_of(draw: st.DrawFn, config: ModelConfig) -> tuple[Edit, ...]:
    """Several edits, without two values for one thing and what this model lacks."""
    kept: tuple[Edit, ...] = ()
    for edit in draw(st.lists(an_edit(config), min_size=1, max_size=5)):
        try:
            edit.check(config)
            kept = parse_edits([*kept, edit])
        except InputError:
            continue
    return kept


def plainly(
    other: Translator, original: Translator, src: Sequence[int], means: Means, settings: Any
) -> Found:
    """Search with the original under hooks, everything read again at every step.

    A search sees no later tokens, so `no mask` changes nothing in it.
    """
    request = other._request(settings["beam_size"], None, settings["options"])
    edits = [edit for edit in other.edits if edit.verb != "no mask"]
    steps = PlainSteps(original.model, [src], PlainEdits(original.model, edits, means))
    limit = min(other.max_tokens, settings["options"]["max_length"])
    return search(steps, [limit], request.settings)[0]


def check(original: Translator, edits: Sequence[Edit], sources: list[list[int]],
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
                banned = list(other._request(1, None, {}, 1).settings.excluded)
                logits[:, banned] = -torch.inf
            plain = logits.log_softmax(-1)[range(len(ids)), list(ids)]
            np.testing.assert_allclose(trace.log_probs, plain, atol=3e-4, rtol=3e-4)
            for kind in ATTENTION_KINDS:
                for layer, maps in enumerate(trace.attention(kind)):
                    there = hooks.seen[Site.of(kind, layer, "weights")][0]
                    np.testing.assert_allclose(maps, there, atol=1e-3)


@given(data=st.data())
def test_an_edited_model_is_the_original_under_hooks(
    tiny_tokenizer: Tokenizer, data: st.DataObject
) -> None:
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
    check(original, edits_of(data.draw, config), sources, targets, seed)


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
    """Also without a translator, as measures of an edited model take more parts out."""
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
