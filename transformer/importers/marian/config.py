"""The config and the vocabularies of a Marian checkpoint, checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer.config import ModelConfig, Tying
from transformer.errors import CheckpointError
from transformer.files.safe import MAX_TABLE, json_object
from transformer.importers.settings import ACTIVATIONS, by_side, model_config

CONFIG, GENERATION = "config.json", "generation_config.json"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"

#: Generation settings that have no effect here, with the values at which they never have one.
IDLE: dict[str, tuple[object, ...]] = {
    "no_repeat_ngram_size": (0,), "encoder_no_repeat_ngram_size": (0,), "min_length": (0, 1),
    "min_new_tokens": (0, 1), "repetition_penalty": (1.0,), "encoder_repetition_penalty": (1.0,),
    "forced_bos_token_id": (), "begin_suppress_tokens": ([],), "sequence_bias": ({}, []),
    "diversity_penalty": (0.0,), "num_beam_groups": (1,), "exponential_decay_length_penalty": (),
}  # fmt: skip
#: Required sizes, by their names in `ModelConfig`.
SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "d_model",
    "n_heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "n_encoder_layers": "encoder_layers",
    "n_decoder_layers": "decoder_layers",
}


def read_config(folder: Path) -> ModelConfig:
    """Read the model's config from config.json and generation_config.json."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    path = folder / CONFIG
    values = json_object(path)
    if values.get("model_type", "marian") != "marian":
        raise CheckpointError(f"{path}: model_type={values['model_type']!r} is not 'marian'")
    for flag in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        if values.get(flag):
            raise CheckpointError(
                f"{path}: {flag}={values[flag]!r} does not occur in Marian models"
            )
    activation = values.get("activation_function", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise CheckpointError(
            f"{path}: activation_function={activation!r} is not one of: {', '.join(ACTIVATIONS)}"
        )
    # Older models keep the generation settings in config.json.
    decoding = values
    if (folder / GENERATION).exists():
        decoding = json_object(folder / GENERATION)
    pad, eos = _token(path, values, "pad_token_id", 58_100), _token(path, values, "eos_token_id", 0)
    ends = decoding.get("eos_token_id")
    if ends not in (None, eos) and not (isinstance(ends, list) and eos in ends):
        raise CheckpointError(
            f"{folder / GENERATION}: eos_token_id={ends!r} is not that of {CONFIG}, {eos}"
        )
    start = _token(path, values, "decoder_start_token_id", pad)
    if decoding.get("decoder_start_token_id") is not None:
        start = _token(folder / GENERATION, decoding, "decoder_start_token_id", start)
    forced = decoding.get("forced_eos_token_id", eos if decoding is values else None)
    if forced not in (None, eos, [eos]):
        raise CheckpointError(
            f"{path}: forced_eos_token_id={forced!r} is not eos_token_id={eos}, nor null"
        )
    sizes = {ours: _size(path, values, theirs) for ours, theirs in SIZES.items()}
    heads = _size(path, values, "decoder_attention_heads")
    inner = _size(path, values, "decoder_ffn_dim")
    vocab_size = sizes["vocab_size"]
    target_size = values.get("decoder_vocab_size") or vocab_size
    tying = _tying(path, values, vocab_size == target_size)
    return model_config(path, {
        **sizes,
        **by_side(
            vocab_size=(vocab_size, target_size), n_heads=(sizes["n_heads"], heads),
            d_ff=(sizes["d_ff"], inner),
        ),
        "dropout": values.get("dropout", 0.1),
        "attention_dropout": values.get("attention_dropout", 0.0),
        "activation": ACTIVATIONS[activation],
        "position_layout": "concatenated",
        "max_positions": values.get("max_position_embeddings", 1024),
        "tie_embeddings": tying,
        "scale_embedding": values.get("scale_embedding", False),
        "attention_bias": True,
        "output_bias": True,
        "pad_id": pad,
        "bos_id": start,
        "eos_id": eos,
        "unk_id": _unknown(folder),
        "suppressed_ids": _suppressed(path, decoding, pad),
        "renormalise": decoding.get("renormalize_logits") is True,
        "forced_eos": forced is not None,
    })  # fmt: skip


def _size(path: Path, values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    if type(value) is not int or value < 1:
        raise CheckpointError(f"{path}: {name}={value!r} is not a whole number of at least 1")
    return value


def _tying(path: Path, values: Mapping[str, Any], one_size: bool) -> Tying:
    share, tie = (
        values.get(name, True)
        for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings")
    )
    if not isinstance(share, bool) or not isinstance(tie, bool):
        raise CheckpointError(
            f"{path}: share_encoder_decoder_embeddings and tie_word_embeddings are true or false"
        )
    if share and not one_size:
        raise CheckpointError(f"{path}: vocab_size and decoder_vocab_size share one embedding")
    if not tie:
        return "none"
    return "all" if share else "decoder"


def _token(path: Path, values: Mapping[str, Any], name: str, default: int) -> int:
    value = values.get(name, default)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if type(value) is not int or value < 0:
        raise CheckpointError(f"{path}: {name}={value!r} is not a token id")
    return value


def _suppressed(path: Path, decoding: Mapping[str, Any], pad: int) -> list[int]:
    """Return the ids that are never generated, apart from padding."""
    words = decoding.get("bad_words_ids") or []
    if not isinstance(words, list) or not all(
        isinstance(word, list) and len(word) == 1 and type(word[0]) is int for word in words
    ):
        raise CheckpointError(f"{path}: bad_words_ids={words!r} are not single tokens")
    single = decoding.get("suppress_tokens") or []
    if not isinstance(single, list) or not all(type(index) is int for index in single):
        raise CheckpointError(f"{path}: suppress_tokens={single!r} are not token ids")
    return sorted({*(word[0] for word in words), *single} - {pad})


def unknown_settings(folder: Path) -> list[str]:
    """Return the generation settings that would change the output but have no effect here."""
    path = folder / (GENERATION if (folder / GENERATION).exists() else CONFIG)
    values = json_object(path)
    ends = values.get("eos_token_id")
    several = ["eos_token_id"] if isinstance(ends, list) and len(ends) > 1 else []
    return several + [
        name
        for name, idle in IDLE.items()
        if values.get(name) not in (None, *idle) and not isinstance(values[name], bool)
    ]


def _unknown(folder: Path) -> int:
    """Return the id of `<unk>`, which only the vocabularies give."""
    found = {
        name: vocabulary(folder / name).get("<unk>")
        for name in (VOCABULARY, TARGET_VOCABULARY)
        if name == VOCABULARY or (folder / name).exists()
    }
    for name, index in found.items():
        if index is None or index != found[VOCABULARY]:
            raise CheckpointError(
                f"{folder / name}: <unk> is {'missing' if index is None else index}"
                + ("" if index is None else f", but {found[VOCABULARY]} in {VOCABULARY}")
            )
    return int(found[VOCABULARY] or 0)


def vocabulary(path: Path) -> dict[str, int]:
    """Read a vocabulary: piece to id. Raises `CheckpointError` naming the file."""
    values = json_object(path, MAX_TABLE)
    if not all(type(index) is int for index in values.values()):
        raise CheckpointError(f"{path}: expected a JSON object of pieces and their ids")
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        raise CheckpointError(f"{path}: holds a piece that is not text") from None
    return values
