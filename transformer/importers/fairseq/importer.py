"""fairseq's Transformer checkpoints as checkpoints of this project.

They hold a state dict, "model", and the settings it was trained with, "args" or "cfg"; beside the
file stand dict.LANG.txt for both languages, and perhaps what text is cut with: a SentencePiece
model, or a file of byte-pair merges, whose text the Moses tokenizer took apart before.

What differs from the paper is a setting of `ModelConfig` each: sinusoids laid out as sines then
cosines, whose slowest turns by just 1/10000 and whose first has the number 2; biases on all
projections; a decoder that starts from `</s>`.
"""

from __future__ import annotations

from pathlib import Path

from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import read_small
from transformer.importers.explanations import hint
from transformer.importers.fairseq.config import SPECIAL, read_config, settings_of
from transformer.importers.fairseq.weights import read_weights
from transformer.importers.finish import called, card_of, check_place, finish
from transformer.importers.pieces import (
    CODES,
    MODELS,
    Side,
    check_rows,
    first_there,
    named_checkpoint,
    tokenizer_of,
)
from transformer.importers.settings import Settings
from transformer.importers.torch_content import read_content, tensors_in
from transformer.text.normalise import LANGUAGE, Preparation
from transformer.types import Report

#: Checkpoints in the order in which one is taken of a folder.
CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
#: Every file that may be read, as patterns.
FILES = ("*.pt", "dict*.txt", "*.model", "*codes*", "code", "code.*", "bpe.code")


def import_fairseq(
    folder: Path,
    out: Path,
    *,
    name: str | None = None,
    report: Report | None = None,
    moses: bool | None = None,
) -> Path:
    """Read a fairseq model and write it as a checkpoint.

    Args:
        folder: holds the checkpoint and what text is cut with; or the checkpoint's file, beside
            which the rest stands.
        out, name, report: see `transformer.importers.registry.Importer`.
        moses: whether the Moses tokenizer prepared the text; None is what the checkpoint says, or
            else whether merges cut it.

    Returns: `out`, which appears whole or not at all.

    Raises: `CheckpointError`, one line that names the file and says what is wrong.
    """
    check_place(out)
    path = find_checkpoint(folder)
    content = read_content(path, hint("fairseq"))
    tensors = tensors_in(path, content, "model")
    settings = settings_of(path, content)
    source, target = read_sides(path.parent, settings, moses)
    config = read_config(settings, len(source.table[1]), len(target.table[1]))
    if config.tie_embeddings == "all" and source.table[1] != target.table[1]:
        raise CheckpointError(
            f"{target.table[0]}: not the pieces of {source.table[0].name}, "
            "but share_all_embeddings=True"
        )
    for side, stack in ((source, "encoder"), (target, "decoder")):
        check_rows(path, tensors.get(f"{stack}.embed_tokens.weight"), side)
    state, dtype = read_weights(path, settings, config, tensors, report)
    tokenizer = tokenizer_of(source, target, config)
    title = called(name, folder)
    card = card_of(out.name, "A fairseq", "fairseq", title, config, dtype, _notes(config, source))
    return finish(out, config, state, tokenizer, dtype=dtype, kind="fairseq", source=title,
                  card=card)  # fmt: skip


def find_checkpoint(folder: Path) -> Path:
    """The checkpoint in a folder, or the file itself."""
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


def read_sides(folder: Path, settings: Settings, moses: bool | None = None) -> tuple[Side, Side]:
    """How text is cut on both sides: dictionaries, and models or merges beside them."""
    languages = [_language(settings, f"{side}_lang") for side in ("source", "target")]
    cutter = settings.text("bpe")
    said = settings.text("tokenizer")
    if moses is None and said is not None:
        moses = said == "moses"
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
                    f"{folder}: {model.name} and {codes.name}; keep the one that text is cut with"
                )
            model, codes = (model, None) if cutter == "sentencepiece" else (None, codes)
        # Nothing in a checkpoint says how text was prepared; merges without Moses are rare.
        apart = codes is not None if moses is None else moses
        spoken = language if LANGUAGE.fullmatch(language) else "en"
        preparation = Preparation(moses=spoken, dash_splits=True) if apart else Preparation()
        sides.append(Side((at, read_dictionary(at)), model, codes, preparation))
    return sides[0], sides[1]


def _language(settings: Settings, name: str) -> str:
    language = settings.text(name) or ""
    # It becomes part of files' names.
    if not all(each.isalnum() or each in "_-" for each in language):
        raise settings.error(name, "a language")
    return language


def _only(folder: Path, pattern: str) -> Path | None:
    found = list(folder.glob(pattern))
    return found[0] if len(found) == 1 else None


def read_dictionary(path: Path) -> tuple[str, ...]:
    """The pieces in the order of their ids: four special ones, then a line each with its count."""
    try:
        lines = read_small(path).decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
    pieces = list(SPECIAL)
    for number, line in enumerate(lines, 1):
        piece, _, count = line.rstrip().rpartition(" ")
        if not piece or not count.removeprefix("-").isdigit():
            what = f"line {number:,} is no piece and its count: {line!r:.80}"
            raise CheckpointError(f"{path}: {what}")
        pieces.append(piece)
    if len(set(pieces)) != len(pieces):
        raise CheckpointError(f"{path}: the vocabulary holds a piece twice")
    return tuple(pieces)


def _notes(config: ModelConfig, source: Side) -> str:
    norm = "before each sub-layer" if config.norm == "pre" else "after each residual sum"
    positions = (
        "learned positions" if config.positions == "learned" else
        "sinusoids laid out as sines then cosines, numbered from 2, the slowest turning by 1/10000"
    )  # fmt: skip
    cut = (
        f"SentencePiece ({_plain(source.model)})" if source.model is not None else
        f"byte-pair merges ({_plain(source.codes)})" if source.codes is not None else
        "spaces alone: it has to be typed as the vocabulary has it"
    )  # fmt: skip
    before = source.preparation.moses
    moses = f", after the Moses tokenizer for `{before}`" if before else ""
    return f"""{config.activation} in the feed-forward networks, layer normalisation {norm}, biases on all projections,
{positions}, and a decoder that starts from `</s>`. Text is cut by {cut}{moses}."""  # noqa: E501 - one line in the card


def _plain(path: Path) -> str:
    return f"`{path.name.replace('`', ' ')}`"
