"""JoeyNMT's Transformer models as checkpoints of this project.

A model's folder holds config.yaml, checkpoints (*.ckpt) whose "model_state" are the weights,
src_vocab.txt and trg_vocab.txt with a piece in each line, and what text is cut with: SentencePiece
models, or files of merges. The paths in config.yaml are those of the machine that trained it, so
only their last parts count.

What differs from the paper is a setting of `ModelConfig` each: often layer normalisation before
sub-layers, biases on all projections, an epsilon of 1e-6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from transformer.checkpoint.weights import check_memory, in_memory
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import read_small
from transformer.importers.explanations import hint
from transformer.importers.finish import called, card_of, check_place, finish, stored_note
from transformer.importers.joeynmt.config import CONFIG, read_config, read_settings, special_tokens
from transformer.importers.mapping import Alias, check_dtype, gather, renamed, wanted_names
from transformer.importers.pieces import (
    CODES,
    MODELS,
    Side,
    beside,
    check_rows,
    first_there,
    named_checkpoint,
    tokenizer_of,
)
from transformer.importers.settings import Settings
from transformer.importers.torch_content import read_content, tensors_in
from transformer.machinery.stored_positions import formula
from transformer.text.normalise import LANGUAGE, Preparation
from transformer.text.table import Marks
from transformer.text.tokenizer import TokenizerError
from transformer.types import Report

CHECKPOINTS = ("best.ckpt", "latest.ckpt")
VOCABULARIES = ("src_vocab.txt", "trg_vocab.txt")
#: Every file that may be read, as patterns.
FILES = ("*.ckpt", CONFIG, "*vocab*.txt", "*.model", "*codes*", "bpe.*")

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
#: Tables of sinusoids, kept where they are not what this project computes.
POSITIONS = {"src_positions.table": "encoder.pe.pe", "tgt_positions.table": "decoder.pe.pe"}
#: The library computes them in float32: an angle of so many radians is wrong by so much of it.
ANGLE_ROUNDING = 2.0**-23


def import_joeynmt(
    folder: Path, out: Path, *, name: str | None = None, report: Report | None = None
) -> Path:
    """Read a JoeyNMT model and write it as a checkpoint.

    Args:
        folder: the model's folder; or a *.ckpt file, beside which the rest stands.
        out, name, report: see `transformer.importers.registry.Importer`.

    Returns: `out`, which appears whole or not at all.

    Raises: `CheckpointError`, one line that names the file and says what is wrong.
    """
    check_place(out)
    path = find_checkpoint(folder)
    settings = read_settings(path.parent / CONFIG)
    sides = read_sides(settings)
    tensors = tensors_in(path, read_content(path, hint("joeynmt")), "model_state")
    config = read_config(settings, len(sides[0].table[1]), len(sides[1].table[1]), tensors.keys())
    if config.tie_embeddings == "all" and sides[0].table[1] != sides[1].table[1]:
        raise CheckpointError(
            f"{sides[1].table[0]}: not the pieces of {sides[0].table[0].name}, "
            "but model.tied_embeddings=True"
        )
    for side, embedding in zip(sides, (SOURCE, TARGET), strict=True):
        check_rows(path, tensors.get(embedding), side)
    tables = _tables(path, config, tensors)
    names = {each: _aliases(each, config) for each in wanted_names(config)}
    state, dtype = gather(
        path,
        config,
        tensors,
        names,
        ignored=re.compile(r"(en|de)coder\.pe\.pe"),
        said_by=CONFIG,
        report=report,
    )
    if tables:
        config = config.replace(
            positions="stored", max_positions=len(tables["src_positions.table"])
        )
        state |= tables
    tokenizer = tokenizer_of(*sides, config)
    title = called(name, folder)
    notes = (
        f"{config.activation} in the feed-forward networks, layer normalisation "
        f"{'before each sub-layer' if config.norm == 'pre' else 'after each residual sum'}, "
        f"biases on all projections.{stored_note(config, state)}"
    )
    card = card_of(out.name, "A JoeyNMT", "joeynmt", title, config, dtype, notes)
    return finish(out, config, state, tokenizer, dtype=dtype, kind="joeynmt", source=title,
                  card=card)  # fmt: skip


def find_checkpoint(folder: Path) -> Path:
    """The best checkpoint in a folder, else the one of most steps; or the file itself."""
    found = named_checkpoint(folder, CHECKPOINTS)
    if found is not None:
        return found
    others = [each for each in folder.glob("*.ckpt") if each.stem.isdigit()]
    others = others or sorted(folder.glob("*.ckpt"))[:1]
    if not others:
        raise CheckpointError(f"{folder / CHECKPOINTS[0]}: the file is missing")
    return max(others, key=lambda each: int(each.stem) if each.stem.isdecimal() else 0)


def _aliases(name: str, config: ModelConfig) -> list[Alias]:
    tied = config.tie_embeddings
    stack = name.partition(".")[0]
    found: tuple[str, ...]
    if name == "src_embedding.weight":
        found = (SOURCE, TARGET, OUTPUT) if tied == "all" else (SOURCE,)
    elif name == "tgt_embedding.weight":
        found = (TARGET, OUTPUT) if tied == "decoder" else (TARGET,)
    elif name == "generator.weight":
        found = (OUTPUT,)
    else:
        theirs = renamed(name, STACKS, {**BOTH, **PARTS.get(stack, {})})
        found = (theirs or name.replace("_norm.", ".layer_norm."),)
    return [Alias(each) for each in found]


def _tables(path: Path, config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Both stacks' positions where the file's are not the sinusoids that are computed here."""
    tables: dict[str, Tensor] = {}
    for ours, name in POSITIONS.items():
        tensor = tensors.get(name)
        if tensor is None:
            continue
        shape = tuple(tensor.shape)
        if len(shape) != 3 or shape[0] != 1 or not shape[1] or shape[2] != config.d_model:
            raise CheckpointError(
                f"{path}: tensor {name!r} has shape {list(shape)}, "
                f"but {CONFIG} asks for [1, n, {config.d_model}]"
            )
        check_dtype(path, name, tensor)
        check_memory(path, config, n_tables=tensor.numel())
        tables[ours] = in_memory(path, name, tensor)[0]
    n = min((len(table) for table in tables.values()), default=0)
    exact = formula(config, n)
    allowed = ANGLE_ROUNDING * torch.arange(2, n + 2)[:, None]
    if all(bool(((table[:n] - exact).abs() <= allowed).all()) for table in tables.values()):
        return {}
    return {name: tables.get(name, exact)[:n].contiguous() for name in POSITIONS}


def read_sides(settings: Settings) -> tuple[Side, Side]:
    """How text is cut on both sides. Raises `CheckpointError`, one line."""
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
        # Before version 2 settings stood side by side, and text was cut before it was given.
        grouped = isinstance(data.values.get(part), dict)
        side = data.within(part) if grouped else data
        language = (side.text("lang") if grouped else data.text(part)) or ""
        at = folder / file
        pieces = tuple(dict.fromkeys([*first, *tags, *_lines(at)]))
        for index, text in special.values():
            if pieces[index : index + 1] != (text,):
                raise CheckpointError(f"{at}: {text!r} is not piece {index}, as {CONFIG} says")
        marks = Marks(tuple(tags), separator or "")
        sides.append(replace(_side(side, (at, pieces), language), marks=marks))
    return sides[0], sides[1]


def _side(side: Settings, table: tuple[Path, tuple[str, ...]], language: str) -> Side:
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
        return Side(table, preparation=preparation, joint="", unit=level)
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
    # Version 2 and later make only pieces that the vocabulary has.
    return Side(table, model, codes, preparation, joint, within=bool(cutter.values))


def _lines(path: Path) -> list[str]:
    try:
        return read_small(path).decode().splitlines()
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
