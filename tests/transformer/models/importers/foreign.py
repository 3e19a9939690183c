"""fairseq and JoeyNMT models with random weights and tokenizers."""

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from sacremoses import MosesTokenizer
from torch import Tensor

from benchmarks.random_marian import pieces_of, sentence_pieces
from tests.tiny_models import SENTENCES
from tests.transformer.models.importers.reference import Reference, drawn, learned_merges
from transformer.text.rules import Merges

ENGLISH, GERMAN = SENTENCES[::2], SENTENCES[1::2]
TEXTS = {"en": ENGLISH, "de": GERMAN}

FAIRSEQ_NAMES = {
    "encoder": "encoder.layers", "decoder": "decoder.layers",
    "encoder self": "self_attn", "decoder self": "self_attn", "cross": "encoder_attn",
    "encoder self norm": "self_attn_layer_norm", "decoder self norm": "self_attn_layer_norm",
    "cross norm": "encoder_attn_layer_norm", "feed norm": "final_layer_norm",
    "first": "fc1", "second": "fc2",
    "q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj",
    "encoder embedding": "encoder.embed_tokens.weight",
    "decoder embedding": "decoder.embed_tokens.weight",
    "output": "decoder.output_projection.weight",
}  # fmt: skip
JOEYNMT_NAMES = {
    "encoder": "encoder.layers", "decoder": "decoder.layers",
    "encoder self": "src_src_att", "decoder self": "trg_trg_att", "cross": "src_trg_att",
    "encoder self norm": "layer_norm", "decoder self norm": "x_layer_norm",
    "cross norm": "dec_layer_norm", "feed norm": "feed_forward.layer_norm",
    "first": "feed_forward.pwff_layer.0", "second": "feed_forward.pwff_layer.3",
    "q": "q_layer", "k": "k_layer", "v": "v_layer", "out": "output_layer",
    "encoder embedding": "src_embed.lut.weight", "decoder embedding": "trg_embed.lut.weight",
    "output": "decoder.output_layer.weight",
}  # fmt: skip

#: Settings of each model, on top of BASE; "stored" and "cut" describe its files.
FAIRSEQ: dict[str, dict[str, Any]] = {
    "post-norm, all shared": {"share_all_embeddings": True, "stored": "cfg", "cut": "merges"},
    "pre-norm, nothing shared": {
        "encoder_normalize_before": True, "decoder_normalize_before": True,
        "encoder_learned_pos": True, "decoder_learned_pos": True, "activation_fn": "gelu",
        "encoder_embed_dim": 20, "decoder_embed_dim": 20, "encoder_attention_heads": 5,
        "decoder_attention_heads": 2, "encoder_ffn_embed_dim": 12, "decoder_ffn_embed_dim": 28,
        "encoder_layers": 3, "decoder_layers": 1, "no_scale_embedding": True,
        "max_source_positions": 70, "max_target_positions": 60, "stored": "cfg", "cut": "spm",
    },
    "an old version": {
        "share_decoder_input_output_embed": True, "stored": "old", "cut": "fastbpe",
        "activation_fn": "swish",
    },
    "positions of both kinds": {
        "encoder_learned_pos": True, "encoder_normalize_before": True,
        "decoder_normalize_before": True, "max_source_positions": 70, "stored": "groups",
        "cut": "none", "share_decoder_input_output_embed": True,
    },
}  # fmt: skip
FAIRSEQ_BASE: dict[str, Any] = {
    "arch": "transformer", "source_lang": "en", "target_lang": "de", "activation_fn": "relu",
    "encoder_embed_dim": 24, "decoder_embed_dim": 24, "encoder_ffn_embed_dim": 40,
    "decoder_ffn_embed_dim": 40, "encoder_layers": 2, "decoder_layers": 3,
    "encoder_attention_heads": 3, "decoder_attention_heads": 3, "dropout": 0.2,
    "attention_dropout": 0.1, "share_all_embeddings": False,
    "share_decoder_input_output_embed": False, "no_scale_embedding": False,
    "encoder_normalize_before": False, "decoder_normalize_before": False,
    "encoder_learned_pos": False, "decoder_learned_pos": False, "layernorm_embedding": False,
    "adaptive_softmax_cutoff": None, "max_source_positions": 1024, "max_target_positions": 1024,
}  # fmt: skip

JOEYNMT: dict[str, dict[str, Any]] = {
    "version 1, all tied": {
        "tied_embeddings": True, "tied_softmax": True, "cut": "old", "pre": True, "said": None,
    },
    "post-norm, separate": {
        "tied_softmax": True, "cut": "merges", "pre": False, "said": "post", "scale": False,
        "activation": "gelu", "width": 20, "heads": (5, 2), "inner": (12, 28), "depths": (3, 1),
    },
    "pre-norm, other ids": {
        "cut": "spm", "pre": True, "said": "pre", "activation": "swish",
        "special": {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "unk_token": "<?>"},
    },
    "characters, embeddings tied": {
        "tied_embeddings": True, "cut": "char", "pre": False, "said": "post",
    },
}  # fmt: skip


