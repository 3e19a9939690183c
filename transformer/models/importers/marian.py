"""Checkpoints of Marian and OPUS-MT in Hugging Face format.

They have the paper's base architecture, and every difference is a setting of `ModelConfig`: swish
in place of ReLU, biases on all projections and on the logits, sinusoids laid out as sines then
cosines, a decoder that starts from padding (whose embedding is zero). A SentencePiece model for
each language splits the text, and one vocabulary numbers the pieces.

A folder has config.json, vocab.json, source.spm, target.spm, model.safetensors or
pytorch_model.bin, and sometimes generation_config.json, target_vocab.json and the tokenizer's
settings and added tokens. Nothing in it is trusted, see `transformer.checkpoint.weights`, and no
code of another library runs.
"""

import re
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint.folder import POSITION_TABLES
from transformer.checkpoint.shards import Stored, describe_shards
from transformer.checkpoint.weights import ROUNDING, layout_of
from transformer.config import ModelConfig, Tying
from transformer.files.safe import MAX_TABLE, is_folder, json_object, read_small
from transformer.models.importers import registry
from transformer.models.importers.pieces import no_piece
from transformer.models.importers.settings import (
    ACTIVATIONS,
    LISTS,
    MAX_BANNED,
    UNUSED,
    Settings,
    checked_flag,
    inside,
    library_decoding,
    model_config,
)
from transformer.search.inputs import checked_whole
from transformer.text.rules import blaming
from transformer.text.table import Marks, TableTokenizer, table_of
from transformer.text.tokenizer import TokenizerError
from transformer.types import CheckpointError, InputError, Report

CONFIG, GENERATION = "config.json", "generation_config.json"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
TOKENIZER, SPECIAL_MAP = "tokenizer_config.json", "special_tokens_map.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
#: Maximum number of ids without a piece; a vocabulary with more belongs to another model.
MAX_HOLES = 128

#: Generation settings without effect here.
IDLE: dict[str, list[object]] = LISTS["idle"]["marian"] | UNUSED
#: Ids by piece, by vocabulary file.
Tables = dict[str, dict[str, int]]

BIAS = "final_logits_bias"
SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
#: Embedding names by `tie_embeddings`, in order of preference.
EMBEDDINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "all": {"src_embedding.weight": (SHARED, SOURCE, TARGET, OUTPUT)},
    "decoder": {"src_embedding.weight": (SOURCE,), "tgt_embedding.weight": (TARGET, OUTPUT)},
    "none": {
        "src_embedding.weight": (SOURCE, SHARED),
        "tgt_embedding.weight": (TARGET, SHARED),
        "generator.weight": (OUTPUT,),
    },
}
#: Position tables; older files store even sinusoids, some rounded.
TABLES = {
    name: f"model.{stack}.embed_positions.weight"
    for name, stack in zip(POSITION_TABLES, ("encoder", "decoder"), strict=True)
}


def read(folder: Path, report: Report | None = None) -> registry.Imported:
    """Read a Marian model.

    Position tables that differ from the formula become "stored" positions, or "learned" positions
    if config.json says that they were trained.
    """
    if not is_folder(folder):
        raise CheckpointError(f"{folder}: no such folder")
    given = decoding = Settings(folder / CONFIG, json_object(folder / CONFIG))
    if (path := folder / GENERATION).exists():  # older models keep these settings in config.json
        decoding = Settings(path, json_object(path))
    tables = {
        name: vocabulary(folder / name)
        for name in (VOCABULARY, TARGET_VOCABULARY)
        if name == VOCABULARY or (folder / name).exists()
    }
    config = read_config(given, decoding, _unknown(folder, tables))
    tokenizer = read_tokenizer(folder, config, tables)
    stored, layout = describe_shards(folder, WEIGHTS), layout_of(config)
    shapes = dict(layout.stored)
    names = {name: _aliases(name, config, stored) for name in shapes}
    if BIAS not in stored.found:
        del names["generator.bias"]
    for name, theirs in TABLES.items():
        if theirs in stored.found:
            names[name] = [registry.Alias(theirs)]
            shapes[name] = (config.max_positions, config.d_model)
    # May be present, but is not needed.
    ignored = "(?!)" if config.tie_embeddings == "all" else re.escape(SHARED)
    state, dtype = registry.gather(
        stored, shapes, names, ignored=ignored, origin=CONFIG, report=report
    )
    if BIAS not in stored.found:
        state["generator.bias"] = torch.zeros(shapes["generator.bias"])
    config = registry.with_tables(config, state, lambda _: ROUNDING)
    trained = given.values.get("static_position_embeddings") is False
    if config.positions == "stored" and trained and names.keys() >= TABLES.keys():
        config = config.replace(positions="learned")
    own, ends, eos = library_decoding(decoding), decoding.values.get("eos_token_id"), config.eos_id
    if ends not in (None, eos, [eos]):
        decoding.leave("eos_token_id", ends)
    unused = decoding.unused(IDLE)
    return registry.Imported(config, state, tokenizer, dtype, decoding=own, unused=unused)


