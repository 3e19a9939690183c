"""One-stack Transformers, and their checkpoints.

Like any checkpoint, they are untrusted: weights are numbers whose shapes match the config.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.checkpoint import folder as checkpoints
from transformer.config import ConfigError
from transformer.hooks import Context, Hook, Stack, begun, sites
from transformer.kernels import Dropout, causal_mask, in_stream
from transformer.layers import EncoderLayer
from transformer.model import initialise
from transformer.models.one_stack.config import StackConfig
from transformer.positions import make_positions
from transformer.steps import KVCache, StepOutput
from transformer.text.tokenizer import Tokenizer
from transformer.types import AttentionKind, CheckpointError, literals


class OneStack(nn.Module):
    """Map tokens to logits at every position, of the next token or of a hidden one.

    Every layer is the paper's encoder layer (section 3.1). A causal stack masks its self-attention
    as a decoder does (section 3.2.3), so its layers are decoder layers without cross-attention.
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
        """Return logits for tgt_in [B, T, V]; src [B, S] and tgt_in [B, T] are read as one text.

        Either may be empty; only a translator is trained with both.
        """
        return self.logits(self.hidden(src, tgt_in, hooks))

    def hidden(self, src: Tensor, tgt_in: Tensor, hooks: Hook | None = None) -> Tensor:
        """Return the hidden states [B, T, d_model] of tgt_in."""
        return self.read(torch.cat([src, tgt_in], dim=1), hooks=hooks)[:, src.size(1) :]

    @literals
    def attention_block(self, kind: AttentionKind, layer: int) -> MultiHeadAttention:
        """Return the attention block of a layer; a stack has only one kind."""
        assert kind == self.config.kind
        block = self.layers[layer]
        assert isinstance(block, EncoderLayer)
        return block.self_attention

    @literals
    def distances(self, kind: AttentionKind, n_queries: int, n_keys: int) -> None:
        """Return None: positions are added to the embeddings."""
        return

    def read(self, ids: Tensor, *, hooks: Hook | None = None) -> Tensor:
        """Map texts [B, T], padded anywhere, to hidden states [B, T, d_model].

        Args: hooks: see `transformer.model.Transformer`. Sites of a causal stack belong to the
            decoder, others to the encoder.
        """
        stack: Stack = "decoder" if self.config.causal else "encoder"
        if hooks is not None:
            every = sites(self.config.blocks)
            own = [site for site in every if site.stack == stack and site.block != "cross"]
            hooks = begun(hooks, own, len(ids))
        return self.extend(ids, ids != self.config.pad_id, Context(stack, hooks))

    def extend(self, ids: Tensor, real: Tensor, at: Context) -> Tensor:
        """Map the last t tokens of texts to hidden states [B, t, d_model].

        Args:
            ids: [B, t].
            real: [B, T] bool over the whole texts, False at padding.
            at: context whose cache, if any, holds the T - t tokens before.
        """
        t = ids.size(1)
        numbers = (real.cumsum(1) - 1).clamp(min=0)[:, -t:]  # padding is not counted
        mask = real[:, None, None, :]  # [B, 1, 1, T]
        if self.config.causal:
            mask = mask & causal_mask(t, real.size(1), ids.device)
        x = self.embedding(ids)  # section 3.4
        if self.config.blocks.scale_embedding:
            x = x * self.config.d_model**0.5
        # Compiled passes have no cache, so no number lies beyond t.
        n = t if torch.compiler.is_compiling() else max(t, int(numbers.max()) + 1)
        x = self.dropout(in_stream(x + self.positions(0, n)[numbers]))  # section 3.5
        x = at.block("embedding")("hidden", x)
        for index, layer in enumerate(self.layers):
            x = layer(x, mask, at.layer(index))
        hidden: Tensor = at.block("final")("hidden", self.norm(x))
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [..., V] of hidden states [..., d_model]."""
        logits: Tensor = self.generator(hidden)
        return logits


class StackSteps:
    """Steps of a search that continues sources (`transformer.search.beam.StepFunction`)."""

    def __init__(self, model: OneStack, src: Tensor) -> None:
        """Read sources [N, S], padded at the end; S may be 0."""
        self.model, self.cache = model, KVCache()
        self.real = src != model.config.pad_id  # [R, n], False at padding, over all tokens read
        if src.size(1):
            model.extend(src, self.real, Context("decoder", cache=self.cache))

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.beam.StepFunction`."""
        ids = torch.tensor(tokens, device=self.real.device)[:, None]
        if parents is not None:
            rows = torch.tensor(parents, device=ids.device)
            self.real = self.real[rows]
            self.cache.select(rows)
        # No step's token counts as padding, not even in rows that have ended.
        self.real = torch.cat([self.real, torch.ones_like(ids, dtype=torch.bool)], dim=1)
        hidden = self.model.extend(ids, self.real, Context("decoder", cache=self.cache))
        return StepOutput(self.model.logits(hidden[:, -1]))


#: The piece that stands in for a hidden token.
MASK = "[MASK]"


def mask_id(tokenizer: Tokenizer) -> int:
    """Return the id of `MASK`. Raises `ConfigError` if the tokenizer lacks it."""
    try:
        return tokenizer.pieces.index(f"▁{MASK}")
    except ValueError:
        raise ConfigError(f"the tokenizer has no piece {MASK}") from None


def _config_and_tokenizer(folder: Path) -> tuple[StackConfig, Tokenizer]:
    where = folder / checkpoints.CONFIG
    try:
        config = StackConfig.from_json(checkpoints.read_config_text(folder))
        tokenizer = checkpoints.read_own_tokenizer(folder, config.blocks)
        where = folder
        if config.task == "fill":
            mask_id(tokenizer)
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{where}: {error}") from None
    return config, tokenizer


def _complete(config: StackConfig, model: OneStack) -> None:
    if config.blocks.positions == "sinusoidal":  # still on the meta device
        model.positions = make_positions(config.blocks)


StackCheckpoint = checkpoints.Loaded[StackConfig, OneStack]

ONE_STACK: checkpoints.ModelClass[StackConfig, OneStack, StackCheckpoint] = checkpoints.ModelClass(
    _config_and_tokenizer, OneStack, _complete, StackCheckpoint
)
load_stack, check_stack, save_stack = ONE_STACK.load, ONE_STACK.check, ONE_STACK.save