def written(path: Path) -> dict[str, Any]:
    """Return generated file contents; fairseq settings are namespaces."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        content: dict[str, Any] = torch.load(path, weights_only=True)
    return content


def fairseq(folder: Path, shape: str, seed: int = 0, **changes: Any) -> Reference:
    values = {**FAIRSEQ_BASE, **FAIRSEQ[shape], **changes}
    stored, cut = values.pop("stored"), values.pop("cut")
    folder.mkdir(parents=True, exist_ok=True)
    joint = values["share_all_embeddings"]
    sizes = [4 + count for count in _fairseq_text(folder, cut, joint)]
    width = values["encoder_embed_dim"]
    heads, depths, inner = (
        tuple(values[f"{stack}_{name}"] for stack in ("encoder", "decoder"))
        for name in ("attention_heads", "layers", "ffn_embed_dim")
    )
    pre = values["encoder_normalize_before"]
    wanted = shapes(FAIRSEQ_NAMES, sizes, width, inner, depths, pre=pre, fused=stored == "old")
    for stack, side in (("encoder", "source"), ("decoder", "target")):
        if values[f"{stack}_learned_pos"]:
            longest = values[f"max_{side}_positions"] + 2
            wanted[f"{stack}.embed_positions.weight"] = (longest, width)
    state = drawn(wanted, seed)
    state["encoder.embed_tokens.weight"][1] = 0
    state["decoder.embed_tokens.weight"][1] = 0
    names = dict(FAIRSEQ_NAMES)
    if joint:
        state["decoder.embed_tokens.weight"] = state["encoder.embed_tokens.weight"]
    if joint or values["share_decoder_input_output_embed"]:
        names["output"] = names["decoder embedding"]
        state.pop("decoder.output_projection.weight")
        if stored != "old":
            state["decoder.output_projection.weight"] = state["decoder.embed_tokens.weight"]
    for stack in ("encoder", "decoder"):
        state[f"{stack}.version"] = torch.tensor([3.0])
        if not values[f"{stack}_learned_pos"]:
            state[f"{stack}.embed_positions._float_tensor"] = torch.ones(1)
    reference = Reference(
        dict(state), heads=heads, depths=depths, names=names,
        positions=_fairseq_positions(state, width),
        scale=1.0 if values["no_scale_embedding"] else math.sqrt(width), pre=pre,
        activation=values["activation_fn"], eps=1e-5, pad=1,
    )  # fmt: skip
    if stored == "old":
        _number_norms(state, values)
    for layer in range(values["encoder_layers"] if stored == "cfg" else 0):
        state[f"encoder.layers.{layer}.in_proj_weight"] = torch.zeros(3 * width, width)
        state[f"encoder.layers.{layer}.fc1_bias"] = torch.zeros(values["encoder_ffn_embed_dim"])
    extra = {"optimizer_history": [{"num_updates": 3}], "extra_state": {"epoch": 1}}
    languages = {name: values.pop(name) for name in ("source_lang", "target_lang")}
    if stored == "old":
        content = {"args": argparse.Namespace(**values, **languages), "model": state}
    elif stored == "cfg":
        task = argparse.Namespace(**languages)
        groups = {"model": argparse.Namespace(**values), "task": task, "bpe": None}
        content = {"args": None, "cfg": {**groups, "tokenizer": None}, "model": state}
    else:
        model: dict[str, Any] = {"_name": "transformer", "encoder": {}, "decoder": {}}
        for name, value in values.items():
            group, _, rest = name.partition("_")
            place, key = (model[group], rest) if group in model else (model, name)
            place[key] = value
        model["decoder"]["output_dim"] = "${model.decoder.embed_dim}"
        content = {"cfg": {"model": model, "task": languages}, "model": state}
    torch.save({**content, **extra}, folder / "checkpoint_best.pt")
    return reference


def _pieces_of(folder: Path, name: str, language: str, size: int, marks: Any = ()) -> list[str]:
    """Write a SentencePiece model and return its pieces, excluding special pieces."""
    model = sentence_pieces(TEXTS[language], size, marks)
    (folder / f"{name}.{language}.model").write_bytes(model)
    return pieces_of(model)


def _merged(words: Mapping[str, int], pairs: list[tuple[str, str]]) -> Counter[str]:
    """Count the pieces that merges produce."""
    merges, table = Merges(pairs), Counter[str]()
    for word, count in words.items():
        *before, last = merges.cut(word)
        table.update({**{f"{each}@@": count for each in before}, last: count})
    return table


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def _fairseq_text(folder: Path, cut: str, joint: bool) -> tuple[int, int]:
    """Write dictionaries and tokenizer files, and return both vocabulary sizes."""
    tables: list[dict[str, int]]
    if cut == "spm":
        sides = (_pieces_of(folder, "spm", *each) for each in (("en", 90), ("de", 110)))
        tables = [dict.fromkeys(reversed(pieces), 100) for pieces in sides]
    else:
        words = []
        for language, texts in TEXTS.items():
            moses = partial(MosesTokenizer(language).tokenize, aggressive_dash_splits=True)
            words.append(Counter(word for text in texts for word in moses(text)))
        pairs = learned_merges(words[0] + words[1], 90)
        if cut == "fastbpe":
            lines = [f"{one} {other} {900 - at}" for at, (one, other) in enumerate(pairs)]
            _write_lines(folder / "bpecodes", lines)
        elif cut == "merges":
            _write_lines(folder / "bpe.codes", ["#version: 0.2", *map(" ".join, pairs)])
        tables = [dict(_merged(counted, pairs).most_common()) for counted in words]
    if joint:
        tables = [tables[0] | tables[1]] * 2
    for language, found in zip(TEXTS, tables, strict=True):
        found["madeupword0000"] = 0
        lines = [f"{piece} {count}" for piece, count in found.items()]
        _write_lines(folder / f"dict.{language}.txt", lines)
    return len(tables[0]), len(tables[1])


def shapes(
    names: Mapping[str, str], sizes: Sequence[int], width: int, inner: Sequence[int],
    depths: Sequence[int], *, pre: bool, fused: bool = False,
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    """Return tensor shapes except positions, by library name; `fused` joins the projections."""
    found: dict[str, tuple[int, ...]] = {names["output"]: (sizes[1], width)}

    def linear(name: str, rows: int, columns: int) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = (rows, columns), (rows,)

    for stack, size, depth, hidden in zip(
        ("encoder", "decoder"), sizes, depths, inner, strict=True
    ):
        found[names[f"{stack} embedding"]] = (size, width)
        blocks = [f"{stack} self"] if stack == "encoder" else [f"{stack} self", "cross"]
        norms = [f"{stack}.layer_norm"] if pre else []
        for at in (f"{names[stack]}.{layer}" for layer in range(depth)):
            for block in (f"{at}.{names[each]}" for each in blocks):
                if fused:
                    found[f"{block}.in_proj_weight"] = (3 * width, width)
                    found[f"{block}.in_proj_bias"] = (3 * width,)
                for part in ("out",) if fused else ("q", "k", "v", "out"):
                    linear(f"{block}.{names[part]}", width, width)
            linear(f"{at}.{names['first']}", hidden, width)
            linear(f"{at}.{names['second']}", width, hidden)
            norms += [f"{at}.{names[f'{each} norm']}" for each in (*blocks, "feed")]
        for norm in norms:
            found[f"{norm}.weight"] = found[f"{norm}.bias"] = (width,)
    return found


def _fairseq_positions(state: Mapping[str, Tensor], width: int) -> Callable[[str, int], Tensor]:
    def positions(stack: str, length: int) -> Tensor:
        learned = state.get(f"{stack}.embed_positions.weight")
        if learned is not None:
            return learned[2 : 2 + length]
        half = width // 2
        numbers = torch.arange(2, 2 + length).double()
        angles = numbers[:, None] * torch.exp(
            torch.arange(half).double() * -(math.log(10_000) / (half - 1))
        )
        return torch.cat([angles.sin(), angles.cos(), torch.zeros(length, width % 2)], 1).float()

    return positions


def _number_norms(state: dict[str, Tensor], values: Mapping[str, Any]) -> None:
    """Rename the decoder's norms in place to their older numbered names."""
    for layer in range(values["decoder_layers"]):
        for number, norm in enumerate(("self_attn", "encoder_attn", "final")):
            for ending in ("weight", "bias"):
                old = f"decoder.layers.{layer}.{norm}_layer_norm.{ending}"
                state[f"decoder.layers.{layer}.layer_norms.{number}.{ending}"] = state.pop(old)


