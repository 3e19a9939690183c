"""Transformer models of JoeyNMT.

A folder has config.yaml, checkpoints (*.ckpt) with the weights in "model_state", src_vocab.txt and
trg_vocab.txt with a piece on each line, and SentencePiece models or merge files. Paths in
config.yaml belong to the training machine, so only file names count.

Every difference from the paper is a setting of `ModelConfig`: often layer normalisation before
sub-layers, biases on all projections, an epsilon of 1e-6.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml

from transformer.checkpoint.folder import POSITION_TABLES
from transformer.checkpoint.weights import ROUNDING, Shape, layout_of
from transformer.config import MAX_WHOLE, ModelConfig, Tying
from transformer.files.safe import one_line, read_text
from transformer.models.importers import pieces as cutting
from transformer.models.importers import settings as foreign
from transformer.models.importers.registry import (
    Alias,
    Imported,
    embedding_aliases,
    gather,
    renamed,
    with_tables,
)
from transformer.models.importers.torch_content import read_content
from transformer.search.request import Decoding
from transformer.text.table import Marks
from transformer.text.tokenizer import LANGUAGE, Preparation, TokenizerError
from transformer.types import CheckpointError, Report

CONFIG = "config.yaml"
#: Maximum config size in bytes. Usual configs have a few kB, and YAML is slow to read.
MAX_YAML = 128 * 1024
#: Maximum number of values in a config, with aliases expanded.
MAX_VALUES = 20_000

CHECKPOINTS = ("best.ckpt", "latest.ckpt")
VOCABULARIES = ("src_vocab.txt", "trg_vocab.txt")
#: Default ids and texts of special tokens, by the prefix of their settings.
SPECIAL = {"unk": (0, "<unk>"), "pad": (1, "<pad>"), "bos": (2, "<s>"), "eos": (3, "</s>")}

SOURCE, TARGET = "src_embed.lut.weight", "trg_embed.lut.weight"
OUTPUT = "decoder.output_layer.weight"
LAST_NORM = ("encoder.layer_norm.weight", "decoder.layer_norm.weight")
#: Position tables, kept if they differ from the sinusoids computed here.
TABLES = dict(zip(POSITION_TABLES, ("encoder.pe.pe", "decoder.pe.pe"), strict=True))


def read(folder: Path, report: Report | None = None) -> Imported:
    """Read a JoeyNMT model.

    Args: folder: the model's folder, or a *.ckpt file with the other files beside it.
    """
    paths = cutting.find_checkpoints(folder, CHECKPOINTS, "*.ckpt")
    # Files are named by their number of steps.
    path = max(paths, key=lambda path: int(path.stem) if path.stem.isdecimal() else 0)
    settings = read_settings(path.parent / CONFIG)
    sides = read_sides(settings)
    stored, _ = read_content(path, "joeynmt")
    config = read_config(settings, len(sides[0].table[1]), len(sides[1].table[1]), stored.found)
    tied = "model.tied_embeddings=True" if config.tie_embeddings == "all" else ""
    cutting.check_sides(stored, sides, (SOURCE, TARGET), tied)
    tables: dict[str, Shape] = {}  # [n, d_model]
    for ours, theirs in TABLES.items():
        if theirs in stored.found:
            shape = stored.found[theirs][0]
            tables[ours] = (max(shape[1] if len(shape) == 3 else 1, 1), config.d_model)
    layout = layout_of(config)
    names = {name: _aliases(name, config) for name in layout.stored}
    names |= {name: [Alias(TABLES[name], leading=True)] for name in tables}
    state, dtype = gather(stored, {**layout.shapes, **tables}, names, origin=CONFIG, report=report)
    # The library computes sinusoids in float32, so rounding grows with the angle.
    config = with_tables(config, state, lambda n: ROUNDING * torch.arange(2, n + 2)[:, None])
    tokenizer, testing = cutting.tokenizer_of(*sides, config), settings.within("testing")
    decoding, unused = read_decoding(testing), testing.unused(foreign.LISTS["idle"]["joeynmt"])
    return Imported(config, state, tokenizer, dtype, decoding=decoding, unused=unused)


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """The safe loader, without merge keys (`<<`), which can double a mapping on every line."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise ValueError("merge keys (<<) are not supported; write the settings out")


