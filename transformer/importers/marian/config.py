"""The config and the vocabularies of a Marian checkpoint, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformer.config import ModelConfig, Tying
from transformer.errors import CheckpointError
from transformer.files.safe import MAX_TABLE, is_folder, json_object
from transformer.importers.settings import ACTIVATIONS, Settings, by_side, model_config

CONFIG, GENERATION = "config.json", "generation_config.json"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"

#: Generation settings that have no effect here, with the values at which they never have one.
IDLE: dict[str, tuple[object, ...]] = {
    "no_repeat_ngram_size": (0,), "encoder_no_repeat_ngram_size": (0,), "min_length": (0, 1),
    "min_new_tokens": (0, 1), "repetition_penalty": (1.0,), "encoder_repetition_penalty": (1.0,),
    "forced_bos_token_id": (), "begin_suppress_tokens": ([],), "sequence_bias": ({}, []),
    "diversity_penalty": (0.0,), "num_beam_groups": (1,), "exponential_decay_length_penalty": (),
}  # fmt: skip


def read_config(folder: Path) -> ModelConfig:
    """Read the model's config from config.json and generation_config.json."""
    if not is_folder(folder):
        raise CheckpointError(f"{folder}: no such folder")
    path = folder / CONFIG
    given, decoding = Settings(path, json_object(path)), _generation(folder)
    if given.values.get("model_type", "marian") != "marian":
        raise given.error("model_type", "'marian'")
    given.refuse("normalize_before", "normalize_embedding", "add_final_layer_norm")
    pad, eos = _token(given, "pad_token_id", 58_100), _token(given, "eos_token_id", 0)
    ends = decoding.values.get("eos_token_id")
    if ends not in (None, eos) and not (isinstance(ends, list) and eos in ends):
        raise CheckpointError(
            f"{decoding.path}: eos_token_id={ends!r} is not that of {CONFIG}, {eos}"
        )
    start = _token(given, "decoder_start_token_id", pad)
    if decoding.values.get("decoder_start_token_id") is not None:
        start = _token(decoding, "decoder_start_token_id", start)
    older = decoding.path == path
    forced = decoding.values.get("forced_eos_token_id", eos if older else None)
    if forced not in (None, eos, [eos]):
        raise decoding.error("forced_eos_token_id", f"eos_token_id={eos}, nor null")
    sizes = given.whole("vocab_size"), given.values.get("decoder_vocab_size")
    heads, inner = (
        (given.whole(f"encoder_{name}"), given.whole(f"decoder_{name}"))
        for name in ("attention_heads", "ffn_dim")
    )
    vocabularies = sizes[0], sizes[1] or sizes[0]
    return model_config(path, {
        **by_side(vocab_size=vocabularies, n_heads=heads, d_ff=inner),
        "d_model": given.whole("d_model"),
        "n_encoder_layers": given.whole("encoder_layers"),
        "n_decoder_layers": given.whole("decoder_layers"),
        "dropout": given.values.get("dropout", 0.1),
        "attention_dropout": given.values.get("attention_dropout", 0.0),
        "activation": ACTIVATIONS[given.choice("activation_function", ACTIVATIONS, "gelu")],
        "position_layout": "concatenated",
        "max_positions": given.values.get("max_position_embeddings", 1024),
        "tie_embeddings": _tying(given, vocabularies),
        "scale_embedding": given.values.get("scale_embedding", False),
        "attention_bias": True,
        "output_bias": True,
        "pad_id": pad,
        "bos_id": start,
        "eos_id": eos,
        "unk_id": _unknown(folder),
        "suppressed_ids": _suppressed(decoding, pad),
        "renormalise": decoding.values.get("renormalize_logits") is True,
        "forced_eos": forced is not None,
    })  # fmt: skip


def _generation(folder: Path) -> Settings:
    """Return the generation settings, which older models keep in config.json."""
    path = folder / (GENERATION if (folder / GENERATION).exists() else CONFIG)
    return Settings(path, json_object(path))


def _tying(given: Settings, sizes: tuple[int, int]) -> Tying:
    share = given.flag("share_encoder_decoder_embeddings", default=True)
    if share and sizes[0] != sizes[1]:
        raise given.error("decoder_vocab_size", "vocab_size, although they share one embedding")
    if not given.flag("tie_word_embeddings", default=True):
        return "none"
    return "all" if share else "decoder"


def _token(given: Settings, name: str, default: int) -> int:
    value = given.values.get(name, default)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if type(value) is not int or value < 0:
        raise given.error(name, "a token id")
    return value


def _suppressed(decoding: Settings, pad: int) -> list[int]:
    """Return the ids that are never generated, apart from padding."""
    words = decoding.values.get("bad_words_ids") or []
    if not isinstance(words, list) or not all(
        isinstance(word, list) and len(word) == 1 and type(word[0]) is int for word in words
    ):
        raise decoding.error("bad_words_ids", "single tokens")
    single = decoding.values.get("suppress_tokens") or []
    if not isinstance(single, list) or not all(type(index) is int for index in single):
        raise decoding.error("suppress_tokens", "a list of token ids")
    return sorted({*(word[0] for word in words), *single} - {pad})


def unknown_settings(folder: Path) -> list[str]:
    """Return the generation settings that would change the output but have no effect here."""
    values: dict[str, Any] = dict(_generation(folder).values)
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
