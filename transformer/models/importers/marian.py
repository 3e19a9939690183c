"""Checkpoints of Marian and OPUS-MT in the format of Hugging Face.

They are the paper's base architecture, and each difference is a setting of `ModelConfig`: swish for
ReLU, biases on all projections and on the logits, sinusoids laid out as sines then cosines, a
decoder that starts from padding (whose embedding is zero). A SentencePiece model for each language
splits the text, and one vocabulary numbers the pieces.

The folder holds config.json, vocab.json, source.spm, target.spm, model.safetensors or
pytorch_model.bin, and sometimes generation_config.json, target_vocab.json and the tokenizer's
settings and added tokens. Nothing in it is trusted, see `transformer.checkpoint.weights`, and no
other library's code is run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint.folder import POSITION_TABLES
from transformer.checkpoint.shards import Stored, describe_shards
from transformer.checkpoint.weights import ROUNDING, layout_of
from transformer.config import ModelConfig, Tying
from transformer.errors import CheckpointError
from transformer.files.safe import MAX_TABLE, is_folder, json_object, read_small
from transformer.models.importers.mapping import LAYER_PARTS, Alias, gather, renamed, with_tables
from transformer.models.importers.registry import Imported
from transformer.models.importers.settings import ACTIVATIONS, Settings, model_config
from transformer.search.decoding import library_decoding
from transformer.text.files import blaming
from transformer.text.table import Marks, TableTokenizer, table_of
from transformer.text.tokenizer import TokenizerError
from transformer.types import Report

CONFIG, GENERATION = "config.json", "generation_config.json"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
TOKENIZER, SPECIAL_MAP = "tokenizer_config.json", "special_tokens_map.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
#: Maximum number of ids without a piece; a vocabulary that lacks more is another model's.
MAX_HOLES = 128

#: Generation settings that have no effect here, with the values at which they never have one.
IDLE: dict[str, tuple[object, ...]] = {
    "no_repeat_ngram_size": (0,), "encoder_no_repeat_ngram_size": (0,), "min_length": (0, 1),
    "min_new_tokens": (0, 1), "repetition_penalty": (1.0,), "encoder_repetition_penalty": (1.0,),
    "forced_bos_token_id": (), "begin_suppress_tokens": ([],), "sequence_bias": ({}, []),
    "diversity_penalty": (0.0,), "num_beam_groups": (1,), "exponential_decay_length_penalty": (),
    "max_length": (20,), "max_new_tokens": (), "do_sample": (False,), "watermarking_config": (),
}  # fmt: skip

BIAS = "final_logits_bias"
SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
#: Names of an embedding by `tie_embeddings`, in order of preference.
EMBEDDINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "all": {"src_embedding.weight": (SHARED, SOURCE, TARGET, OUTPUT)},
    "decoder": {
        "src_embedding.weight": (SOURCE,),
        "tgt_embedding.weight": (TARGET, OUTPUT),
    },
    "none": {
        "src_embedding.weight": (SOURCE, SHARED),
        "tgt_embedding.weight": (TARGET, SHARED),
        "generator.weight": (OUTPUT,),
    },
}
#: Tables of positions; older files store even sinusoids, some rounded.
TABLES = {
    name: f"model.{stack}.embed_positions.weight"
    for name, stack in zip(POSITION_TABLES, ("encoder", "decoder"), strict=True)
}


def read(folder: Path, report: Report | None = None) -> Imported:
    """Read a Marian model.

    If its tables of positions differ from the formula, the config's positions become "stored", or
    "learned" if config.json says that they were trained.
    """
    config = read_config(folder)
    tokenizer = read_tokenizer(folder, config)
    stored, layout = describe_shards(folder, WEIGHTS), layout_of(config)
    shapes = dict(layout.stored)
    names = {name: _aliases(name, config, stored) for name in shapes}
    if BIAS not in stored.found:
        del names["generator.bias"]
    for name, theirs in TABLES.items():
        if theirs in stored.found:
            names[name] = [Alias(theirs)]
            shapes[name] = (config.max_positions, config.d_model)
    # May be present, but is not needed.
    ignored = "(?!)" if config.tie_embeddings == "all" else re.escape(SHARED)
    state, dtype = gather(stored, shapes, names, ignored=ignored, said_by=CONFIG, report=report)
    if BIAS not in stored.found:
        state["generator.bias"] = torch.zeros(shapes["generator.bias"])
    config = with_tables(config, state, lambda _: ROUNDING)
    trained = json_object(folder / CONFIG).get("static_position_embeddings") is False
    if config.positions == "stored" and trained and names.keys() >= TABLES.keys():
        config = config.replace(positions="learned")
    given = _generation(folder)
    with given.blamed():
        decoding = library_decoding(given.values)
    ends, unused = given.values.get("eos_token_id"), given.unused(IDLE)
    if isinstance(ends, list) and len(ends) > 1:
        unused = (f"eos_token_id={ends}", *unused)
    return Imported(config, state, tokenizer, dtype, _notes(config), decoding, unused)


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
    allowed = f"eos_token_id={eos}, nor null"
    decoding.check("forced_eos_token_id", forced in (None, eos, [eos]), allowed)
    size = given.whole("vocab_size")
    decoders = given.values.get("decoder_vocab_size")
    vocabularies = size, size if decoders is None else decoders
    share = given.flag("share_encoder_decoder_embeddings", default=True)
    fits = not share or vocabularies[0] == vocabularies[1]
    given.check("decoder_vocab_size", fits, "vocab_size, although they share one embedding")
    tying: Tying = "all" if share else "decoder"
    if not given.flag("tie_word_embeddings", default=True):
        tying = "none"
    return model_config(
        path,
        vocab_size=vocabularies,
        n_heads=tuple(given.whole(f"{each}_attention_heads") for each in ("encoder", "decoder")),
        d_ff=tuple(given.whole(f"{each}_ffn_dim") for each in ("encoder", "decoder")),
        d_model=given.whole("d_model"),
        n_encoder_layers=given.whole("encoder_layers"),
        n_decoder_layers=given.whole("decoder_layers"),
        dropout=given.values.get("dropout", 0.1),
        attention_dropout=given.values.get("attention_dropout", 0.0),
        activation=ACTIVATIONS[given.choice("activation_function", ACTIVATIONS, "gelu")],
        position_layout="concatenated",
        max_positions=given.values.get("max_position_embeddings", 1024),
        tie_embeddings=tying,
        scale_embedding=given.values.get("scale_embedding", False),
        attention_bias=True,
        output_bias=True,
        pad_id=pad,
        bos_id=start,
        eos_id=eos,
        unk_id=_unknown(folder),
        suppressed_ids=_suppressed(decoding, pad),
        renormalise=decoding.values.get("renormalize_logits") is True,
        forced_eos=forced is not None,
    )


def _generation(folder: Path) -> Settings:
    """Return the generation settings, which older models keep in config.json."""
    path = folder / (GENERATION if (folder / GENERATION).exists() else CONFIG)
    return Settings(path, json_object(path))


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


def _aliases(name: str, config: ModelConfig, stored: Stored) -> list[Alias]:
    if name == "generator.bias":
        return [Alias(BIAS, leading=True)]
    embeddings = EMBEDDINGS[config.tie_embeddings].get(name)
    if embeddings is None:
        return [Alias(f"model.{renamed(name, LAYER_PARTS)}")]
    if config.tie_embeddings == "none":  # copies may differ, so only the first counts
        embeddings = tuple(each for each in embeddings if each in stored.found)[:1] or embeddings
    return [Alias(each) for each in embeddings]


def read_tokenizer(folder: Path, config: ModelConfig) -> TableTokenizer:
    """Read the SentencePiece models of both sides, with the ids of vocab.json."""
    settings = _tokenizer_settings(folder)
    separate = settings.flag(
        "separate_vocabs",
        not (folder / TOKENIZER).exists()
        and config.tie_embeddings != "all"
        and (folder / TARGET_VOCABULARY).exists(),
    )
    added, special = _added(folder, settings)
    marks = Marks(special, added=() if settings.flag("split_special_tokens") else tuple(added))
    tables = (VOCABULARY, TARGET_VOCABULARY if separate else VOCABULARY)
    sizes = config.vocab_size, config.target_vocab_size
    for name, size in zip(tables, sizes, strict=True):
        _check_vocabulary(folder / name, size, config, added)
    tokenizer: TableTokenizer | None = None
    try:
        for model, name, size in (
            (TARGET_MODEL, tables[1], sizes[1]), (SOURCE_MODEL, tables[0], sizes[0]),
        ):  # fmt: skip
            with blaming(name):
                table = table_of(_whole(vocabulary(folder / name) | added, size))
            with blaming(model):
                tokenizer = TableTokenizer(
                    read_small(folder / model, MAX_TABLE), table, config, tokenizer, marks=marks
                )
    except TokenizerError as error:
        raise CheckpointError(f"{folder}/{error}") from None
    assert tokenizer is not None
    return tokenizer


def _tokenizer_settings(folder: Path) -> Settings:
    """Return the tokenizer's settings, after checking any that change segmentation."""
    found = Settings(folder / TOKENIZER, {})
    for path in (folder / SPECIAL_MAP, folder / TOKENIZER):  # later ones count
        if path.exists():
            found = Settings(path, {**found.values, **json_object(path, MAX_TABLE)})
            for name, usual in (("eos", "</s>"), ("unk", "<unk>"), ("pad", "<pad>")):
                given = _text(found.values.get(f"{name}_token", usual))
                found.check(f"{name}_token", given == usual, repr(usual))
    nothing = found.values.get("sp_model_kwargs") in (None, {})
    found.check("sp_model_kwargs", nothing, "supported, since it changes how text is cut")
    return found