def read_settings(path: Path) -> foreign.Settings:
    """Read plain values from config.yaml. Raises `CheckpointError` naming the file."""
    text = read_text(path, MAX_YAML)
    try:
        values = yaml.load(text, _PlainLoader)  # noqa: S506 - a safe loader
    except Exception as error:  # noqa: BLE001 - values of a wrong form fail in many ways
        raise CheckpointError(f"{path}: not valid YAML: {one_line(error)}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected groups of settings")
    # YAML aliases, which may be recursive, can expand to many values.
    waiting, n_values = [values], 0
    while waiting:
        value: Any = waiting.pop()
        n_values += 1
        if n_values > MAX_VALUES:
            raise CheckpointError(f"{path}: more than {MAX_VALUES:,} values")
        if isinstance(value, int) and abs(value) >= MAX_WHOLE:
            raise CheckpointError(f"{path}: an integer of more than 15 digits")
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value
    return foreign.Settings(path, values)


def read_decoding(testing: foreign.Settings) -> Decoding:
    """Return the decoding in the group "testing", with the paper's length penalty.

    Defaults are the library's: a beam of 1, no length penalty.
    """
    # "alpha" before version 2. Below 0, no penalty applies.
    name = "beam_alpha" if testing.values.get("beam_alpha") is not None else "alpha"
    alpha = foreign.alpha_setting(testing, name, 0.0)
    return Decoding(foreign.beam_setting(testing, "beam_size"), max(alpha, 0.0))


def special_tokens(settings: foreign.Settings) -> dict[str, tuple[int, str]]:
    """Return id and text of "unk", "pad", "bos" and "eos"."""
    group = settings.within("data", "special_symbols")
    tokens = {
        name: (group.whole(f"{name}_id", index, 0), group.text(f"{name}_token", text) or text)
        for name, (index, text) in SPECIAL.items()
    }
    unlike = len({index for index, _ in tokens.values()}) == len(tokens)
    group.check("pad_id", unlike, "different from the other special ids")
    return tokens


def read_config(
    settings: foreign.Settings, n_source: int, n_target: int, names: Collection[str]
) -> ModelConfig:
    """Return the model's config. Raises `CheckpointError`, one line.

    Args:
        n_source, n_target: vocabulary sizes.
        names: tensor names, which reveal what old configs leave out.
    """
    model = settings.within("model")
    encoder, decoder = stacks = model.within("encoder"), model.within("decoder")
    vectors = [stack.within("embeddings") for stack in stacks]
    for stack, default in zip(stacks, ("recurrent", "transformer"), strict=True):
        stack.check("type", stack.text("type", default) == "transformer", "'transformer'")
        plain = stack.values.get("alpha", 1.0) == 1
        stack.check("alpha", plain, "1, a residual sum without weights")
    width = encoder.whole("hidden_size", 512)
    for group, name in (
        (decoder, "hidden_size"), *((vector, "embedding_dim") for vector in vectors)
    ):  # fmt: skip
        if group.values.get(name) is not None:
            group.check(name, group.whole(name) == width, f"model.encoder.hidden_size={width}")
    activation = encoder.choice("activation", foreign.ACTIVATIONS, "relu")
    same = decoder.choice("activation", foreign.ACTIVATIONS, "relu") == activation
    decoder.check("activation", same, f"the encoder's {activation}")
    scale = vectors[0].flag("scale")
    # Embeddings tied to each other but not to the output matrix become two equal ones.
    tying: Tying = "decoder" if model.flag("tied_softmax") else "none"
    if model.flag("tied_embeddings"):
        if tying == "decoder":
            tying, pieces = "all", f"for {n_source:,} and {n_target:,} pieces"
            model.check("tied_embeddings", n_source == n_target, pieces)
    else:
        vectors[1].check("scale", vectors[1].flag("scale") == scale, f"the encoder's {scale}")
    return foreign.model_config(
        settings.path,
        vocab_size=(n_source, n_target),
        n_heads=(encoder.whole("num_heads", 4), decoder.whole("num_heads", 8)),
        d_ff=(encoder.whole("ff_size", 2048), decoder.whole("ff_size", 2048)),
        d_model=width,
        n_encoder_layers=encoder.whole("num_layers", 8),
        n_decoder_layers=decoder.whole("num_layers", 4),
        dropout=encoder.share("dropout", 0.1),
        attention_dropout=encoder.share("dropout", 0.1),
        activation=foreign.ACTIVATIONS[activation],
        norm=_norm(encoder, decoder, names),
        max_positions=1024,
        tie_embeddings=tying,
        scale_embedding=scale,
        attention_bias=True,
        layer_norm_eps=1e-6,
        **{f"{name}_id": index for name, (index, _) in special_tokens(settings).items()},
    )


