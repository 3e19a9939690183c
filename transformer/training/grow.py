"""Start a larger model, or one with other pieces, from a smaller model's weights.

Every coordinate is doubled, and readers of a pair weight its halves equally, so that the larger
model computes what the smaller one did (Net2Net, Chen et al. 2016; bert2BERT, Chen et al. 2022).
Readers add noise to one half and subtract it from the other: sums stay the same, but gradients
differ, so the halves do not remain copies.

Only sinusoids are not doubled exactly: in the wider table, one of two neighbouring pairs has the
smaller table's frequency, and the other lies between it and the next frequency.
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from transformer.checkpoint.folder import Checkpoint
from transformer.config import ConfigError, ModelConfig
from transformer.text.tokenizer import Tokenizer

#: Noise relative to the weights' standard deviation, or to a query's size.
NOISE = 0.3
#: Settings that may differ between the two models.
GROWING = ("vocab_size", "d_model", "d_ff", "dropout", "attention_dropout", "max_positions")


@dataclass(frozen=True, eq=False)
class Axis:
    """Copying of an axis's coordinates."""

    index: Tensor  # the old coordinate of every new one
    sign: Tensor  # +1 for a first copy, -1 for a second copy, all 0 if nothing is doubled

    @classmethod
    def of(cls, index: Tensor, second: Tensor) -> Self:
        """Args: second: True for new coordinates that are second copies."""
        sign = 1.0 - 2.0 * second.float()
        return cls(index, sign if bool(second.any()) else torch.zeros(len(index)))

    @classmethod
    def doubled(cls, size: int, new_size: int) -> Self:
        """Axis with each coordinate beside its copy."""
        place = torch.arange(new_size)
        return cls.of(place * size // new_size, (place % 2 == 1) & (new_size > size))

    @classmethod
    def stream(cls, size: int, new_size: int) -> Self:
        """Axis of duplicated sine/cosine pairs, as in the residual stream."""
        pairs = cls.doubled(size // 2, new_size // 2)
        index = (2 * pairs.index[:, None] + torch.arange(2)).flatten()
        return cls(index, pairs.sign.repeat_interleave(2))

    @property
    def copies(self) -> int:
        """Number of copies, 1 or 2."""
        return 2 if bool(self.sign.any()) else 1


def grown(
    small: Checkpoint, config: ModelConfig, tokenizer: Tokenizer, seed: int = 0
) -> dict[str, Tensor]:
    """Return weights for `config` and `tokenizer` that compute what `small` does.

    Pieces in both vocabularies keep their vectors. A new piece gets the mean of its old pieces.

    Args: seed: for the noise.
    Raises: `ConfigError` naming a setting that cannot grow.
    """
    old = small.config
    _check(old, config)
    stream = Axis.stream(old.d_model, config.d_model)
    heads = Axis.doubled(old.d_model, config.d_model)
    inner = Axis.doubled(old.d_ff, config.d_ff)
    axes = {
        "w_q": (heads, stream), "w_k": (heads, stream), "w_v": (heads, stream),
        "w_o": (stream, heads), "w_1": (inner, stream), "w_2": (stream, inner),
        "norm": (stream,),
    }  # fmt: skip
    draw = torch.Generator().manual_seed(seed)
    # Embeddings are multiplied by sqrt(d_model), and logits are sums over the doubled stream.
    narrower = math.sqrt(old.d_model / config.d_model) if config.scale_embedding else 1.0
    weights = {}
    ids = {piece: index for index, piece in enumerate(small.tokenizer.pieces)}
    old_ids = [
        [ids[piece]] if piece in ids else small.tokenizer.segment(piece)
        for piece in tokenizer.pieces
    ]
    for name, tensor in small.model.state_dict().items():
        owner, _, kind = name.rpartition(".")
        leaf = owner.rpartition(".")[2]
        if leaf in ("src_embedding", "tgt_embedding", "generator"):
            vectors = torch.stack([tensor.float()[rows].mean(0) for rows in old_ids])  # [V, d]
            weights[name] = vectors[:, stream.index] * narrower
            continue
        rows = axes[leaf][0]
        value = tensor.float()[rows.index]
        if kind == "weight" and leaf != "norm":
            columns = axes[leaf][1]
            value = value / columns.copies
            noise = NOISE * value.std() * torch.randn(value.shape, generator=draw)
            value = value[:, columns.index] + noise[:, columns.index] * columns.sign
        if leaf == "w_q":  # scores are sums over twice the coordinates, divided by sqrt(d_k)
            unequal = NOISE * torch.randn(old.d_model, generator=draw)[rows.index] * rows.sign
            value = value * (1 + unequal)[:, None] / math.sqrt(rows.copies)
        weights[name] = value
    last = f"decoder.{old.n_decoder_layers - 1}.around_feed_forward.norm"
    for kind in ("weight", "bias"):
        weights[f"{last}.{kind}"] /= stream.copies * narrower
    return weights


def _check(old: ModelConfig, new: ModelConfig) -> None:
    if old.replace(**{name: getattr(new, name) for name in GROWING}) != new:
        raise ConfigError(f"a model grows in {', '.join(GROWING)} only")
    if (old.norm, old.tie_embeddings, old.positions) != ("post", "all", "sinusoidal"):
        raise ConfigError("only post-norm models with tied embeddings and sinusoids can grow")
    if old.position_layout != "interleaved" or old.d_k or old.d_v:
        raise ConfigError("only models with interleaved sinusoids and d_k = d_model / h can grow")
    for name in ("d_model", "d_ff"):
        before, after = getattr(old, name), getattr(new, name)
        if after not in (before, 2 * before):
            raise ConfigError(f"{name}={after} is neither {before} nor its double")
