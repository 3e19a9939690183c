"""Transformer checkpoints of fairseq.

A checkpoint has a state dict, "model", and training settings, "args" or "cfg". Beside it are
dict.LANG.txt for both languages and usually a SentencePiece model, or a file of byte-pair merges
for text tokenised by Moses.

Every difference from the paper is a setting of `ModelConfig`: sinusoids laid out as sines then
cosines, the slowest with a frequency of exactly 1/10000, numbered from 2; biases on all
projections; a decoder that starts from `</s>`.
"""

import math
import re
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer.checkpoint.folder import POSITION_TABLES
from transformer.checkpoint.weights import layout_of
from transformer.config import ModelConfig, Tying
from transformer.files.safe import read_text
from transformer.models.importers import pieces as cutting
from transformer.models.importers import registry
from transformer.models.importers.registry import Imported, code
from transformer.models.importers.settings import ACTIVATIONS, LISTS, Settings, model_config
from transformer.models.importers.torch_content import plain, read_content
from transformer.positions import sinusoids
from transformer.text.tokenizer import LANGUAGE, Preparation
from transformer.types import CheckpointError, Report

#: Special tokens at the start of every dictionary, and their ids.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_, PAD, EOS, UNK = range(4)

#: Ends a dictionary's line whose piece replaces an earlier one.
OVERWRITE = "#fairseq:overwrite"

#: Supported segmentation.
CUTTERS = ("sentencepiece", "subword_nmt", "fastbpe")
#: Checkpoint names, in order of preference.
CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")

SOURCE, TARGET = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
#: The output matrix, in new and in old versions.
OUTPUT = ("decoder.output_projection.weight", "decoder.embed_out")

PROJECTIONS = ("q_proj", "k_proj", "v_proj")
#: Layer norms in the order of their numbers in old versions.
NUMBERED = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
POSITIONS = dict(zip(POSITION_TABLES, (("encoder", "source"), ("decoder", "target")), strict=True))
#: Version numbers, sinusoids (computed here), and copies of encoder weights in version 0.12.
IGNORED = (
    r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights)|_future_mask)"
    r"|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)


def read(folder: Path, report: Report | None = None, moses: bool | None = None) -> Imported:
    """Read a fairseq model.

    Args:
        folder: the model's folder, or its checkpoint file with the other files beside it.
        moses: True if Moses tokenised the text; default: the checkpoint's setting, or True with
            byte-pair merges if it has no such setting.
    """
    path, *others = cutting.find_checkpoints(folder, CHECKPOINTS, "*.pt")
    if others:
        several = ", ".join(other.name for other in (path, *others[:3]))
        raise CheckpointError(f"{folder}: several checkpoints ({several}); name the file to import")
    stored, content = read_content(path, "fairseq")
    settings = settings_of(path, content)
    pair = (
        "a translator of one pair of languages; M2M100, NLLB and mBART open as models of the "
        "transformers library, after its own conversion"
    )
    for name in ("task", "arch"):
        value = settings.text(name) or ""
        settings.check(name, not re.search("multilingual|multi_simple", value), pair)
        lm = "a translator; this is a language model without an encoder, which has no importer"
        settings.check(name, not re.search("language_model|transformer_lm", value), lm)
    sides = read_sides(path.parent, settings, moses)
    config = read_config(settings, len(sides[0].table[1]), len(sides[1].table[1]))
    tied = "share_all_embeddings=True" if config.tie_embeddings == "all" else ""
    cutting.check_sides(stored, sides, (SOURCE, TARGET), tied)
    for version in ("encoder.version", "decoder.version"):
        shape, kind = stored.found.get(version, ((0,), ""))
        old = math.prod(shape) == 1 and kind == "F32" and float(stored.tensors()[version]) < 2
        if old and config.norm == "pre":
            raise CheckpointError(
                f"{stored.path}: {version} is below 2, a pre-norm model without the last norm"
            )
    layout, computed = layout_of(config), dict[str, Tensor]()
    for table, (stack, _) in POSITIONS.items() if config.positions == "learned" else ():
        if not settings.flag(f"{stack}_learned_pos"):  # this stack has sinusoids
            computed[table] = sinusoids(config)
    names = {
        name: _aliases(name, settings, config) for name in layout.stored if name not in computed
    }
    state, dtype = registry.gather(
        stored, layout.shapes, names, ignored=IGNORED, origin="its configuration", report=report
    )
    source, moses_language = sides[0], sides[0].preparation.moses
    cut = (
        f"SentencePiece ({code(source.model.name)})" if source.model is not None else
        f"byte-pair merges ({code(source.codes.name)})" if source.codes is not None else
        "spaces alone: it must be typed as the vocabulary spells it"
    )  # fmt: skip
    after = f", after the Moses tokenizer for `{moses_language}`" if moses_language else ""
    tokenizer, notes = cutting.tokenizer_of(*sides, config), f"Text is split by {cut}{after}."
    return Imported(config, state | computed, tokenizer, dtype, notes)