def _norm(encoder: foreign.Settings, decoder: foreign.Settings, names: Collection[str]) -> str:
    """Return "pre" or "post". Before version 2, every model was pre-norm, without a setting."""
    placed = []
    for stack, last, default in zip((encoder, decoder), LAST_NORM, ("pre", "post"), strict=True):
        default = "pre" if last in names else default
        placed.append(stack.choice("layer_norm", ("pre", "post"), default))
        whole = placed[-1] == "post" or last in names
        stack.check("layer_norm", whole, "supported without a norm after the last layer")
    decoder.check("layer_norm", placed[0] == placed[1], f"the encoder's {placed[0]!r}")
    return placed[0]


def _aliases(name: str, config: ModelConfig) -> list[Alias]:
    embeddings = embedding_aliases(name, config, SOURCE, TARGET, OUTPUT)
    names, stack = foreign.LISTS["names"], name.partition(".")[0]
    parts = names["joeynmt"] | names.get(f"joeynmt_{stack}", {})
    return embeddings or [Alias(renamed(name, parts))]


def read_sides(settings: foreign.Settings) -> tuple[cutting.Segmenter, cutting.Segmenter]:
    """Read the segmentation of both sides. Raises `CheckpointError`, one line."""
    data, folder = settings.within("data"), settings.path.parent
    symbols, special = data.within("special_symbols"), special_tokens(settings)
    tags = symbols.values.get("lang_tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise data.error("special_symbols", "a group in which lang_tags is a list of texts")
    separator = symbols.text("sep_token")
    first = [text for _, text in sorted(special.values())] + [separator] * bool(separator)
    sides = []
    for part, file in zip(("src", "trg"), VOCABULARIES, strict=True):
        # Before version 2, settings were not grouped by side, and text came segmented.
        grouped = isinstance(data.values.get(part), dict)
        side = data.within(part) if grouped else data
        language = (side.text("lang") if grouped else data.text(part)) or ""
        at = folder / file
        pieces = tuple(dict.fromkeys([*first, *tags, *read_text(at).splitlines()]))
        for index, text in special.values():
            if pieces[index : index + 1] != (text,):
                raise CheckpointError(f"{at}: {text!r} is not piece {index}, as {CONFIG} says")
        marks = Marks(tuple(tags), separator or "")
        sides.append(replace(_side(side, (at, pieces), language), marks=marks))
    return sides[0], sides[1]


def _side(
    side: foreign.Settings, table: tuple[Path, tuple[str, ...]], language: str
) -> cutting.Segmenter:
    folder, cutter = side.path.parent, side.within("tokenizer_cfg")
    level = side.choice("level", ("word", "bpe", "char"), "word")
    kind = side.text("tokenizer_type", side.text("bpe_type", "sentencepiece"))
    moses = cutter.text("pretokenizer", "none") == "moses"
    valid = not moses or LANGUAGE.fullmatch(language) is not None
    side.check("lang", valid, "a language that the Moses rules know, such as 'en'")
    normalise = side.flag("normalize")
    try:
        preparation = Preparation(
            normalise=normalise,
            normalise_punctuation=moses and normalise,
            moses=language if moses else None,
            lowercase=side.flag("lowercase"),
        )
    except TokenizerError as error:
        raise CheckpointError(f"{side.path}: {error}") from None
    if level != "bpe":
        return cutting.Segmenter(table, preparation=preparation, joint="", unit=level)
    if not (language and language.replace("-", "").isalnum()):
        language = ""
    for name in cutter.values.keys() - {*foreign.LISTS["joeynmt"]["cutting"]}:
        raise cutter.error(str(name), "supported, and may change segmentation")
    joint = cutter.text("separator", "@@") or "@@"
    files = {name: cutter.text(name) for name in ("model_file", "codes")}
    if cutter.values:
        cutters = ("sentencepiece", "subword-nmt")
        side.check("tokenizer_type", kind in cutters, f"one of: {', '.join(cutters)}")
        name = "codes" if kind == "subword-nmt" else "model_file"
        file = files[name]
        if file is None:
            raise cutter.error(name, "the name of a file")
        path = cutting.beside(folder, file)
        model, codes = (path, None) if name == "model_file" else (None, path)
    else:
        model = cutting.first_there(folder, cutting.MODELS, language)
        codes = None if model else cutting.first_there(folder, cutting.CODES, language)
    # From version 2 on, only pieces in the vocabulary are used.
    return cutting.Segmenter(table, model, codes, preparation, joint, within=bool(cutter.values))
