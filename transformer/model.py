"""The encoder-decoder Transformer (sections 3.1 to 3.4), in the order of the paper's figure 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transformer.config import ModelConfig
from transformer.layers import (
    DecoderCache,
    DecoderLayer,
    Dropout,
    Encoded,
    EncoderLayer,
    FeedForward,
    Residual,
)
from transformer.positions import make_positions

__all__ = [
    "Decoded", "DecoderCache", "DecoderLayer", "Dropout", "Encoded", "EncoderLayer", "FeedForward",
    "HeadGates", "Residual", "Transformer",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class HeadGates:
    """A factor for every head's output; None is all ones.

    Attributes:
        encoder_self: [Le, H].  decoder_self: [Ld, H].  cross: [Ld, H].
    """

    encoder_self: Tensor | None = None
    decoder_self: Tensor | None = None
    cross: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Decoded:
    """The decoder's result: hidden [B, T, d_model] and, where asked for, its attention.

    `self_attention` is [Ld, B, H, T, T'] and `cross_attention` [Ld, B, H, T, S]; T' counts the
    cached prefix too.
    """

    hidden: Tensor
    self_attention: Tensor | None = None
    cross_attention: Tensor | None = None


class Transformer(nn.Module):
    """The whole model: tokens in, logits over the next target token out.

    Padding (config.pad_id) may stand at the end of a source or target row only. A padded source
    token is never attended to; a padded target position yields values that mean nothing and that
    no real position can see, since it comes after all of them.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        self.src_embedding = nn.Embedding(config.vocab_size, d_model)
        self.tgt_embedding = (
            self.src_embedding
            if config.tie_embeddings == "all"
            else nn.Embedding(config.target_vocab_size, d_model)
        )
        self.generator = nn.Linear(d_model, config.target_vocab_size, bias=config.output_bias)
        self.src_positions = make_positions(config)
        self.tgt_positions = make_positions(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        pre = config.norm == "pre"
        # Pre-norm leaves the last residual sum unnormalised, so each stack ends in one more norm.
        self.encoder_norm = nn.LayerNorm(d_model, config.layer_norm_eps) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(d_model, config.layer_norm_eps) if pre else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self._initialise()
        if config.tie_embeddings != "none":
            self.generator.weight = self.tgt_embedding.weight

    def _initialise(self) -> None:
        """Xavier-uniform matrices, smaller in the branches; embeddings of unit norm.

        Departure: the paper says nothing of initial values. With plain Xavier a post-norm encoder
        at these learning rates makes all positions alike within an epoch, and cross-attention
        stays uniform; branches that begin smaller than the residual stream prevent that.
        """
        gains = {"w_q": 0.5**0.5, "w_k": 0.5**0.5, "w_v": 0.5, "w_o": 0.5, "w_1": 0.5, "w_2": 0.5}
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, gains.get(name.rpartition(".")[2], 1.0))
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    @property
    def n_parameters(self) -> int:
        """Number of trainable parameters, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def encode(
        self, src: Tensor, *, gates: HeadGates | None = None, need_weights: bool = False
    ) -> Encoded:
        """Read the source.

        Args:
            src: [B, S] token ids, padded at the end.
            gates: head gates. need_weights: also return every attention map.
        """
        src_mask = self.source_mask(src)
        x = self.embed_source(src)  # [B, S, d_model]
        maps = []
        for index, layer in enumerate(self.encoder):
            gate = (
                None if gates is None or gates.encoder_self is None else gates.encoder_self[index]
            )
            x, weights = layer(x, src_mask, gate, need_weights)
            maps.append(weights)
        return Encoded(self.encoder_norm(x), src_mask, torch.stack(maps) if need_weights else None)

    def decode(
        self,
        tgt_in: Tensor,
        encoded: Encoded,
        *,
        cache: DecoderCache | None = None,
        gates: HeadGates | None = None,
        need_weights: bool = False,
    ) -> Decoded:
        """Read target tokens, each position seeing those up to itself and the whole source.

        Args:
            tgt_in: [B, T] token ids: all of the decoder's input, or with a `cache` what follows
                the positions that it holds.
            encoded: from `encode`.
            cache: extended in place with the new positions; starts as `DecoderCache()`.
        """
        start = cache.length if cache is not None else 0
        x = self.embed_target(tgt_in, start)  # [B, T, d_model]
        self_maps, cross_maps = [], []
        for index, layer in enumerate(self.decoder):
            self_gate = cross_gate = None
            if gates is not None:
                self_gate = None if gates.decoder_self is None else gates.decoder_self[index]
                cross_gate = None if gates.cross is None else gates.cross[index]
            x, self_weights, cross_weights = layer(
                x, encoded, index, cache, self_gate, cross_gate, need_weights
            )
            self_maps.append(self_weights)
            cross_maps.append(cross_weights)
        x = self.decoder_norm(x)
        if not need_weights:
            return Decoded(x)
        return Decoded(x, torch.stack(self_maps), torch.stack(cross_maps))

    def source_mask(self, src: Tensor) -> Tensor | None:
        """Which of the source tokens [B, S] may be attended to, [B, 1, 1, S]; None for all."""
        padding = src == self.config.pad_id
        # Without padding no mask is needed, which lets the fused kernel take its fast way. On a
        # GPU asking would wait for the device, so the mask always stays.
        masked = src.device.type != "cpu" or torch.compiler.is_compiling() or bool(padding.any())
        return ~padding[:, None, None, :] if masked else None

    def embed_source(self, src: Tensor) -> Tensor:
        """What enters the encoder for tokens [B, S]. Returns: [B, S, d_model]."""
        return self._embed(src, self.src_embedding, self.src_positions, 0)

    def embed_target(self, tgt_in: Tensor, start: int = 0) -> Tensor:
        """What enters the decoder for tokens [B, T] at positions start, start + 1, ..."""
        return self._embed(tgt_in, self.tgt_embedding, self.tgt_positions, start)

    def content(self, tokens: Tensor, embedding: nn.Embedding) -> Tensor:
        """Embeddings of tokens [..., T], scaled, before positions are added: [..., T, d_model]."""
        x: Tensor = embedding(tokens)
        return x * math.sqrt(self.config.d_model) if self.config.scale_embedding else x

    def logits(self, hidden: Tensor) -> Tensor:
        """Project hidden states [..., d_model] to scores over the target vocabulary [..., V]."""
        output: Tensor = self.generator(hidden)
        return output

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Teacher forcing: src [B, S] and tgt_in [B, T] to logits [B, T, V]."""
        return self.logits(self.decode(tgt_in, self.encode(src)).hidden)

    def _embed(
        self, tokens: Tensor, embedding: nn.Embedding, positions: nn.Module, start: int
    ) -> Tensor:
        """Embeddings times sqrt(d_model) plus positions, with dropout (sections 3.4, 3.5, 5.4)."""
        x = self.content(tokens, embedding)
        output: Tensor = self.dropout(x + positions(start, tokens.size(1)))
        return output