def settings_of(path: Path, content: dict[str, Any]) -> Settings:
    """Return the settings of model and task side by side, for every version.

    Versions up to 0.9 have one namespace "args". Later versions have groups in "cfg"; the model's
    group is a namespace or has groups for encoder and decoder.
    """
    groups = plain(content.get("cfg"))
    values: dict[str, Any] = {}
    if groups:
        for name in ("task", "model"):
            for key, value in plain(groups.get(name)).items():
                inner = key in ("encoder", "decoder", "quant_noise")
                values |= (
                    {f"{key}_{part}": setting for part, setting in plain(value).items()}
                    if inner else {key: value}
                )  # fmt: skip
        for name in ("bpe", "tokenizer", "task"):
            group = plain(groups.get(name))
            values = {**group, **values}
            values[name] = group.get("_name", group.get(name)) if group else groups.get(name)
    values = plain(content.get("args")) | values
    # An unresolved reference means the default.
    values = {k: v for k, v in values.items() if not (isinstance(v, str) and v.startswith("${"))}
    if not values:
        raise CheckpointError(f"{path}: has no settings of a model ('cfg' or 'args')")
    return Settings(path, values)


def read_config(settings: Settings, n_source: int, n_target: int) -> ModelConfig:
    """Return the model's config. Raises `CheckpointError`, one line.

    Args: n_source, n_target: dictionary sizes.
    """
    settings.refuse(*LISTS["fairseq"]["other_models"])
    width = settings.whole("encoder_embed_dim", 512)
    for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
        if settings.values.get(name) is not None:
            settings.check(name, settings.whole(name) == width, f"encoder_embed_dim={width}")
    pre = settings.flag("encoder_normalize_before")
    same = settings.flag("decoder_normalize_before") == pre
    settings.check("decoder_normalize_before", same, f"as encoder_normalize_before={pre}")
    inner = settings.whole("encoder_ffn_embed_dim", 2048)
    learned = any(settings.flag(f"{stack}_learned_pos") for stack in ("encoder", "decoder"))
    longest = [max_positions(settings, side) for side in ("source", "target")]
    tying: Tying = "decoder" if settings.flag("share_decoder_input_output_embed") else "none"
    if settings.flag("share_all_embeddings"):
        tying, pieces = "all", f"for {n_source:,} and {n_target:,} pieces"
        settings.check("share_all_embeddings", n_source == n_target, pieces)
    return model_config(
        settings.path,
        vocab_size=(n_source, n_target),
        n_heads=tuple(
            settings.whole(f"{stack}_attention_heads", 8) for stack in ("encoder", "decoder")
        ),
        d_ff=(inner, settings.whole("decoder_ffn_embed_dim", inner)),
        d_model=width,
        n_encoder_layers=settings.whole("encoder_layers", 6),
        n_decoder_layers=settings.whole("decoder_layers", 6),
        dropout=settings.share("dropout", 0.1),
        attention_dropout=settings.share("attention_dropout", 0.0),
        activation=ACTIVATIONS[settings.choice("activation_fn", ACTIVATIONS, "relu")],
        norm="pre" if pre else "post",
        positions="learned" if learned else "sinusoidal",
        position_layout="concatenated",
        position_frequencies="endpoint",
        position_offset=PAD + 1,
        # A learned table ends; of sinusoids this many are precomputed.
        max_positions=min(longest) if learned else min(max(longest), 1024),
        tie_embeddings=tying,
        scale_embedding=not settings.flag("no_scale_embedding"),
        attention_bias=True,
        pad_id=PAD,
        bos_id=EOS,  # the decoder starts from the end of the previous sentence
        eos_id=EOS,
        unk_id=UNK,
    )


def max_positions(settings: Settings, side: str) -> int:
    """Return the number of source or target positions."""
    name = f"max_{side}_positions"
    return 1024 if settings.values.get(name) is None else settings.whole(name)


