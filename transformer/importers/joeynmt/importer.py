"""Transformer models of JoeyNMT.

A model's folder holds config.yaml, checkpoints (*.ckpt) with the weights in "model_state",
src_vocab.txt and trg_vocab.txt with a piece on each line, and SentencePiece models or files of
merges. The paths in config.yaml are those of the training machine, so only file names count.

Each difference from the paper is a setting of `ModelConfig`: often layer normalisation before
sub-layers, biases on all projections, an epsilon of 1e-6.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from transformer.checkpoint.shards import Stored
from transformer.checkpoint.weights import Shape, layout_of
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import read_text
from transformer.importers.finish import Imported
from transformer.importers.joeynmt.config import CONFIG, read_config, read_settings, special_tokens
from transformer.importers.mapping import Alias, embedding_aliases, gather, renamed
from transformer.importers.pieces import (
    CODES,
    MODELS,
    Segmenter,
    beside,
    check_sides,
    first_there,
    named_checkpoint,
    tokenizer_of,
)
from transformer.importers.settings import Settings
from transformer.importers.torch_content import read_content, weights_in
from transformer.positions import sinusoids
from transformer.text.normalise import LANGUAGE, Preparation
from transformer.text.table import Marks
from transformer.text.tokenizer import TokenizerError
from transformer.types import Report

CHECKPOINTS = ("best.ckpt", "latest.ckpt")
VOCABULARIES = ("src_vocab.txt", "trg_vocab.txt")
SOURCE, TARGET = "src_embed.lut.weight", "trg_embed.lut.weight"
OUTPUT = "decoder.output_layer.weight"
STACKS = {"encoder": "encoder.layers", "decoder": "decoder.layers"}
PARTS = {
    "encoder": {
        "around_self.norm": "layer_norm",
        "self_attention": "src_src_att",
    },
    "decoder": {
        "around_self.norm": "x_layer_norm",
        "around_cross.norm": "dec_layer_norm",
        "self_attention": "trg_trg_att",
        "cross_attention": "src_trg_att",
    },
}
BOTH = {
    "around_feed_forward.norm": "feed_forward.layer_norm",
    "feed_forward.w_1": "feed_forward.pwff_layer.0",
    "feed_forward.w_2": "feed_forward.pwff_layer.3",
    "w_q": "q_layer",
    "w_k": "k_layer",
    "w_v": "v_layer",
    "w_o": "output_layer",
}
#: Tables of sinusoids, kept if they differ from those computed here.
TABLES = {"src_positions.table": "encoder.pe.pe", "tgt_positions.table": "decoder.pe.pe"}
NOTHING = re.compile("(?!)")
#: The library computes them in float32, so angles have this relative error.
ANGLE_ROUNDING = 2.0**-23


def read(folder: Path, report: Report | None = None) -> Imported:
    """Read a JoeyNMT model.

    Args: folder: the model's folder, or a *.ckpt file with the other files beside it.
    """
    path = find_checkpoint(folder)
    settings = read_settings(path.parent / CONFIG)
    sides = read_sides(settings)
    stored = weights_in(path, read_content(path, "joeynmt"), "model_state")
    config = read_config(settings, len(sides[0].table[1]), len(sides[1].table[1]), stored.found)
    tied = "model.tied_embeddings=True" if config.tie_embeddings == "all" else ""
    check_sides(stored, sides, (SOURCE, TARGET), tied)
    tables = _table_shapes(config, stored)
    names = {each: _aliases(each, config) for each in layout_of(config).stored}
    names |= {each: [Alias(TABLES[each], leading=True)] for each in tables}
    state, dtype = gather(
        stored, {**layout_of(config).shapes, **tables}, names, ignored=NOTHING, said_by=CONFIG,
        report=report,
    )  # fmt: skip
    config = _with_tables(config, state)
    norm = "before each sub-layer" if config.norm == "pre" else "after each residual sum"
    notes = (
        f"{config.activation} in the feed-forward networks, layer normalisation {norm}, "
        "biases on all projections."
    )
    return Imported(config, state, tokenizer_of(*sides, config), dtype, notes)


def find_checkpoint(folder: Path) -> Path:
    """Return a folder's best checkpoint, else that of most steps; or the path if it is a file."""
    found = named_checkpoint(folder, CHECKPOINTS)
    if found is not None:
        return found
    others = [each for each in folder.glob("*.ckpt") if each.stem.isdigit()]
    others = others or sorted(folder.glob("*.ckpt"))[:1]
    if not others:
        raise CheckpointError(f"{folder / CHECKPOINTS[0]}: the file is missing")
    return max(others, key=lambda each: int(each.stem) if each.stem.isdecimal() else 0)


