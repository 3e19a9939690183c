"""Shape and training task of a model with one stack."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

from transformer.config import ConfigError, ModelConfig, json_settings
from transformer.types import AttentionKind

#: Continue a text token by token (GPT, Radford et al. 2018), fill in hidden tokens (BERT, Devlin
#: et al. 2019), or continue a source with its translation.
Task = Literal["continue", "fill", "translate"]

#: Settings that a single-stack config leaves out.
_OF_TWO_STACKS = (
    "tgt_vocab_size", "n_decoder_heads", "decoder_d_ff", "n_encoder_layers", "n_decoder_layers",
    "tie_embeddings", "suppressed_ids", "suppressed_words", "renormalise", "forced_eos",
)  # fmt: skip


@dataclass(frozen=True)
class StackConfig:
    """Shape of a stack of self-attention and feed-forward blocks."""

    task: Task
    n_layers: int  # depth N
    blocks: ModelConfig  # all other settings, with one matrix for embeddings and output

    def __post_init__(self) -> None:
        if self.task not in get_args(Task):
            raise ConfigError(f"task={self.task!r} is not one of: {', '.join(get_args(Task))}")
        if self.blocks.tie_embeddings != "all" or self.blocks.n_decoder_heads is not None:
            raise ConfigError("one stack has one embedding and one number of heads")
        if self.blocks.positions not in ("sinusoidal", "learned"):
            raise ConfigError(
                f"positions={self.blocks.positions!r} is not one of: sinusoidal, learned"
            )
        depth = {"n_encoder_layers": self.n_layers, "n_decoder_layers": self.n_layers}
        object.__setattr__(self, "blocks", self.blocks.replace(**depth))

    @property
    def causal(self) -> bool:
        """True if every token sees only itself and earlier tokens."""
        return self.task != "fill"

    @property
    def kind(self) -> AttentionKind:
        """Kind of its maps: self-attention of a decoder or of an encoder."""
        return "decoder_self" if self.causal else "encoder_self"

    @property
    def head_shapes(self) -> dict[AttentionKind, tuple[int, int]]:
        """See `ModelConfig`."""
        return {self.kind: (self.n_layers, self.blocks.n_heads)}

    @cached_property
    def n_parameters(self) -> int:
        """Number of trainable parameters, from the shape alone."""
        blocks = self.blocks
        table = blocks.max_positions if blocks.positions == "learned" else 0
        layers = blocks.stack_parameters(self.n_layers, blocks.n_heads, blocks.d_ff, 1)
        outside = blocks.d_model * (blocks.vocab_size + table)
        return layers + outside + blocks.vocab_size * blocks.output_bias

    @property
    def d_model(self) -> int:
        """Width of the residual stream."""
        return self.blocks.d_model

    @property
    def pad_id(self) -> int:
        """Padding id."""
        return self.blocks.pad_id

    @property
    def max_positions(self) -> int:
        """Rows of a learned position table, which limit text length."""
        return self.blocks.max_positions

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `from_dict`."""
        shape = dataclasses.asdict(self.blocks)
        kept = {name: value for name, value in shape.items() if name not in _OF_TWO_STACKS}
        return {"task": self.task, "n_layers": self.n_layers} | kept

    def to_json(self) -> str:
        """Return the config as indented JSON, one field per line."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a config from untrusted values. Raises `ConfigError` naming the bad value."""
        shape = dict(values)
        task, n_layers = shape.pop("task", None), shape.pop("n_layers", None)
        for name in _OF_TWO_STACKS:
            if name in shape:
                raise ConfigError(f"{name} does not apply to a model with one stack")
        depth = {"n_encoder_layers": n_layers, "n_decoder_layers": n_layers}
        try:
            blocks = ModelConfig.from_dict(shape | depth)
        except ConfigError as error:
            raise ConfigError(str(error).replace("n_encoder_layers", "n_layers")) from None
        return cls(task, n_layers, blocks)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the output of `to_json`. Raises `ConfigError` on anything else."""
        return cls.from_dict(json_settings(text))