def read_sides(
    folder: Path, settings: Settings, moses: bool | None = None
) -> tuple[cutting.Segmenter, cutting.Segmenter]:
    """Read the segmentation of both sides: a dictionary, and a model or merges."""
    languages = [_language(settings, f"{side}_lang") for side in ("source", "target")]
    cutter, recorded = settings.text("bpe"), settings.text("tokenizer")
    settings.check("bpe", cutter in (None, *CUTTERS), f"one of: {', '.join(CUTTERS)}")
    settings.check("tokenizer", recorded in (None, "moses", "space"), "one of: moses, space")
    if moses is None and recorded is not None:
        moses = recorded == "moses"
    sides = []
    for language, part in zip(languages, ("src", "tgt"), strict=True):
        names = [f"dict.{part}.txt", "dict.txt"]
        at = cutting.first_there(folder, ["dict.{}.txt", *names], language)
        if at is None:
            missing = f"dict.{language}.txt" if language else names[0]
            raise CheckpointError(f"{folder / missing}: the file is missing")
        model = cutting.first_there(folder, cutting.MODELS, language) or _only(folder, "*.model")
        codes = cutting.first_there(folder, cutting.CODES, language) or _only(folder, "*.codes")
        if model is not None and codes is not None:
            if cutter not in CUTTERS:
                raise CheckpointError(
                    f"{folder}: {model.name} and {codes.name}; keep the one that splits the text"
                )
            model, codes = (model, None) if cutter == "sentencepiece" else (None, codes)
        if cutter is not None and (model if cutter == "sentencepiece" else codes) is None:
            file = "a model, spm.model" if cutter == "sentencepiece" else "merges, bpe.codes"
            raise CheckpointError(f"{folder}: bpe={cutter!r} needs {file}")
        # Checkpoints rarely record the preparation; merges without Moses are rare.
        apart = codes is not None if moses is None else moses
        rules = language if LANGUAGE.fullmatch(language) else "en"
        preparation = Preparation(
            moses=rules if apart else None,
            dash_splits=apart and not settings.flag("moses_no_dash_splits"),
            escape=not (apart and settings.flag("moses_no_escape")),
        )
        joint = settings.text("bpe_separator") or "@@"
        sides.append(cutting.Segmenter((at, read_dictionary(at)), model, codes, preparation, joint))
    return sides[0], sides[1]


def _language(settings: Settings, name: str) -> str:
    language = settings.text(name) or ""
    # It becomes part of file names.
    settings.check(name, re.fullmatch(r"[\w-]*", language) is not None, "a language")
    return language


def _only(folder: Path, pattern: str) -> Path | None:
    paths = list(folder.glob(pattern))
    return paths[0] if len(paths) == 1 else None


def read_dictionary(path: Path) -> tuple[str, ...]:
    """Return the pieces in order of their ids. Every line has a piece and its count.

    A piece marked `OVERWRITE` takes the place of an earlier one, whose row no text reaches any
    more, except that special tokens keep their ids.
    """
    lines = read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = {piece: index for index, piece in enumerate(SPECIAL)}
    for number, line in enumerate(lines, 1):
        piece, _, count = line.rstrip().rpartition(" ")
        if overwrites := count == OVERWRITE:
            piece, _, count = piece.rpartition(" ")
        if not piece or not count.removeprefix("-").isdigit():
            raise CheckpointError(
                f"{path}: line {number:,} is not a piece and its count: {line!r:.80}"
            )
        if piece in ids and not overwrites:
            raise CheckpointError(f"{path}: the vocabulary holds a piece twice")
        if piece in SPECIAL:
            ids[cutting.no_piece(len(ids))] = len(ids)
        else:
            if (earlier := ids.pop(piece, None)) is not None:
                ids[cutting.no_piece(earlier)] = earlier
            ids[piece] = len(ids)
    return tuple(sorted(ids, key=ids.__getitem__))


def _aliases(name: str, settings: Settings, config: ModelConfig) -> list[registry.Alias]:
    embeddings = registry.embedding_aliases(name, config, SOURCE, TARGET, *OUTPUT)
    if embeddings:
        return embeddings
    if name in POSITIONS:
        stack, side = POSITIONS[name]
        last = PAD + 1 + max_positions(settings, side)
        return [registry.Alias(f"{stack}.embed_positions.weight", PAD + 1, last)]
    theirs = registry.renamed(name, registry.LAYER_PARTS)
    aliases = [registry.Alias(theirs)]
    # Old versions store a third of one projection, or number their norms.
    block, part, ending = ["", "", *theirs.rsplit(".", 2)][-3:]
    if part in PROJECTIONS:
        rows = layout_of(config).shapes[name][0]
        aliases.append(
            registry.Alias(f"{block}.in_proj_{ending}", PROJECTIONS.index(part) * rows, 3 * rows)
        )
    norms = NUMBERED[name.partition(".")[0].removesuffix("_norm")]
    if part in norms:
        aliases.append(registry.Alias(f"{block}.layer_norms.{norms.index(part)}.{ending}"))
    return aliases