def _text(token: Any) -> Any:
    """Return the text of a token in the library's files, where it may have settings."""
    return token.get("content") if isinstance(token, dict) else token


def _added(folder: Path, settings: Settings) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the tokens added to the vocabulary with their ids, and the tokens that are not text.

    As in the library, they are in its settings; without, in added_tokens.json and tokenizer.json.
    """
    given = settings.values.get("added_tokens_decoder")
    path, named = settings.path, set()
    for name in ("additional_special_tokens", "extra_special_tokens"):
        if isinstance(special := settings.values.get(name), list):
            named |= {str(_text(each)) for each in special}
    if given is None:
        given = {}
        path = folder / "tokenizer.json"
        if path.exists():
            listed = json_object(path, MAX_TABLE).get("added_tokens") or []
            given = {str(each.get("id")): each for each in listed if isinstance(each, dict)}
        if (folder / "added_tokens.json").exists():
            path = folder / "added_tokens.json"
            ids = json_object(path, MAX_TABLE)
            given |= {
                f"{at}": {"content": text, "special": text in named} for text, at in ids.items()
            }
    found, marks = {}, []
    for index, token in given.items():
        text = _text(token)
        if not isinstance(token, dict) or not isinstance(text, str) or not index.isdecimal():
            raise CheckpointError(f"{path}: {index!r:.40}: {token!r:.80} is not an added token")
        if text in ("", "</s>", "<unk>", "<pad>"):
            continue
        if token.get("single_word"):
            raise CheckpointError(f"{path}: {text!r:.80} has single_word, which is not supported")
        for name in (VOCABULARY, TARGET_VOCABULARY):
            at = vocabulary(folder / name).get(text) if (folder / name).exists() else None
            if at is not None and at != int(index):
                raise CheckpointError(f"{path}: {text!r:.80} is {index}, but {at} in {name}")
        found[text] = int(index)
        marks += [text] if token.get("special") else []
    return found, tuple(marks)


def _whole(ids: dict[str, int], size: int) -> dict[str, int]:
    """Name the ids without a piece, left by deleted pieces and by padding to a round number.

    No text is split into these names, since they hold a space.
    """
    free = sorted({*range(size)} - {*ids.values()}) if len(ids) < size else []
    return ids | {f"<no piece {index}>": index for index in free}


def _check_vocabulary(path: Path, size: int, config: ModelConfig, added: dict[str, int]) -> None:
    ids = vocabulary(path) | added
    if not len(ids) <= size <= len(ids) + min(MAX_HOLES, len(ids) // 10):
        raise CheckpointError(f"{path}: {len(ids):,} pieces, but {CONFIG} asks for {size:,}")
    for piece, name, wanted in (
        ("<pad>", "pad_token_id", config.pad_id),
        ("</s>", "eos_token_id", config.eos_id),
    ):
        if ids.get(piece) != wanted:
            raise CheckpointError(
                f"{path}: {piece} is {ids.get(piece, 'missing')}, but {CONFIG} says {name}={wanted}"
            )


def _notes(config: ModelConfig) -> str:
    start = "`<pad>`" if config.bos_id == config.pad_id else f"piece {config.bos_id}"
    positions = {
        "sinusoidal": "sinusoids laid out as sines then cosines",
        "learned": "learned positions",
        "stored": "positions from a stored table",
    }[config.positions]
    return f"""{config.activation} in the feed-forward networks, biases on all projections and on the logits,
{positions}, and a decoder that starts from {start}."""  # noqa: E501 - one line in the card