def joeynmt(folder: Path, shape: str, seed: int = 0, **changes: Any) -> Reference:
    values: dict[str, Any] = {
        "width": 24, "heads": (3, 3), "inner": (40, 40), "depths": (2, 3), "activation": "relu",
        "scale": True, "tied_embeddings": False, "tied_softmax": False, "special": {},
        **JOEYNMT[shape], **changes,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    width, pre = values["width"], values["pre"]
    data, sizes = _joeynmt_text(folder, values)
    wanted = shapes(
        JOEYNMT_NAMES, sizes, width, values["inner"], values["depths"], pre=values["pre"]
    )
    state = drawn(wanted, seed)
    special = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3} | values["special"]
    for name in ("src_embed.lut.weight", "trg_embed.lut.weight"):
        state[name][special["pad_id"]] = 0
    if values["tied_embeddings"]:
        state["trg_embed.lut.weight"] = state["src_embed.lut.weight"]
    if values["tied_softmax"]:
        state["decoder.output_layer.weight"] = state["trg_embed.lut.weight"]

    def positions(stack: str, length: int) -> Tensor:
        table = torch.zeros(length, width)
        steps = torch.exp(torch.arange(0, width, 2).double() * -(math.log(10_000) / width))
        angles = torch.arange(length).double()[:, None] * steps
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        return table

    reference = Reference(
        dict(state), heads=values["heads"], depths=values["depths"], names=JOEYNMT_NAMES,
        positions=positions, scale=math.sqrt(width) if values["scale"] else 1.0, pre=pre,
        activation=values["activation"], eps=1e-6, pad=special["pad_id"],
    )  # fmt: skip
    for stack in ("encoder", "decoder"):
        state[f"{stack}.pe.pe"] = positions(stack, 300)[None]
    model: dict[str, Any] = {
        "tied_embeddings": values["tied_embeddings"], "tied_softmax": values["tied_softmax"],
    }  # fmt: skip
    for index, stack in enumerate(("encoder", "decoder")):
        model[stack] = {
            "type": "transformer", "num_layers": values["depths"][index], "dropout": 0.1,
            "num_heads": values["heads"][index], "hidden_size": width,
            "ff_size": values["inner"][index], "activation": values["activation"],
            "embeddings": {"embedding_dim": width, "scale": values["scale"], "dropout": 0.0},
        }  # fmt: skip
        if values["said"]:
            model[stack]["layer_norm"] = values["said"]
    if values["special"]:
        data["special_symbols"] = values["special"]
    config = {"name": "a model", "data": data, "model": model, "testing": {"beam_size": 5},
              "training": {"learning_rate": 1e-4}}  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True))
    torch.save({"model_state": state, "steps": 7, "best_ckpt_score": 1.5}, folder / "7.ckpt")
    return reference


