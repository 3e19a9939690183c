"""Other libraries' Transformers, computed from their own tensors and names.

Nothing is shared with the project's model: these are plain functions of `torch.nn.functional`,
from the published definitions of fairseq and JoeyNMT.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tests.tiny_models import SENTENCES
from transformer.attribution.cells import reasons
from transformer.attribution.edges import edges, effects, mix
from transformer.models.catalogue import inspect_entry
from transformer.models.importers.registry import FORMATS
from transformer.search.request import excluded
from transformer.trace.removals import with_edits
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "swish": F.silu,
}  # fmt: skip


@dataclass
class Passed:
    """Outputs of a pass: states [B, S, d], logits [B, T, V], maps [L, B, H, n, m]."""

    memory: Tensor
    logits: Tensor
    encoder_self: Tensor
    decoder_self: Tensor
    cross: Tensor


@dataclass
class Reference:
    """A model as computed by its own library."""

    tensors: Mapping[str, Tensor]  # by the library's names
    heads: tuple[int, int]  # of encoder and decoder
    depths: tuple[int, int]  # the same
    #: of the parts of a layer: "self", "cross", "q", "k", "v", "out" and so on
    names: Mapping[str, str]
    #: (encoder or decoder, length) to the vectors added, [length, d]
    positions: Callable[[str, int], Tensor]
    scale: float  # of the embeddings
    pre: bool
    activation: str
    eps: float
    pad: int
    maps: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, src: Tensor, tgt_in: Tensor) -> Passed:
        """src [B, S] and tgt_in [B, T], padded at the end."""
        self.maps = {"encoder": [], "decoder": [], "cross": []}
        seen = (src != self.pad)[:, None, None, :]
        memory = self._stack(src, "encoder", seen)
        ahead = torch.ones(tgt_in.size(1), tgt_in.size(1), dtype=torch.bool).tril()
        hidden = self._stack(tgt_in, "decoder", ahead, (memory, seen))
        logits = F.linear(hidden, self.tensors[self.names["output"]])
        return Passed(memory, logits, *(torch.stack(self.maps[each]) for each in self.maps))

    def _stack(
        self, tokens: Tensor, stack: str, mask: Tensor, source: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        x = self.tensors[self.names[f"{stack} embedding"]][tokens] * self.scale
        x = x + self.positions(stack, tokens.size(1))
        for layer in range(self.depths[stack == "decoder"]):
            at = f"{self.names[stack]}.{layer}"
            for part in (f"{stack} self", "cross", "feed") if source else (f"{stack} self", "feed"):
                norm = f"{at}.{self.names[f'{part} norm']}"
                y = self._norm(x, norm) if self.pre else x
                if part == "feed":
                    inner = self._linear(y, f"{at}.{self.names['first']}")
                    y = self._linear(
                        ACTIVATIONS[self.activation](inner), f"{at}.{self.names['second']}"
                    )
                else:
                    keys, seen = source if source and part == "cross" else (y, mask)
                    kind = part.removesuffix(" self")
                    y = self._attend(y, keys, f"{at}.{self.names[part]}", seen, kind)
                x = x + y if self.pre else self._norm(x + y, norm)
        return self._norm(x, f"{stack}.layer_norm") if self.pre else x

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, self.eps)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def _attend(self, x: Tensor, y: Tensor, at: str, mask: Tensor, kind: str) -> Tensor:
        n_heads = self.heads[0] if kind == "encoder" else self.heads[1]
        q, k, v = (self._projected(each, at, part).unflatten(2, (n_heads, -1)).transpose(1, 2)
                   for each, part in ((x, "q"), (y, "k"), (y, "v")))  # fmt: skip
        scores = q @ k.transpose(2, 3) / math.sqrt(q.size(3))
        weights = scores.masked_fill(~mask, -torch.inf).softmax(3)
        self.maps[kind].append(weights)
        return self._linear((weights @ v).transpose(1, 2).flatten(2), f"{at}.{self.names['out']}")

    def _projected(self, x: Tensor, at: str, part: str) -> Tensor:
        fused = f"{at}.in_proj_weight"
        if fused not in self.tensors:
            return self._linear(x, f"{at}.{self.names[part]}")
        third = "qkv".index(part)
        weight = self.tensors[fused].chunk(3)[third]
        return F.linear(x, weight, self.tensors[f"{at}.in_proj_bias"].chunk(3)[third])


def drawn(shapes: Mapping[str, Sequence[int]], seed: int) -> dict[str, Tensor]:
    """Draw weights wide enough for non-uniform attention and predictions."""
    made: dict[str, Tensor] = {}
    draw = torch.Generator().manual_seed(seed)
    for name, shape in shapes.items():
        if len(shape) == 2:
            made[name] = torch.randn(*shape, generator=draw) * 1.5 * shape[1] ** -0.5
        else:
            norm = "norm" in name and name.endswith("weight")
            made[name] = torch.randn(*shape, generator=draw) * 0.2 + float(norm)
    return made


def learned_merges(words: Counter[str], count: int) -> list[tuple[str, str]]:
    """Learn byte-pair merges (Sennrich et al., 2016) with another library."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(end_of_word_suffix="</w>", show_progress=False)
    made.train_from_iterator([" ".join(words.elements())], trainer)
    return [tuple(pair) for pair in json.loads(made.to_str())["model"]["merges"][:count]]


