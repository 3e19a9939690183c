"""Transformer checkpoints of fairseq.

They hold a state dict, "model", and the settings of its training, "args" or "cfg". Beside the file
are dict.LANG.txt for both languages and usually a SentencePiece model or a file of byte-pair
merges, the latter for text tokenised by Moses.

Each difference from the paper is a setting of `ModelConfig`: sinusoids laid out as sines then
cosines, the slowest of frequency exactly 1/10000, numbered from 2; biases on all projections; a
decoder that starts from `</s>`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from torch import Tensor

from transformer.checkpoint.shards import Stored
from transformer.checkpoint.weights import layout_of
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import read_text
from transformer.importers.fairseq.config import (
    PAD,
    SPECIAL,
    max_positions,
    read_config,
    settings_of,
)
from transformer.importers.finish import Imported, code
from transformer.importers.mapping import (
    LAYER_PARTS,
    Alias,
    embedding_aliases,
    gather,
    renamed,
)
from transformer.importers.pieces import (
    CODES,
    MODELS,
    Segmenter,
    check_sides,
    first_there,
    named_checkpoint,
    tokenizer_of,
)
from transformer.importers.settings import Settings
from transformer.importers.torch_content import read_content, weights_in
from transformer.positions import sinusoids
from transformer.text.normalise import LANGUAGE, Preparation
from transformer.types import Report

#: Names of checkpoints, in order of preference.
CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")

SOURCE, TARGET = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
#: The output matrix, in new and in old versions.
OUTPUT = ("decoder.output_projection.weight", "decoder.embed_out")

STACKS = {"encoder": "encoder.layers", "decoder": "decoder.layers"}
#: Norms of a layer by their numbers in old versions.
NUMBERED = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
POSITIONS = {
    "src_positions.table": ("encoder", "source"),
    "tgt_positions.table": ("decoder", "target"),
}
#: Version numbers, sinusoids, which are computed here, and buffers in which version 0.12 keeps
#: copies of the encoder's weights.
IGNORED = re.compile(
    r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights)|_future_mask)"
    r"|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)


def read(folder: Path, report: Report | None = None, moses: bool | None = None) -> Imported:
    """Read a fairseq model.

    Args:
        folder: the model's folder, or its checkpoint file with the other files beside it.
        moses: whether the text was tokenised by Moses; default: as recorded in the checkpoint, or
            else only with byte-pair merges.
    """
    path = find_checkpoint(folder)
    content = read_content(path, "fairseq")
    stored = weights_in(path, content, "model")
    settings = settings_of(path, content)
    sides = read_sides(path.parent, settings, moses)
    config = read_config(settings, len(sides[0].table[1]), len(sides[1].table[1]))
    tied = "share_all_embeddings=True" if config.tie_embeddings == "all" else ""
    check_sides(stored, sides, (SOURCE, TARGET), tied)
    _check_version(stored, config)
    shapes, computed = layout_of(config).shapes, _computed_positions(settings, config)
    names = {
        name: _aliases(name, settings, config)
        for name in layout_of(config).stored
        if name not in computed
    }
    state, dtype = gather(
        stored, shapes, names, ignored=IGNORED, said_by="its configuration", report=report
    )
    tokenizer = tokenizer_of(*sides, config)
    return Imported(config, state | computed, tokenizer, dtype, _notes(config, sides[0]))


def _check_version(stored: Stored, config: ModelConfig) -> None:
    for name in ("encoder.version", "decoder.version"):
        shape, dtype = stored.found.get(name, ((0,), ""))
        old = math.prod(shape) == 1 and dtype == "F32" and float(stored.tensors()[name]) < 2
        if old and config.norm == "pre":
            raise CheckpointError(
                f"{stored.path}: {name} is below 2, a pre-norm model without the last norm"
            )


def find_checkpoint(folder: Path) -> Path:
    """Return the checkpoint in a folder, or the path itself if it is a file."""
    found = named_checkpoint(folder, CHECKPOINTS)
    if found is not None:
        return found
    others = sorted(folder.glob("*.pt"))
    if len(others) == 1:
        return others[0]
    if others:
        names = ", ".join(each.name for each in others[:4])
        raise CheckpointError(f"{folder}: several checkpoints ({names}); name the file to import")
    raise CheckpointError(f"{folder / CHECKPOINTS[0]}: the file is missing")


def read_sides(
    folder: Path, settings: Settings, moses: bool | None = None
) -> tuple[Segmenter, Segmenter]:
    """Read how each side's text is segmented: its dictionary, and a model or merges."""
    languages = [_language(settings, f"{side}_lang") for side in ("source", "target")]
    cutter = settings.text("bpe")
    recorded = settings.text("tokenizer")
    if moses is None and recorded is not None:
        moses = recorded == "moses"
    sides = []
    for language, part in zip(languages, ("src", "tgt"), strict=True):
        names = [f"dict.{part}.txt", "dict.txt"]
        at = first_there(folder, ["dict.{}.txt", *names], language)
        if at is None:
            missing = f"dict.{language}.txt" if language else names[0]
            raise CheckpointError(f"{folder / missing}: the file is missing")
        model = first_there(folder, MODELS, language) or _only(folder, "*.model")
        codes = first_there(folder, CODES, language) or _only(folder, "*.codes")
        if model is not None and codes is not None:
            if cutter not in ("sentencepiece", "subword_nmt", "fastbpe"):
                raise CheckpointError(
                    f"{folder}: {model.name} and {codes.name}; keep the one that splits the text"
                )
            model, codes = (model, None) if cutter == "sentencepiece" else (None, codes)
        # Checkpoints rarely record how text was prepared; merges without Moses are rare.
        apart = codes is not None if moses is None else moses
        spoken = language if LANGUAGE.fullmatch(language) else "en"
        preparation = Preparation(moses=spoken, dash_splits=True) if apart else Preparation()
        sides.append(Segmenter((at, read_dictionary(at)), model, codes, preparation))
    return sides[0], sides[1]