def _joeynmt_text(folder: Path, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Write vocabularies and tokenizer files, and return settings and both sizes."""
    cut, tables, given = values["cut"], [], values["special"]
    marks = ([given["sep_token"]] if "sep_token" in given else []) + given.get("lang_tags", [])
    data: dict[str, Any] = {}
    for part, language in (("src", "en"), ("trg", "de")):
        side: dict[str, Any] = {"lang": language, "level": "bpe", "lowercase": False}
        if cut == "spm":
            pieces = _pieces_of(folder, "sp", language, 100, marks)
            # Some are not in the vocabulary, so others replace them.
            pieces = [piece for at, piece in enumerate(pieces) if at % 5 or len(piece) == 1]
            file = f"/somewhere/else/sp.{language}.model"
            side |= {"tokenizer_type": "sentencepiece", "tokenizer_cfg": {"model_file": file}}
        elif cut == "char":
            pieces = sorted({each for texts in TEXTS.values() for each in "▁".join(texts)} - {" "})
            side["level"] = "char"
        else:
            counted = Counter(" ".join(TEXTS[language]).lower().split())
            pairs = learned_merges(counted, 60)
            pieces = sorted(_merged(counted, pairs))
            side |= {"tokenizer_type": "subword-nmt", "lowercase": True,
                     "tokenizer_cfg": {"codes": f"data/codes.{language}"}}  # fmt: skip
            if cut == "merges":
                lines = ["#version: 0.2", *map(" ".join, pairs)]
                _write_lines(folder / f"codes.{language}", lines)
        data[part] = side
        tables.append(pieces)
    if cut == "old":
        data = {"src": "en", "trg": "de", "level": "bpe", "lowercase": True}
    if values["tied_embeddings"]:
        tables = [sorted({*tables[0], *tables[1]})] * 2
    texts = {"unk": given.get("unk_token", "<unk>"), "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    order = sorted(texts, key=lambda name: given.get(f"{name}_id", [*texts].index(name)))
    first, sizes = [texts[name] for name in order] + marks, []
    for name, pieces in zip(("src_vocab.txt", "trg_vocab.txt"), tables, strict=True):
        lines = [*first, *(piece for piece in pieces if piece not in marks)]
        _write_lines(folder / name, lines)
        sizes.append(len(lines))
    return data, sizes


#: A model of each format: how it is made, its shape, and its file.
MODELS = {
    "fairseq": (fairseq, "post-norm, all shared", "checkpoint_best.pt"),
    "joeynmt": (joeynmt, "pre-norm, other ids", "7.ckpt"),
}