def read_config(given: Settings, decoding: Settings, unk_id: int) -> ModelConfig:
    """Return the config of a model from its settings and generation settings."""
    if given.values.get("model_type", "marian") != "marian":
        raise given.error("model_type", "'marian'")
    given.refuse("normalize_before", "normalize_embedding", "add_final_layer_norm")
    pad, eos = _token(given, "pad_token_id", 58_100), _token(given, "eos_token_id", 0)
    size = given.whole("vocab_size")
    decoders = given.values.get("decoder_vocab_size")
    vocabularies = size, size if decoders is None else decoders
    share = given.flag("share_encoder_decoder_embeddings", default=True)
    fits = not share or vocabularies[0] == vocabularies[1]
    given.check("decoder_vocab_size", fits, "vocab_size, although they share one embedding")

    def ids(value: Any) -> list[int]:
        given = value if isinstance(value, list) else [value]
        return [checked_whole("token", token, vocabularies[1] - 1, least=0) for token in given]

    def words(value: Any) -> list[list[int]]:
        if not isinstance(value, list) or len(value) > MAX_BANNED:
            raise InputError(f"not a list of at most {MAX_BANNED:,} words")
        # The library ignores a ban of the end alone.
        return [word for word in map(ids, value) if word not in ([], [eos])]

    def end(value: Any) -> list[int]:
        if value not in (eos, [eos]):
            raise InputError(f"{value!r:.40} is not the end of a sentence")
        return [eos]

    start = _token(given, "decoder_start_token_id", pad)
    start = decoding.followed("decoder_start_token_id", ids, [start])[0]
    forced = decoding.followed("forced_eos_token_id", end, [])
    banned = decoding.followed("bad_words_ids", words, ())
    # The library ignores other ids.
    never = decoding.followed("suppress_tokens", lambda v: ids(inside(v, vocabularies[1])), [])
    if eos in never:  # a translation must end
        decoding.leave("suppress_tokens", [eos])
    single = {*never, *(word[0] for word in banned if not word[1:])} - {pad, eos}
    tying: Tying = "all" if share else "decoder"
    if not given.flag("tie_word_embeddings", default=True):
        tying = "none"
    return model_config(
        given.path,
        vocab_size=vocabularies,
        n_heads=tuple(given.whole(f"{stack}_attention_heads") for stack in ("encoder", "decoder")),
        d_ff=tuple(given.whole(f"{stack}_ffn_dim") for stack in ("encoder", "decoder")),
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
        unk_id=unk_id,
        suppressed_ids=sorted(single),
        suppressed_words=[word for word in banned if len(word) > 1],
        renormalise=decoding.followed("renormalize_logits", checked_flag, False),
        forced_eos=bool(forced),
    )


def _token(given: Settings, name: str, default: int) -> int:
    value = given.values.get(name, default)
    if isinstance(value, list) and value:  # the rest is listed as not followed
        value = value[0]
    if type(value) is not int or value < 0:
        raise given.error(name, "a token id")
    return value


def _unknown(folder: Path, tables: Tables) -> int:
    """Return the id of `<unk>`, which all vocabularies share."""
    first = tables[VOCABULARY].get("<unk>")
    for name, ids in tables.items():
        index = ids.get("<unk>")
        if index is None or first is None:
            raise CheckpointError(f"{folder / name}: <unk> is missing")
        if index != first:
            raise CheckpointError(f"{folder / name}: <unk> is {index}, but {first} in {VOCABULARY}")
    assert first is not None
    return first


def vocabulary(path: Path) -> dict[str, int]:
    """Read ids by piece. Raises `CheckpointError` naming the file."""
    values = json_object(path, MAX_TABLE)
    if not all(type(index) is int for index in values.values()):
        raise CheckpointError(f"{path}: expected a JSON object of pieces and their ids")
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        raise CheckpointError(f"{path}: holds a piece that is not text") from None
    return values


def _aliases(name: str, config: ModelConfig, stored: Stored) -> list[registry.Alias]:
    if name == "generator.bias":
        return [registry.Alias(BIAS, leading=True)]
    embeddings = EMBEDDINGS[config.tie_embeddings].get(name)
    if embeddings is None:
        return [registry.Alias(f"model.{registry.renamed(name, registry.LAYER_PARTS)}")]
    if config.tie_embeddings == "none":  # copies may differ, so only the first counts
        embeddings = tuple(name for name in embeddings if name in stored.found)[:1] or embeddings
    return [registry.Alias(name) for name in embeddings]


