"""The shape of a Transformer, as one frozen dataclass (sections 3 and 5.3, table 3).

A `ModelConfig` has everything to build the network and nothing about its training. Construction
validates it, so every config can be built.
"""

import dataclasses
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from transformer.types import AttentionKind

Activation = Literal["relu", "gelu", "silu"]
NormPlacement = Literal["post", "pre"]
PositionKind = Literal["sinusoidal", "learned", "stored", "relative"]
PositionLayout = Literal["interleaved", "concatenated"]
PositionFrequencies = Literal["paper", "endpoint"]
Tying = Literal["all", "decoder", "none"]

#: Models with more parameters are refused before memory is allocated.
MAX_PARAMETERS = 2_000_000_000
#: Counts are below this, so that derived values can be printed.
MAX_WHOLE = 10**15
#: Limits for JSON: `[[],[],` takes 24 times its size in memory, and deep values the whole stack.
MAX_VALUES, MAX_DEPTH = 1_000_000, 100
#: Classes of distances for relative positions, as in T5 (Raffel et al. 2020, section 2.1).
DISTANCE_BUCKETS = 32
#: Largest number of the first position.
MAX_POSITION_OFFSET = 1_000_000
#: Key in a checkpoint's config.json: SHA-256 of its tokenizer files.
TOKENIZER = "tokenizer_sha256"


class ConfigError(ValueError):
    """An invalid config value; the message names it and the allowed values."""


