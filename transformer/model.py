"""The encoder-decoder Transformer (sections 3.1 to 3.4), in the order of the paper's figure 1."""

import math
from dataclasses import dataclass

from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.hooks import Chain, Context, Hook, Record, begun, matching, sites
from transformer.kernels import Dropout, in_stream, lookup, padding_mask
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.positions import RelativePositions, make_positions
from transformer.steps import KVCache
from transformer.types import AttentionKind, checked_kind, literals

#: Initial gains of matrices inside the residual branches, by name; 1 for all others.
GAINS = {"w_q": 0.5**0.5, "w_k": 0.5**0.5, "w_v": 0.5, "w_o": 0.5, "w_1": 0.5, "w_2": 0.5}


@dataclass(frozen=True, eq=False)
class Encoded:
    """The encoder's result."""

    memory: Tensor  # [B, S, d_model]
    src_mask: Tensor | None  # [B, 1, 1, S] bool, True = may be attended to; None without padding
    attention: Tensor | None = None  # maps [Le, B, H, S, S], if requested


@dataclass(frozen=True, eq=False)
class Decoded:
    """The decoder's result."""

    hidden: Tensor  # [B, T, d_model]
    # Maps, if requested; T' includes the cached prefix.
    self_attention: Tensor | None = None  # [Ld, B, H, T, T']
    cross_attention: Tensor | None = None  # [Ld, B, H, T, S]