def _language(settings: Settings, name: str) -> str:
    language = settings.text(name) or ""
    # It becomes part of file names.
    if not all(each.isalnum() or each in "_-" for each in language):
        raise settings.error(name, "a language")
    return language


def _only(folder: Path, pattern: str) -> Path | None:
    found = list(folder.glob(pattern))
    return found[0] if len(found) == 1 else None


def read_dictionary(path: Path) -> tuple[str, ...]:
    """Return the pieces in order of their ids: the special ones, then one a line with its count."""
    lines = read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    pieces = list(SPECIAL)
    for number, line in enumerate(lines, 1):
        piece, _, count = line.rstrip().rpartition(" ")
        if not piece or not count.removeprefix("-").isdigit():
            what = f"line {number:,} is not a piece and its count: {line!r:.80}"
            raise CheckpointError(f"{path}: {what}")
        pieces.append(piece)
    if len(set(pieces)) != len(pieces):
        raise CheckpointError(f"{path}: the vocabulary holds a piece twice")
    return tuple(pieces)


def _aliases(name: str, settings: Settings, config: ModelConfig) -> list[Alias]:
    embeddings = embedding_aliases(name, config, SOURCE, TARGET, *OUTPUT)
    if embeddings is not None:
        return [Alias(each) for each in embeddings]
    if name in POSITIONS:
        stack, side = POSITIONS[name]
        first = PAD + 1
        longest = max_positions(settings, side)
        return [Alias(f"{stack}.embed_positions.weight", first, first + longest)]
    theirs = renamed(name, STACKS, LAYER_PARTS)
    if theirs is None:
        return [Alias(name.replace("_norm.", ".layer_norm."))]
    return _in_layer(name, theirs, config)


def _in_layer(name: str, theirs: str, config: ModelConfig) -> list[Alias]:
    """Return the places of a layer's tensor: its own, a third of one, or a numbered norm."""
    found = [Alias(theirs)]
    stem, projection, ending = theirs.rpartition(".")[0], "", theirs.rpartition(".")[2]
    stem, _, projection = stem.rpartition(".")
    if projection in ("q_proj", "k_proj", "v_proj"):
        rows = layout_of(config).shapes[name][0]
        part = ("q_proj", "k_proj", "v_proj").index(projection)
        found.append(Alias(f"{stem}.in_proj_{ending}", part * rows, 3 * rows))
    norms = NUMBERED[name.partition(".")[0]]
    if projection in norms:
        found.append(Alias(f"{stem}.layer_norms.{norms.index(projection)}.{ending}"))
    return found


def _computed_positions(settings: Settings, config: ModelConfig) -> dict[str, Tensor]:
    """Return the sinusoids of one stack as a table if the other's positions are learned."""
    if config.positions != "learned":
        return {}
    table = None if config.d_model % 2 else sinusoids(config)
    computed = {}
    for name, (stack, _) in POSITIONS.items():
        if not settings.flag(f"{stack}_learned_pos"):
            if table is None:
                raise settings.error("encoder_embed_dim", "even, which sinusoids need")
            computed[name] = table
    return computed


def _notes(config: ModelConfig, source: Segmenter) -> str:
    norm = "before each sub-layer" if config.norm == "pre" else "after each residual sum"
    positions = (
        "learned positions" if config.positions == "learned" else
        "sinusoids laid out as sines then cosines, numbered from 2, the slowest turning by 1/10000"
    )  # fmt: skip
    cut = (
        f"SentencePiece ({code(source.model.name)})" if source.model is not None else
        f"byte-pair merges ({code(source.codes.name)})" if source.codes is not None else
        "spaces alone: it must be typed as the vocabulary spells it"
    )  # fmt: skip
    before = source.preparation.moses
    moses = f", after the Moses tokenizer for `{before}`" if before else ""
    return f"""{config.activation} in the feed-forward networks, layer normalisation {norm}, biases on all projections,
{positions}, and a decoder that starts from `</s>`. Text is split by {cut}{moses}."""  # noqa: E501 - one line in the card
