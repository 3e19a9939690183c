"""Each edit against a plain hook on the original; `test_random_edits.py` decodes with sets."""

import pytest
import torch

from tests.tiny_models import SRC, TGT
from tests.transformer.edits.plain import PlainEdits
from transformer.edits.language import VERBS
from transformer.edits.means import head_means
from transformer.edits.model import edited
from transformer.errors import InputError
from transformer.hooks import Record, Site, matching
from transformer.model import Transformer

CLOSE = {"atol": 2e-5, "rtol": 2e-4}
#: Pairs without padding, of unequal lengths.
PAIRS = [([5, 9, 7, 12, 21, 2], [1, 6, 11]), ([14, 8, 2], [1, 17, 4, 9])]


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