ENGLISH = SENTENCES[::2]
CLOSE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}
#: The decoder's first input by format.
STARTS = {"fairseq": "</s>", "joeynmt": "<s>", "marian": "<pad>"}


class Pair(NamedTuple):
    """One model in two forms: a pass computed by its library, and ours."""

    kind: str
    theirs: Any
    ours: Translator


def imported(theirs: Any, folder: Path, kind: str) -> Pair:
    path = FORMATS[kind].convert(folder / "theirs", folder / "ours")
    return Pair(kind, theirs, Translator.load(path, device="cpu"))


def batch(ours: Translator) -> tuple[Tensor, Tensor]:
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
    """Compare states, logits and maps of a padded batch with S != T."""
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
    """Tests for every pair; a module defines the fixture `pair`."""

    def test_states_logits_and_every_map(self, pair: Pair) -> None:
        check_pass(pair)

    def test_a_trace_shows_where_words_start(self, pair: Pair) -> None:
        trace = pair.ours.trace(ENGLISH[0], beam_size=1, max_length=5)
        assert trace.src_tokens[-1] == "</s>" and trace.tgt_tokens[0] == STARTS[pair.kind]
        if pair.kind != "marian" and "char" not in pair.ours.tokenizer.kind:
            starts = [token.startswith("▁") for token in trace.src_tokens]
            assert sum(starts) >= len(ENGLISH[0].split()) and "@@" not in "".join(trace.src_tokens)

    def test_its_edges_and_scores_are_measured(self, pair: Pair) -> None:
        ours = pair.ours
        trace = ours.trace(ENGLISH[0], beam_size=1, max_length=5)
        for measure in ("norm", "zeroing", "contribution"):
            assert edges(ours.model, trace, measure).gap < 1e-3  # type: ignore[arg-type]
        shares = mix(edges(ours.model, trace, "contribution"))
        assert torch.allclose(
            torch.tensor(shares.source_share + shares.prefix.sum(-1)),
            torch.ones(len(trace.tgt_ids)), atol=1e-4,
        )  # fmt: skip
        never, (step, key) = excluded(ours.config), (len(trace.tgt_ids) - 1, 1)
        changes = effects(ours.model, trace, "cross", excluded=never)
        cut = with_edits(ours.model, trace, [f"cut cross q{step + 1} k{key + 1}"], excluded=never)
        assert abs(changes[step, key] - cut[0, step]) < 1e-4
        for kind in ATTENTION_KINDS:
            layer, query = (size - 1 for size in trace.attention(kind).shape[::2])
            split = reasons(ours.model, trace, kind, layer, 0, query, 0)
            total = float(split.shares.sum(dtype="f8")) + split.relative
            assert abs(total - split.score) < 1e-4

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