class Transformer(nn.Module):
    """The whole model: tokens in, logits over the next target token out.

    Padding (config.pad_id) may only stand at the end of a source or target row. Padded source
    tokens are never attended to. Padded target positions yield meaningless values, which no real
    position sees, since all come before them.
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
        if config.positions == "relative":
            self.src_distances = RelativePositions(config.n_heads, causal=False)
            self.tgt_distances = RelativePositions(config.decoder_heads, causal=True)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        pre = config.norm == "pre"
        # Pre-norm leaves the last residual sum unnormalised, so both stacks end in another norm.
        self.encoder_norm = nn.LayerNorm(d_model, config.layer_norm_eps) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(d_model, config.layer_norm_eps) if pre else nn.Identity()
        self.dropout = Dropout(config.dropout)
        initialise(self, d_model)
        if config.tie_embeddings != "none":
            self.generator.weight = self.tgt_embedding.weight

    @property
    def n_parameters(self) -> int:
        """Number of trainable parameters, counting shared ones once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(self, src: Tensor, tgt_in: Tensor, hooks: Hook | None = None) -> Tensor:
        """Teacher forcing: src [B, S] and tgt_in [B, T] to logits [B, T, V]."""
        return self.logits(self.hidden(src, tgt_in, hooks))

    def hidden(self, src: Tensor, tgt_in: Tensor, hooks: Hook | None = None) -> Tensor:
        """States before the last projection: [B, S] and [B, T] to [B, T, d_model]."""
        return self.decode(tgt_in, self.encode(src, hooks=hooks), hooks=hooks).hidden

    @literals
    def attention_block(self, kind: AttentionKind, layer: int) -> MultiHeadAttention:
        """Return the attention block for one kind of maps in a layer."""
        stack = self.encoder if kind == "encoder_self" else self.decoder
        name = "cross_attention" if kind == "cross" else "self_attention"
        block: MultiHeadAttention = getattr(stack[layer], name)
        return block

    def encode(
        self, src: Tensor, *, hooks: Hook | None = None, need_weights: bool = False
    ) -> Encoded:
        """Read the source.

        Args:
            src: [B, S] token ids, padded at the end.
            hooks: read or replace values in the model; see `transformer.hooks`.
            need_weights: also return all attention maps.

        Raises: `InputError` for hooks on something that the model lacks.
        """
        hooks = None if hooks is None else begun(hooks, sites(self.config), len(src))
        maps = Record(matching(name="weights")) if need_weights else None
        hooks = hooks if maps is None else Chain(hooks, maps)
        relative = self.distances("encoder_self", src.size(1), src.size(1))
        at = Context("encoder", hooks, relative=relative)
        src_mask = padding_mask(src, self.config.pad_id)
        x = at.block("embedding")("hidden", self.embed_source(src))  # [B, S, d_model]
        for index, layer in enumerate(self.encoder):
            x = layer(x, src_mask, at.layer(index))
        memory = at.block("final")("hidden", self.encoder_norm(x))
        return Encoded(memory, src_mask, None if maps is None else maps.layers("encoder_self"))

    def decode(
        self, tgt_in: Tensor, encoded: Encoded, *, cache: KVCache | None = None,
        hooks: Hook | None = None, need_weights: bool = False,
    ) -> Decoded:  # fmt: skip
        """Read target tokens; positions see themselves, earlier positions and the whole source.

        Args:
            tgt_in: [B, T] token ids: the decoder's whole input or, with a `cache`, what follows the
                cached positions.
            encoded: from `encode`.
            cache: starts as `KVCache()`; new positions are appended.
            hooks, need_weights: see `encode`.
        """
        hooks = None if hooks is None else begun(hooks, sites(self.config), len(tgt_in))
        maps = Record(matching(name="weights")) if need_weights else None
        hooks = hooks if maps is None else Chain(hooks, maps)
        start = 0 if cache is None else cache.length
        relative = self.distances("decoder_self", tgt_in.size(1), start + tgt_in.size(1))
        at = Context("decoder", hooks, cache=cache, relative=relative, start=start)
        x = at.block("embedding")("hidden", self.embed_target(tgt_in, start))  # [B, T, d_model]
        for index, layer in enumerate(self.decoder):
            x = layer(x, encoded.memory, encoded.src_mask, at.layer(index))
        hidden = at.block("final")("hidden", self.decoder_norm(x))
        if maps is None:
            return Decoded(hidden)
        return Decoded(hidden, maps.layers("decoder_self"), maps.layers("cross"))

    def logits(self, hidden: Tensor) -> Tensor:
        """Project hidden states [..., d_model] to scores over the target vocabulary [..., V]."""
        output: Tensor = self.generator(hidden)
        return output

    def distances(self, kind: AttentionKind, n_queries: int, n_keys: int) -> Tensor | None:
        """Return relative positions, to be added to logits: [1, H, queries, keys].

        Returns None for cross-attention or without them. The queries are the last positions.
        """
        # A plain check: compiled updates come through here, and `literals` keeps a cache.
        if checked_kind(kind) == "cross" or self.config.positions != "relative":
            return None
        module = self.src_distances if kind == "encoder_self" else self.tgt_distances
        relative: Tensor = module(n_queries, n_keys)
        return relative

    def embed_source(self, src: Tensor) -> Tensor:
        """Embed source tokens [B, S] and add positions: [B, S, d_model]."""
        x = self.content(src, self.src_embedding) + self.src_positions(0, src.size(1))
        output: Tensor = self.dropout(in_stream(x))
        return output

    def embed_target(self, tgt_in: Tensor, start: int = 0) -> Tensor:
        """Embed target tokens [B, T] and add positions start, start + 1, ...: [B, T, d_model]."""
        x = self.content(tgt_in, self.tgt_embedding) + self.tgt_positions(start, tgt_in.size(1))
        output: Tensor = self.dropout(in_stream(x))
        return output

    def content(self, tokens: Tensor, embedding: nn.Embedding) -> Tensor:
        """Embeddings of tokens [..., T] times sqrt(d_model) (section 3.4): [..., T, d_model]."""
        x = lookup(embedding, tokens, self.config.pad_id)
        return x * math.sqrt(self.config.d_model) if self.config.scale_embedding else x


def initialise(model: nn.Module, d_model: int) -> None:
    """Set Xavier-uniform matrices, smaller in the branches; embeddings of unit norm; zero biases.

    Departure: with plain Xavier, a post-norm encoder at these learning rates makes all positions
    alike within an epoch, and cross-attention stays uniform. Branches that start smaller than the
    residual stream prevent that.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, GAINS.get(name.rpartition(".")[2], 1.0))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=d_model**-0.5)
