"""What config.yaml says of a JoeyNMT model, checked, as a config."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from transformer.checkpoint.folder import check_size
from transformer.config import ConfigError, ModelConfig, Tying
from transformer.errors import CheckpointError
from transformer.files.safe import read_small
from transformer.importers.settings import Settings, by_side

CONFIG = "config.yaml"
#: Longest config in bytes: YAML is read slowly, and they have a few kB.
MAX_YAML = 128 * 1024
#: Most places in a config, those that stand for others counted each time.
MAX_PLACES = 20_000

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
LAST_NORM = ("encoder.layer_norm.weight", "decoder.layer_norm.weight")
#: Special tokens: their names' and ids' settings, and what both are by default.
SPECIAL = {"unk": (0, "<unk>"), "pad": (1, "<pad>"), "bos": (2, "<s>"), "eos": (3, "</s>")}


def read_settings(path: Path) -> Settings:
    """config.yaml: plain values only. Raises `CheckpointError` naming the file."""
    data = read_small(path, MAX_YAML)
    try:
        values = yaml.safe_load(data.decode())
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path}: not valid YAML: {reason}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected groups of settings")
    _check_places(path, values)
    return Settings(path, values)


def _check_places(path: Path, values: Any) -> None:
    """Refuse what a few lines unfold into: YAML may say "the same again", within itself too."""
    waiting, seen = [values], 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > MAX_PLACES:
            raise CheckpointError(f"{path}: more than {MAX_PLACES:,} values")
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value


def special_tokens(settings: Settings) -> dict[str, tuple[int, str]]:
    """Id and text of "unk", "pad", "bos" and "eos"."""
    given = settings.within("data").within("special_symbols")
    found = {}
    for name, (index, text) in SPECIAL.items():
        called = given.text(f"{name}_token", text)
        found[name] = (given.whole(f"{name}_id", index, 0), called or text)
    if len({index for index, _ in found.values()}) < len(found):
        raise given.error("pad_id", "different from the other special ids")
    return found


def read_config(
    settings: Settings, n_source: int, n_target: int, names: Collection[str]
) -> ModelConfig:
    """The model's shape.

    Args:
        n_source, n_target: sizes of the vocabularies.
        names: of the tensors, which say where the configs of old versions do not.

    Raises: `CheckpointError`, one line.
    """
    model = settings.within("model")
    encoder, decoder = model.within("encoder"), model.within("decoder")
    for stack, default in ((encoder, "recurrent"), (decoder, "transformer")):
        if stack.text("type", default) != "transformer":
            raise stack.error("type", "'transformer'")
        alpha = stack.values.get("alpha", 1.0)
        if alpha != 1:
            raise stack.error("alpha", "1, a residual sum without weights")
    width = encoder.whole("hidden_size", 512)
    for given, name in ((decoder, "hidden_size"), (encoder.within("embeddings"), "embedding_dim"),
                        (decoder.within("embeddings"), "embedding_dim")):  # fmt: skip
        if given.values.get(name) is not None and given.whole(name) != width:
            raise given.error(name, f"model.encoder.hidden_size={width}")
    activation = encoder.choice("activation", ACTIVATIONS, "relu")
    if decoder.choice("activation", ACTIVATIONS, "relu") != activation:
        raise decoder.error("activation", f"the encoder's {activation}")
    tying, special = _tying(model), special_tokens(settings)
    scale = encoder.within("embeddings").flag("scale")
    if not model.flag("tied_embeddings"):
        other = decoder.within("embeddings")
        if other.flag("scale") != scale:
            raise other.error("scale", f"the encoder's {scale}")
    if tying == "all" and n_source != n_target:
        raise model.error("tied_embeddings", f"for {n_source:,} and {n_target:,} pieces")
    heads, inner = encoder.whole("num_heads", 4), encoder.whole("ff_size", 2048)
    decoder_heads, decoder_inner = decoder.whole("num_heads", 8), decoder.whole("ff_size", 2048)
    try:
        config = ModelConfig.from_dict({
            **by_side(
                vocab_size=(n_source, n_target), n_heads=(heads, decoder_heads),
                d_ff=(inner, decoder_inner),
            ),
            "d_model": width,
            "n_encoder_layers": encoder.whole("num_layers", 8),
            "n_decoder_layers": decoder.whole("num_layers", 4),
            "dropout": encoder.share("dropout", 0.1),
            "attention_dropout": encoder.share("dropout", 0.1),
            "activation": ACTIVATIONS[activation],
            "norm": _norm(encoder, decoder, names),
            "max_positions": 1024,
            "tie_embeddings": tying,
            "scale_embedding": scale,
            "attention_bias": True,
            "layer_norm_eps": 1e-6,
            **{f"{name}_id": index for name, (index, _) in special.items()},
        })  # fmt: skip
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{settings.path}: {error}") from None
    check_size(settings.path, config)
    return config


def _norm(encoder: Settings, decoder: Settings, names: Collection[str]) -> str:
    """Before version 2 all models were pre-norm and nothing said so; the last norms tell."""
    placed = []
    for stack, last, default in zip((encoder, decoder), LAST_NORM, ("pre", "post"), strict=True):
        said = "pre" if last in names else default
        placed.append(stack.choice("layer_norm", ("pre", "post"), said))
        if placed[-1] == "pre" and last not in names:
            raise stack.error("layer_norm", "supported without a norm after the last layer")
    if placed[0] != placed[1]:
        raise decoder.error("layer_norm", f"the encoder's {placed[0]!r}")
    return placed[0]


def _tying(model: Settings) -> Tying:
    embeddings, softmax = model.flag("tied_embeddings"), model.flag("tied_softmax")
    if embeddings and softmax:
        return "all"
    # Tied embeddings with an output matrix of its own become two equal ones.
    return "decoder" if softmax else "none"