def read_tokenizer(folder: Path, config: ModelConfig, tables: Tables) -> TableTokenizer:
    """Read the SentencePiece models of both sides, with the ids of the vocabularies."""
    settings = _tokenizer_settings(folder)
    separate = settings.flag(
        "separate_vocabs",
        not (folder / TOKENIZER).exists()
        and config.tie_embeddings != "all"
        and TARGET_VOCABULARY in tables,
    )
    added, special = _added(folder, settings, tables)
    sides = (
        (SOURCE_MODEL, VOCABULARY, config.vocab_size),
        (TARGET_MODEL, TARGET_VOCABULARY if separate else VOCABULARY, config.target_vocab_size),
    )
    tokenizer: TableTokenizer | None = None
    try:
        for model, name, size in reversed(sides):
            if name not in tables:
                raise CheckpointError(f"{folder / name}: the file is missing")
            ids = {**tables[name]}
            taken = {*ids.values()} if name == TARGET_VOCABULARY else set()
            # Their ids continue the source's vocabulary, and may be other pieces of the target's.
            more = {
                text: index for text, index in added.items()
                if name == VOCABULARY or (text not in ids and index < size and index not in taken)
            }  # fmt: skip
            ids |= more
            marks = Marks(
                special, added=() if settings.flag("split_special_tokens") else tuple(more)
            )
            _check_vocabulary(folder / name, ids, size, config)
            # Ids of deleted pieces, or padding to a round number.
            free = sorted({*range(size)} - {*ids.values()}) if len(ids) < size else []
            with blaming(name):
                table = table_of(ids | {no_piece(index): index for index in free})
            with blaming(model):
                tokenizer = TableTokenizer(
                    read_small(folder / model, MAX_TABLE), table, config, tokenizer, marks=marks
                )
    except TokenizerError as error:
        raise CheckpointError(f"{folder}/{error}") from None
    assert tokenizer is not None
    return tokenizer


def _tokenizer_settings(folder: Path) -> Settings:
    """Return the tokenizer's settings, after checking the ones that change segmentation."""
    settings = Settings(folder / TOKENIZER, {})
    for path in (folder / SPECIAL_MAP, folder / TOKENIZER):  # the second overrides the first
        if path.exists():
            settings = Settings(path, {**settings.values, **json_object(path, MAX_TABLE)})
            for name, usual in (("eos", "</s>"), ("unk", "<unk>"), ("pad", "<pad>")):
                text = _text(settings.values.get(f"{name}_token", usual))
                settings.check(f"{name}_token", text == usual, repr(usual))
    nothing = settings.values.get("sp_model_kwargs") in (None, {})
    settings.check("sp_model_kwargs", nothing, "supported, since it changes segmentation")
    return settings


def _text(token: Any) -> Any:
    """Return a token's text; the library's files may wrap it in settings."""
    return token.get("content") if isinstance(token, dict) else token


def _added(
    folder: Path, settings: Settings, tables: Tables
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the ids of tokens added to the vocabulary, and the special tokens among them.

    As in the library, they come from its settings, or else from added_tokens.json and
    tokenizer.json.
    """
    listing = settings.values.get("added_tokens_decoder")
    path, special = settings.path, set()
    for name in ("additional_special_tokens", "extra_special_tokens"):
        if isinstance(tokens := settings.values.get(name), list):
            special |= {str(_text(token)) for token in tokens}
    if listing is None:
        listing = {}
        path = folder / "tokenizer.json"
        if path.exists():
            tokens = json_object(path, MAX_TABLE).get("added_tokens") or []
            listing = {str(token.get("id")): token for token in tokens if isinstance(token, dict)}
        if (folder / "added_tokens.json").exists():
            path = folder / "added_tokens.json"
            listing |= {
                f"{index}": {"content": text, "special": text in special}
                for text, index in json_object(path, MAX_TABLE).items()
            }
    added, marks = {}, []
    for index, token in listing.items():
        text = _text(token)
        if not isinstance(token, dict) or not isinstance(text, str) or not index.isdecimal():
            raise CheckpointError(f"{path}: {index!r:.40}: {token!r:.80} is not an added token")
        if text in ("", "</s>", "<unk>", "<pad>"):
            continue
        if token.get("single_word"):
            raise CheckpointError(f"{path}: {text!r:.80} has single_word, which is not supported")
        if (own := tables[VOCABULARY].get(text, int(index))) != int(index):
            raise CheckpointError(f"{path}: {text!r:.80} is {index}, but {own} in {VOCABULARY}")
        added[text] = int(index)
        marks += [text] if token.get("special") else []
    return added, tuple(marks)


def _check_vocabulary(path: Path, ids: dict[str, int], size: int, config: ModelConfig) -> None:
    if not len(ids) <= size <= len(ids) + min(MAX_HOLES, len(ids) // 10):
        raise CheckpointError(f"{path}: {len(ids):,} pieces, but {CONFIG} requires {size:,}")
    for piece, name, index in (
        ("<pad>", "pad_token_id", config.pad_id), ("</s>", "eos_token_id", config.eos_id),
    ):  # fmt: skip
        if ids.get(piece) != index:
            raise CheckpointError(
                f"{path}: {piece} is {ids.get(piece, 'missing')}, but {CONFIG} says {name}={index}"
            )
