"""One stack of the paper's blocks: an encoder alone, or a decoder without cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.context import Context
from transformer.hooks import Hook, Stack, begun, sites
from transformer.kernels import Dropout, causal_mask, in_stream
from transformer.layers import EncoderLayer
from transformer.model import initialise
from transformer.models.one_stack.config import StackConfig
from transformer.positions import make_positions
from transformer.steps import KVCache, StepOutput
from transformer.types import AttentionKind


class Text(NamedTuple):
    """Texts as the stack reads them."""

    ids: Tensor  # [B, T] token ids; padding may stand anywhere
    numbers: Tensor  # [B, T], the position of each token, padding not counted
    mask: Tensor | None  # [B, 1, T, T] bool; True = may attend. None for all.


class OneStack(nn.Module):
    """Tokens in, logits at every position out: of the next token, or of a hidden one.

    Each layer is the paper's encoder layer (section 3.1), whose self-attention a causal stack
    masks like its decoder's (section 3.2.3). A decoder without cross-attention is the same thing.
    """

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        blocks = config.blocks
        self.embedding = nn.Embedding(blocks.vocab_size, blocks.d_model)
        self.positions = make_positions(blocks)
        self.layers = nn.ModuleList(EncoderLayer(blocks) for _ in range(config.n_layers))
        pre = blocks.norm == "pre"
        self.norm = nn.LayerNorm(blocks.d_model, blocks.layer_norm_eps) if pre else nn.Identity()
        self.generator = nn.Linear(blocks.d_model, blocks.vocab_size, bias=blocks.output_bias)
        self.dropout = Dropout(blocks.dropout)
        initialise(self, blocks.d_model)
        self.generator.weight = self.embedding.weight

    @property
    def n_parameters(self) -> int:
        """Number of trainable parameters, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(self, src: Tensor, tgt_in: Tensor, hooks: Hook | None = None) -> Tensor:
        """Read src [B, S] and tgt_in [B, T] as one text: logits [B, T, V] of the latter.

        Either may be empty; only a translator is trained with both.
        """
        return self.logits(self.hidden(src, tgt_in, hooks))

    def hidden(self, src: Tensor, tgt_in: Tensor, hooks: Hook | None = None) -> Tensor:
        """Return the states [B, T, d_model] of tgt_in before the last projection."""
        return self.read(torch.cat([src, tgt_in], dim=1), hooks=hooks)[:, src.size(1) :]

    def attention_block(self, kind: AttentionKind, layer: int) -> MultiHeadAttention:
        """Return the attention block of a layer; there is only one kind."""
        assert kind == self.config.kind
        found = self.layers[layer]
        assert isinstance(found, EncoderLayer)
        return found.self_attention

    def distances(self, kind: AttentionKind, n_queries: int, n_keys: int) -> None:
        """Return None: positions are added to the embeddings."""
        return

    def read(self, ids: Tensor, *, hooks: Hook | None = None) -> Tensor:
        """Map texts [B, T], padded anywhere, to hidden states [B, T, d_model].

        Args: hooks: as in `transformer.model.Transformer`; a causal stack's sites are the
            decoder's, another's the encoder's.
        """
        stack: Stack = "decoder" if self.config.causal else "encoder"
        if hooks is not None:
            every = sites(self.config.blocks)
            own = [site for site in every if site.stack == stack and site.block != "cross"]
            hooks = begun(hooks, own, len(ids))
        text, at = self.text(ids), Context(stack, hooks)
        x = at.block("embedding")("hidden", self.embed(text))
        for index, layer in enumerate(self.layers):
            x = layer(x, text.mask, at.layer(index))
        hidden: Tensor = at.block("final")("hidden", self.norm(x))
        return hidden

    def text(self, ids: Tensor) -> Text:
        """Number the tokens of texts [B, T], and say which may attend to which."""
        real = ids != self.config.pad_id  # [B, T]
        numbers = (real.cumsum(1) - 1).clamp(min=0)
        mask = real[:, None, None, :]  # [B, 1, 1, T]
        if self.config.causal:
            mask = mask & causal_mask(ids.size(1), ids.size(1), ids.device)
        return Text(ids, numbers, mask)

    def embed(self, text: Text) -> Tensor:
        """Embed texts (section 3.4) and add positions (section 3.5)."""
        x = self.content(text.ids) + self.places_of(text.numbers)
        output: Tensor = self.dropout(in_stream(x))
        return output

    def content(self, ids: Tensor) -> Tensor:
        """Return embeddings of tokens [..., T], scaled if configured: [..., T, d_model]."""
        x: Tensor = self.embedding(ids)
        return x * self.config.d_model**0.5 if self.config.blocks.scale_embedding else x

    def places_of(self, numbers: Tensor) -> Tensor:
        """Return vectors of positions [B, T]: [B, T, d_model]."""
        n = numbers.size(-1)
        if not torch.compiler.is_compiling():  # a step of decoding has a number beyond its length
            n = max(n, int(numbers.max()) + 1)
        vectors: Tensor = self.positions(0, n)[numbers]
        return vectors

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [..., V] of hidden states [..., d_model]."""
        logits: Tensor = self.generator(hidden)
        return logits


class StackSteps:
    """A `transformer.search.beam.StepFunction` that continues sources, read at the start.

    Attributes:
        real: [R, n] bool, which of the tokens read so far are no padding.
    """

    def __init__(self, model: OneStack, src: Tensor) -> None:
        """Read sources [N, S], padded at the end; S may be 0."""
        self.model = model
        self.at = Context("decoder", cache=KVCache())
        self.real = torch.zeros(len(src), 0, dtype=torch.bool, device=src.device)
        if src.size(1):
            self._read(src)

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.beam.StepFunction`."""
        device = self.real.device
        if parents is not None:
            rows = torch.tensor(parents, device=device)
            self.real = self.real[rows]
            assert self.at.cache is not None
            self.at.cache.select(rows)
        hidden = self._read(torch.tensor(tokens, device=device)[:, None])
        return StepOutput(self.model.logits(hidden[:, -1]))

    def _read(self, ids: Tensor) -> Tensor:
        """Read ids [R, t] after those before them: hidden states [R, t, d_model]."""
        model, t = self.model, ids.size(1)
        # A step's token may be any, `</s>` of rows that have ended among them; none is padding.
        fresh = ids != model.config.pad_id if t > 1 else torch.ones_like(ids, dtype=torch.bool)
        self.real = torch.cat([self.real, fresh], dim=1)
        numbers = (self.real.cumsum(1) - 1).clamp(min=0)[:, -t:]
        mask = self.real[:, None, None, :] & causal_mask(t, self.real.size(1), ids.device)
        x = model.content(ids) + model.places_of(numbers)
        for index, layer in enumerate(model.layers):
            x = layer(x, mask, self.at.layer(index))
        hidden: Tensor = model.norm(x)
        return hidden
