"""The settings in a JoeyNMT model's config.yaml, checked, as a config."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from transformer.config import ModelConfig, Tying
from transformer.errors import CheckpointError
from transformer.files.safe import one_line, read_text
from transformer.importers.settings import ACTIVATIONS, Settings, by_side, model_config

CONFIG = "config.yaml"
#: Maximum size of a config in bytes; usual ones have a few kB, and YAML is slow to read.
MAX_YAML = 128 * 1024
#: Maximum number of values in a config, with aliases expanded.
MAX_VALUES = 20_000

LAST_NORM = ("encoder.layer_norm.weight", "decoder.layer_norm.weight")
#: Special tokens by the prefix of their settings: default id and text.
SPECIAL = {"unk": (0, "<unk>"), "pad": (1, "<pad>"), "bos": (2, "<s>"), "eos": (3, "</s>")}


def read_settings(path: Path) -> Settings:
    """Read plain values from config.yaml. Raises `CheckpointError` naming the file."""
    text = read_text(path, MAX_YAML)
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not valid YAML: {one_line(error)}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected groups of settings")
    _check_size(path, values)
    return Settings(path, values)


def _check_size(path: Path, values: Any) -> None:
    """Refuse configs whose YAML aliases, which may be recursive, expand to too many values."""
    waiting, seen = [values], 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise CheckpointError(f"{path}: more than {MAX_VALUES:,} values")
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value


def special_tokens(settings: Settings) -> dict[str, tuple[int, str]]:
    """Return id and text of "unk", "pad", "bos" and "eos"."""
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
    """Return the model's config. Raises `CheckpointError`, one line.

    Args:
        n_source, n_target: sizes of the vocabularies.
        names: of the tensors, for what configs of old versions leave out.
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
    return model_config(settings.path, {
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


def _norm(encoder: Settings, decoder: Settings, names: Collection[str]) -> str:
    """Return "pre" or "post". Before version 2 all were pre-norm, and no setting recorded it."""
    placed = []
    for stack, last, default in zip((encoder, decoder), LAST_NORM, ("pre", "post"), strict=True):
        default = "pre" if last in names else default
        placed.append(stack.choice("layer_norm", ("pre", "post"), default))
        if placed[-1] == "pre" and last not in names:
            raise stack.error("layer_norm", "supported without a norm after the last layer")
    if placed[0] != placed[1]:
        raise decoder.error("layer_norm", f"the encoder's {placed[0]!r}")
    return placed[0]


def _tying(model: Settings) -> Tying:
    embeddings, softmax = model.flag("tied_embeddings"), model.flag("tied_softmax")
    if embeddings and softmax:
        return "all"
    # Embeddings tied to each other but not to the output matrix become two equal ones.
    return "decoder" if softmax else "none"
