"""Imported models beside their libraries' own: the same states, logits and maps."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tests.tiny_models import SENTENCES
from tests.transformer.importers.reference import Passed
from transformer.catalogue import inspect_entry
from transformer.importers.registry import FORMATS
from transformer.translator import Translator

ENGLISH = SENTENCES[::2]
CLOSE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}
#: The decoder's first input by format.
STARTS = {"fairseq": "</s>", "joeynmt": "<s>", "marian": "<pad>"}


class Pair(NamedTuple):
    """One model twice: a pass as its library computes it, and ours."""

    kind: str
    theirs: Any
    ours: Translator


def imported(theirs: Any, folder: Path, kind: str) -> Pair:
    """Import the model in `theirs`."""
    path = FORMATS[kind].convert(folder / "theirs", folder / "ours")
    return Pair(kind, theirs, Translator.load(path, device="cpu"))


def batch(ours: Translator) -> tuple[Tensor, Tensor]:
    """Sources and decoder inputs of unequal lengths, padded."""
    config, draw = ours.config, torch.Generator().manual_seed(1)
    sources = [torch.tensor(ours.read(text).ids) for text in ENGLISH]
    drawn = (
        torch.randint(6, config.target_vocab_size - 1, (n,), generator=draw)
        for n in (9, 4, 7, 1, 12)
    )
    targets = [torch.cat([torch.tensor([config.bos_id]), each]) for each in drawn]
    src, tgt_in = (
        pad_sequence(side, batch_first=True, padding_value=config.pad_id)
        for side in (sources, targets)
    )
    return src, tgt_in


def check_pass(pair: Pair) -> None:
    """Compare the states, logits and every map of a padded batch with S != T."""
    src, tgt_in = batch(pair.ours)
    assert src.size(1) != tgt_in.size(1)
    mask, model = src != pair.ours.config.pad_id, pair.ours.model
    with torch.inference_mode():
        expected: Passed = pair.theirs(src, tgt_in)
        encoded = model.encode(src, need_weights=True)
        decoded = model.decode(tgt_in, encoded, need_weights=True)
    assert encoded.attention is not None
    # The attention of padding is meaningless.
    for found, wanted, real in (
        (encoded.memory, expected.memory, mask[:, :, None]),
        (encoded.attention, expected.encoder_self, mask[:, None, :, None]),
    ):
        torch.testing.assert_close(found * real, wanted * real, **CLOSE)
    torch.testing.assert_close(model.logits(decoded.hidden), expected.logits, **CLOSE)
    torch.testing.assert_close(decoded.self_attention, expected.decoder_self, **CLOSE)
    torch.testing.assert_close(decoded.cross_attention, expected.cross, **CLOSE)
    assert float(expected.encoder_self.max()) > 0.3  # far from uniform
    assert float(expected.cross.max()) > 2 / src.size(1)


class SameModel:
    """Tests of every pair; a module defines the fixture `pair`."""

    def test_states_logits_and_every_map(self, pair: Pair) -> None:
        check_pass(pair)

    def test_a_trace_holds_their_maps(self, pair: Pair) -> None:
        """The record of a search, and one pass over its target."""
        trace = pair.ours.trace(ENGLISH[0], beam_size=3, max_length=15)
        follow = pair.ours.trace(ENGLISH[0], target=trace.predicted_ids)
        with torch.inference_mode():
            expected = pair.theirs(torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_ids]))
        for each in (trace, follow) if trace.predicted_ids == follow.predicted_ids else (trace,):
            for name in ("encoder_self", "decoder_self", "cross"):
                found = torch.tensor(getattr(each, name))
                torch.testing.assert_close(found, getattr(expected, name)[:, 0], **CLOSE)
        assert trace.src_tokens[-1] == "</s>" and trace.tgt_tokens[0] == STARTS[pair.kind]
        if pair.kind != "marian" and "char" not in pair.ours.tokenizer.kind:
            starts = [token.startswith("▁") for token in trace.src_tokens]
            assert sum(starts) >= len(ENGLISH[0].split()) and "@@" not in "".join(trace.src_tokens)

    def test_it_is_a_checkpoint_like_any_other(self, pair: Pair) -> None:
        ours = pair.ours
        assert ours.path is not None
        entry = inspect_entry(ours.path)
        assert entry.ok and entry.name == "ours" and entry.config == ours.config
        assert entry.metrics["imported"]["format"] == pair.kind
        assert pair.kind in (ours.path / "README.md").read_text().lower()
        assert ours.config.n_parameters == ours.model.n_parameters
        found = ours.translate([ENGLISH[0], "", "?"], max_length=9)
        assert len(found) == 3 and found[1].tokens == ()
        (begun,) = ours.translate(["The cat"], prefix="Die Katze", max_length=25)
        asked = ours.tokenizer.target.encode("Die Katze")
        assert list(begun.ids[: len(asked)]) == asked