def _aliases(name: str, config: ModelConfig) -> list[Alias]:
    found = embedding_aliases(name, config, SOURCE, TARGET, OUTPUT)
    if found is None:
        stack = name.partition(".")[0]
        theirs = renamed(name, STACKS, {**BOTH, **PARTS.get(stack, {})})
        found = (theirs or name.replace("_norm.", ".layer_norm."),)
    return [Alias(each) for each in found]


def _table_shapes(config: ModelConfig, stored: Stored) -> dict[str, Shape]:
    """Return the shapes [n, d_model] of the stored tables of positions, by this project's names."""
    shapes: dict[str, Shape] = {}
    for ours, name in TABLES.items():
        found, _ = stored.found.get(name, ((), ""))
        if name in stored.found:
            shapes[ours] = (max(found[1] if len(found) == 3 else 1, 1), config.d_model)
    return shapes


def _with_tables(config: ModelConfig, state: dict[str, Tensor]) -> ModelConfig:
    """Keep both stacks' tables of positions only if they differ from the sinusoids computed here.

    Returns: the config, whose positions are stored if the tables stay in `state`.
    """
    tables = {name: state.pop(name) for name in TABLES if name in state}
    n = min((len(table) for table in tables.values()), default=0)
    exact = sinusoids(config, n)
    allowed = ANGLE_ROUNDING * torch.arange(2, n + 2)[:, None]
    if all(bool(((table[:n] - exact).abs() <= allowed).all()) for table in tables.values()):
        return config
    state |= {name: tables.get(name, exact)[:n].contiguous() for name in TABLES}
    return config.replace(positions="stored", max_positions=n)


def read_sides(settings: Settings) -> tuple[Segmenter, Segmenter]:
    """Read how each side's text is segmented. Raises `CheckpointError`, one line."""
    data, folder = settings.within("data"), settings.path.parent
    special = special_tokens(settings)
    tags = data.within("special_symbols").values.get("lang_tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise data.error("special_symbols", "a group in which lang_tags is a list of texts")
    first = [text for _, text in sorted(special.values())]
    separator = data.within("special_symbols").text("sep_token")
    first += [separator] if separator else []
    sides = []
    for part, file in zip(("src", "trg"), VOCABULARIES, strict=True):
        # Before version 2 settings were not grouped by side, and text came segmented.
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


def _side(side: Settings, table: tuple[Path, tuple[str, ...]], language: str) -> Segmenter:
    folder, cutter = side.path.parent, side.within("tokenizer_cfg")
    level = side.choice("level", ("word", "bpe", "char"), "word")
    kind = side.text("tokenizer_type", side.text("bpe_type", "sentencepiece"))
    moses = cutter.text("pretokenizer", "none") == "moses"
    if moses and not LANGUAGE.fullmatch(language):
        raise side.error("lang", "a language that the Moses rules know, such as 'en'")
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
        return Segmenter(table, preparation=preparation, joint="", unit=level)
    if not (language and language.replace("-", "").isalnum()):
        language = ""
    joint = cutter.text("separator", "@@") or "@@"
    named = {name: cutter.text(name) for name in ("model_file", "codes")}
    if cutter.values:
        wanted = "codes" if kind == "subword-nmt" else "model_file"
        if kind not in ("subword-nmt", "sentencepiece"):
            raise side.error("tokenizer_type", "one of: sentencepiece, subword-nmt")
        given = named[wanted]
        if given is None:
            raise cutter.error(wanted, "the name of a file")
        found = beside(folder, given)
        model, codes = (found, None) if wanted == "model_file" else (None, found)
    else:
        model = first_there(folder, MODELS, language)
        codes = None if model else first_there(folder, CODES, language)
    # From version 2 on, only pieces in the vocabulary are used.
    return Segmenter(table, model, codes, preparation, joint, within=bool(cutter.values))