@dataclass(frozen=True)
class ModelConfig:
    """Shape of an encoder-decoder Transformer."""

    vocab_size: int = 37_000  # source tokens V; also target tokens, unless `tgt_vocab_size` is set
    tgt_vocab_size: int | None = None  # target tokens, if the vocabularies differ
    d_model: int = 512  # width of every residual stream
    n_heads: int = 8  # attention heads per layer, h in the paper
    n_decoder_heads: int | None = None  # the decoder's, if they differ from the encoder's
    # Width of a head's queries and keys, and of its values; None means d_model / h.
    d_k: int | None = None
    d_v: int | None = None
    d_ff: int = 2048  # inner width of the position-wise feed-forward network
    decoder_d_ff: int | None = None  # the decoder's, if it differs from the encoder's
    n_encoder_layers: int = 6  # depth N of each stack
    n_decoder_layers: int = 6
    dropout: float = 0.1  # P_drop on sub-layer outputs and on embeddings + positions (section 5.4)
    # Dropout on attention weights in training. Departure: not in the paper's text, 0 by default.
    attention_dropout: float = 0.0
    activation: Activation = "relu"  # feed-forward activation; the paper uses ReLU
    # "post" is the paper's LayerNorm(x + Sublayer(x)); "pre" x + Sublayer(LayerNorm(x)).
    norm: NormPlacement = "post"
    # Sinusoidal (section 3.5), learned (table 3, row E), or "stored": a fixed table beside the
    # weights, as in other libraries' files, usually sinusoids rounded to half precision. The
    # sinusoid settings then describe the formula for comparison. "relative": embeddings stay
    # unchanged; self-attention heads add a trained number to their logits for each class of
    # distances, shared by all layers of a stack. Departure: T5's (Raffel et al. 2020), after Shaw
    # et al. (2018).
    positions: PositionKind = "sinusoidal"
    # Sines and cosines "interleaved" as in the paper's formula, or "concatenated" (all sines, then
    # all cosines) as in several implementations.
    position_layout: PositionLayout = "interleaved"
    # The slowest sinusoid is the "paper"'s, 10000^(2/d_model - 1), or exactly 1/10000 ("endpoint"),
    # as in tensor2tensor and its successors.
    position_frequencies: PositionFrequencies = "paper"
    position_offset: int = 0  # number of the first position of sinusoids, 0 in the paper
    # Rows of a learned or stored table, and the longest accepted sequence.
    max_positions: int = 1024
    # "all" shares source, target and output matrices (section 3.4), "decoder" only target and
    # output, "none" nothing.
    tie_embeddings: Tying = "all"
    scale_embedding: bool = True  # multiply embeddings by sqrt(d_model) (section 3.4)
    attention_bias: bool = False  # on q, k, v and output projections; not in the paper
    output_bias: bool = False  # added to the logits
    layer_norm_eps: float = 1e-5  # epsilon inside LayerNorm
    # Special token ids; `bos_id` starts the decoder. It may equal `pad_id`, which the decoder then
    # reads like any other token.
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    unk_id: int = 3
    suppressed_ids: tuple[int, ...] = ()  # other target ids that are never generated
    suppressed_words: tuple[tuple[int, ...], ...] = ()  # sequences that are never generated
    # Redistribute the probability of padding and suppressed tokens to the others.
    renormalise: bool = False
    forced_eos: bool = False  # end in `</s>` even if the length limit cuts a translation

    def __post_init__(self) -> None:
        optional = ("tgt_vocab_size", "n_decoder_heads", "d_k", "d_v", "decoder_d_ff")
        for name in (
            "vocab_size", "d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers",
            "max_positions", *optional,
        ):  # fmt: skip
            if name not in optional or getattr(self, name) is not None:
                _require_int(name, getattr(self, name), minimum=1)
        for name in ("n_heads", "n_decoder_heads"):
            n_heads = getattr(self, name)
            if None in (self.d_k, self.d_v) and n_heads is not None and self.d_model % n_heads:
                raise ConfigError(
                    f"d_model={self.d_model} is not a multiple of {name}={n_heads}; "
                    "choose one that is, or set d_k and d_v"
                )
        paired = (
            self.positions in ("sinusoidal", "stored") and self.position_layout == "interleaved"
        )
        if paired and self.d_model % 2:
            raise ConfigError(f"d_model={self.d_model} is odd; sinusoidal positions need it even")
        if self.position_frequencies == "endpoint" and self.d_model < 4:
            raise ConfigError(f"d_model={self.d_model} has too few frequencies; use at least 4")
        _require_int("position_offset", self.position_offset, minimum=0)
        if self.position_offset > MAX_POSITION_OFFSET:
            raise ConfigError(f"position_offset={self.position_offset}; at most "
                              f"{MAX_POSITION_OFFSET:,} is allowed")  # fmt: skip
        for name in ("dropout", "attention_dropout"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
                raise ConfigError(f"{name}={value!r} is not a number in [0, 1)")
        for name, kind in (
            ("activation", Activation), ("norm", NormPlacement), ("positions", PositionKind),
            ("position_layout", PositionLayout), ("position_frequencies", PositionFrequencies),
            ("tie_embeddings", Tying),
        ):  # fmt: skip
            if getattr(self, name) not in get_args(kind):
                allowed = ", ".join(get_args(kind))
                raise ConfigError(f"{name}={getattr(self, name)!r} is not one of: {allowed}")
        if self.tgt_vocab_size is not None and self.tie_embeddings == "all":
            raise ConfigError(
                "tie_embeddings='all' shares one matrix, so tgt_vocab_size must be None; "
                "use 'decoder' or 'none' with separate vocabularies"
            )
        for name in ("pad_id", "bos_id", "eos_id", "unk_id"):
            _require_int(name, getattr(self, name), minimum=0)
            # `<s>` is never a source token; the others occur on both sides.
            size = self.target_vocab_size
            size = size if name == "bos_id" else min(size, self.vocab_size)
            if getattr(self, name) >= size:
                raise ConfigError(
                    f"{name}={getattr(self, name)} lies outside the vocabulary (0 to {size - 1})"
                )
        for token in self.suppressed_ids:
            if not 0 <= token < self.target_vocab_size or token == self.eos_id:
                raise ConfigError(
                    f"suppressed_ids holds {token}; expected ids of the vocabulary (0 to "
                    f"{self.target_vocab_size - 1}) without eos_id"
                )
        for token in itertools.chain.from_iterable(self.suppressed_words):
            if not 0 <= token < self.target_vocab_size:
                raise ConfigError(
                    f"suppressed_words holds {token}; expected ids of the vocabulary (0 to "
                    f"{self.target_vocab_size - 1})"
                )
        if self.n_parameters > MAX_PARAMETERS:
            raise ConfigError(
                f"the config requires {self.n_parameters:,} parameters; "
                f"at most {MAX_PARAMETERS:,} are allowed"
            )

    @property
    def heads_in_words(self) -> str:
        """Number of heads per layer, for encoder and decoder if they differ."""
        if self.decoder_heads != self.n_heads:
            return f"{self.n_heads} and {self.decoder_heads} heads"
        return "1 head" if self.n_heads == 1 else f"{self.n_heads} heads"

    @property
    def decoder_heads(self) -> int:
        """Attention heads of a decoder layer."""
        return self.n_decoder_heads if self.n_decoder_heads is not None else self.n_heads

    @property
    def head_shapes(self) -> dict[AttentionKind, tuple[int, int]]:
        """Number of layers and of heads per layer, by kind of attention."""
        decoder = self.n_decoder_layers, self.decoder_heads
        encoder = self.n_encoder_layers, self.n_heads
        return {"encoder_self": encoder, "decoder_self": decoder, "cross": decoder}

    @property
    def decoder_inner(self) -> int:
        """Inner width of the decoder's feed-forward networks."""
        return self.decoder_d_ff if self.decoder_d_ff is not None else self.d_ff

    @property
    def target_vocab_size(self) -> int:
        """Number of target tokens."""
        return self.tgt_vocab_size if self.tgt_vocab_size is not None else self.vocab_size

    @property
    def n_parameters(self) -> int:
        """Number of trainable parameters, computed without building the model."""
        d = self.d_model
        encoder = self.stack_parameters(self.n_encoder_layers, self.n_heads, self.d_ff, 1)
        decoder = self.stack_parameters(
            self.n_decoder_layers, self.decoder_heads, self.decoder_inner, 2
        )
        separate = {"all": 0, "decoder": 1, "none": 2}[self.tie_embeddings]
        embedding = d * (self.vocab_size + separate * self.target_vocab_size)
        if self.positions == "learned":
            embedding += 2 * d * self.max_positions
        if self.positions == "relative":
            embedding += DISTANCE_BUCKETS * (self.n_heads + self.decoder_heads)
        return encoder + decoder + embedding + self.output_bias * self.target_vocab_size

    def stack_parameters(self, n_layers: int, h: int, d_ff: int, n_attention: int) -> int:
        """Number of parameters of a stack; each layer has `n_attention` blocks of h heads."""
        d, layer_norm = self.d_model, 2 * self.d_model
        d_k, d_v = self.d_k or d // h, self.d_v or d // h
        biases = h * (2 * d_k + d_v) + d if self.attention_bias else 0
        attention = 2 * d * h * (d_k + d_v) + biases + layer_norm
        feed_forward = 2 * d * d_ff + d_ff + d + layer_norm
        end = layer_norm if self.norm == "pre" else 0
        return n_layers * (n_attention * attention + feed_forward) + end

    @property
    def n_numbers(self) -> int:
        """Number of values in a checkpoint: parameters and stored position tables."""
        tables = 2 * self.d_model * self.max_positions if self.positions == "stored" else 0
        return self.n_parameters + tables

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self) -> str:
        """Return the config as indented JSON, one field per line."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a config from untrusted values. Raises `ConfigError` naming an invalid one."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for name, value in values.items():
            if name not in fields:
                raise ConfigError(f"unknown setting {name!r}; known: {', '.join(sorted(fields))}")
            default = fields[name].default
            if isinstance(default, bool) and not isinstance(value, bool):
                raise ConfigError(f"{name}={value!r} is not true or false")
        ids, words = (values.get(f"suppressed_{name}", ()) for name in ("ids", "words"))
        if not _are_ids(ids):
            raise ConfigError(f"suppressed_ids={ids!r} is not a list of token ids")
        if not isinstance(words, list | tuple) or not all(
            _are_ids(word) and word for word in words
        ):
            raise ConfigError(f"suppressed_words={words!r:.80} is not a list of lists of token ids")
        eps = values.get("layer_norm_eps", 1e-5)
        if not isinstance(eps, float) or not 0 < eps < 1:
            raise ConfigError(f"layer_norm_eps={eps!r} is not a number between 0 and 1")
        lists = {"suppressed_ids": tuple(ids), "suppressed_words": tuple(map(tuple, words))}
        return cls(**{**values, **lists})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the output of `to_json`. Raises `ConfigError` for anything else."""
        return cls.from_dict(json_settings(text))


def json_settings(text: str) -> dict[str, Any]:
    """Parse a JSON object with a config's fields. Raises `ConfigError` for anything else.

    The key `TOKENIZER` of a checkpoint's file is omitted.
    """
    try:
        values = parse_json(text)
    except ValueError as error:
        raise ConfigError(f"not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError("expected a JSON object with the fields of a model config")
    return {name: value for name, value in values.items() if name != TOKENIZER}


def parse_json(text: str | bytes, most: int = MAX_VALUES) -> Any:
    """Parse strict JSON in UTF-8.

    Args: most: values allowed; commas and brackets within strings count as well.

    Raises: `ValueError`, also for a repeated key (parsers disagree on which one counts), too
        many values, and nesting deeper than `MAX_DEPTH`.
    """
    text = text.decode() if isinstance(text, bytes) else text
    if sum(map(text.count, ",[{")) > most:
        raise ValueError(f"more than {most:,} values")
    try:
        values = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [values] if isinstance(values, dict | list) else []
    for _ in range(MAX_DEPTH + 1):
        groups = (value.values() if isinstance(value, dict) else value for value in level)
        level = [inner for group in groups for inner in group if isinstance(inner, dict | list)]
    if level:
        raise ValueError("nested too deeply")
    return values


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key[:80]!r} occurs twice")
        values[key] = value
    return values


def _are_ids(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(type(token) is int for token in values)


def _require_int(name: str, value: object, *, minimum: int) -> None:
    if isinstance(value, int) and value >= MAX_WHOLE:
        raise ConfigError(f"{name} is far too large ({len(str(value))} digits)")
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ConfigError(f"{name}={value!r} is not a whole number of at least {minimum}")


#: Named shapes. `base` and `big` are the paper's (table 3); `small` is the Multi30k model of Wu et
#: al. 2021 ("Good for Misconceived Reasons"); `tiny` is for tests and quick experiments.
PRESETS: dict[str, ModelConfig] = {
    "base": ModelConfig(),
    "big": ModelConfig(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3),
    "small": ModelConfig(
        vocab_size=8_000, d_model=128, d_ff=256, n_heads=4,
        n_encoder_layers=4, n_decoder_layers=4, dropout=0.3,
    ),
    "tiny": ModelConfig(
        vocab_size=64, d_model=32, d_ff=64, n_heads=4,
        n_encoder_layers=2, n_decoder_layers=2, max_positions=128,
    ),
}  # fmt: skip


def preset(name: str, **changes: Any) -> ModelConfig:
    """Return a preset with some fields changed. Raises `ConfigError` for unknown names."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}; known: {', '.join(sorted(PRESETS))}")
    return PRESETS[name].replace(**changes)
