"""Tiny random models of every family that the `transformers` library has, with tiny tokenizers."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported

import sentencepiece as spm
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from benchmarks.random_marian import pieces_of, sentence_pieces, spread
from tests.tiny_models import SENTENCES
from transformer.huggingface.model import HuggingFaceModel

transformers.logging.disable_progress_bar()

Made = tuple[Any, Any]

#: Sizes and ids of BART and of models with its layers.
BART: dict[str, Any] = {
    "encoder_ffn_dim": 20, "decoder_ffn_dim": 22, "pad_token_id": 1, "bos_token_id": 0,
    "eos_token_id": 2,
}  # fmt: skip


def unigram(special: list[str]) -> list[tuple[str, float]]:
    """The pieces of a SentencePiece model with their scores, special ones first."""
    cut = spm.SentencePieceProcessor(model_proto=sentence_pieces(SENTENCES, 110))
    rest = ((cut.id_to_piece(index), cut.get_score(index)) for index in range(3, len(cut)))
    return [*((name, 0.0) for name in special), *rest]


def byte_level(special: list[str], vocab_size: int = 300) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(SENTENCES, trainer)
    return made


def vocabulary(made: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Pieces with their ids, and the merges of BPE."""
    model = json.loads(made.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model.get("merges", ())]


def t5(folder: Path) -> Made:
    pieces = unigram(["<pad>", "</s>", "<unk>"])
    cut = transformers.T5Tokenizer(vocab=pieces, extra_ids=4, model_max_length=512)
    config = transformers.T5Config(
        vocab_size=len(cut) + 5, d_model=20, d_kv=7, d_ff=24, num_layers=2, num_decoder_layers=3,
        num_heads=5, feed_forward_proj="gated-gelu", decoder_start_token_id=0, pad_token_id=0,
        eos_token_id=1, relative_attention_num_buckets=8,
    )  # fmt: skip
    return save(folder, transformers.T5ForConditionalGeneration, config, cut)


def bart(folder: Path) -> Made:
    made = byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    vocab, merges = vocabulary(made)
    cut = transformers.BartTokenizer(vocab=vocab, merges=merges)
    config = transformers.BartConfig(
        vocab_size=len(cut), d_model=18, encoder_layers=3, decoder_layers=1,
        encoder_attention_heads=3, decoder_attention_heads=6, max_position_embeddings=64,
        decoder_start_token_id=2, **BART,
    )  # fmt: skip
    return save(
        folder, transformers.BartForConditionalGeneration, config, cut, forced_bos_token_id=0
    )


def m2m100(folder: Path) -> Made:
    folder.mkdir(parents=True, exist_ok=True)
    model = sentence_pieces(SENTENCES, 110)
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(model)]
    (folder / "vocab.json").write_text(json.dumps({name: at for at, name in enumerate(names)}))
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    cut = transformers.M2M100Tokenizer(
        folder / "vocab.json", folder / "sentencepiece.bpe.model", src_lang="en", tgt_lang="fr"
    )
    return save(folder, *many_languages(len(names) + 108), cut)


def nllb(folder: Path) -> Made:
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    made.train_from_iterator(SENTENCES, trainer)
    vocab, merges = vocabulary(made)
    cut = transformers.NllbTokenizer(
        vocab=vocab, merges=merges, src_lang="eng_Latn",
        extra_special_tokens=["deu_Latn", "eng_Latn", "fra_Latn", "arb_Arab"],
    )  # fmt: skip
    return save(folder, *many_languages(len(cut)), cut)


def many_languages(vocab_size: int) -> tuple[Any, Any]:
    config = transformers.M2M100Config(
        vocab_size=vocab_size, d_model=24, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=3, decoder_attention_heads=4, max_position_embeddings=80,
        decoder_start_token_id=2, **BART,
    )  # fmt: skip
    return transformers.M2M100ForConditionalGeneration, config


def mbart(folder: Path) -> Made:
    pieces = unigram(["<s>", "<pad>", "</s>", "<unk>"])
    cut = transformers.MBartTokenizer(vocab=pieces, src_lang="en_XX", tgt_lang="de_DE")
    config = transformers.MBartConfig(
        vocab_size=len(cut), d_model=20, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=5, max_position_embeddings=70, **BART,
    )  # fmt: skip
    return save(folder, transformers.MBartForConditionalGeneration, config, cut)


ENGLISH, GERMAN = SENTENCES[::2], SENTENCES[1::2]
TAGS = (">>deu<<", ">>fra<<")

#: Settings of each model, on top of BASE. Vocabularies have the size of their pieces.
SHAPES: dict[str, dict[str, Any]] = {
    "tied, unequal depths": {"eos": 0},
    "a decoder of its own shape": {
        "eos": 5, "d_model": 20, "encoder_attention_heads": 5, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 12, "decoder_ffn_dim": 28, "encoder_layers": 3, "decoder_layers": 1,
        "activation_function": "relu", "scale_embedding": False,
    },
    "separate vocabularies": {"eos": 0, "share_encoder_decoder_embeddings": False},
    "separate and untied": {
        "eos": 3, "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False,
        "encoder_attention_heads": 1, "decoder_attention_heads": 1,
    },
    "one vocabulary, nothing tied": {
        "eos": 0, "tie_word_embeddings": False, "activation_function": "gelu",
    },
}  # fmt: skip

BASE: dict[str, Any] = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40,
    "max_position_embeddings": 80, "activation_function": "swish", "scale_embedding": True,
}  # fmt: skip


def numbered(pieces: Sequence[str], special: dict[str, int], seed: int) -> dict[str, int]:
    """Return a shuffled vocabulary, with the special pieces at their ids."""
    rest = sorted(set(pieces))
    random.Random(seed).shuffle(rest)
    size = len(rest) + len(special)
    free = iter(index for index in range(size) if index not in special.values())
    return special | {piece: next(free) for piece in rest}


def make_folder(folder: Path, shape: str, seed: int = 0, **changes: Any) -> Any:
    """Write a Marian model with its tokenizers to `folder`; return Hugging Face's model."""
    settings = {**BASE, **SHAPES[shape], **changes}
    eos = settings.pop("eos")
    folder.mkdir(parents=True, exist_ok=True)
    source, target = sentence_pieces(ENGLISH, 90), sentence_pieces(GERMAN, 110)
    english, german = [*pieces_of(source), *TAGS], pieces_of(target)
    special = {"</s>": eos, "<unk>": 1, "<pad>": 2}
    if settings.get("share_encoder_decoder_embeddings", True):
        # The last id, as in OPUS-MT.
        special["<pad>"] = len({*english, *german}) + 2
        vocabularies = [numbered([*english, *german], special, seed)]
    else:
        vocabularies = [numbered(english, special, seed), numbered(german, special, seed)]
    for name, ids in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        (folder / name).write_text(json.dumps(ids))
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    separate = {"separate_vocabs": len(vocabularies) > 1}
    (folder / "tokenizer_config.json").write_text(json.dumps(separate))
    pad = special["<pad>"]
    config = transformers.MarianConfig(
        vocab_size=len(vocabularies[0]), decoder_vocab_size=len(vocabularies[-1]),
        pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=eos, forced_eos_token_id=eos,
        attn_implementation="eager", **settings,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(config).eval().requires_grad_(False)
    spread(model, pad)
    model.final_logits_bias[0, eos] = 6.0
    model.save_pretrained(folder)
    decoding = json.loads((folder / "generation_config.json").read_text())
    decoding |= {"bad_words_ids": [[pad]], "max_length": 60}
    (folder / "generation_config.json").write_text(json.dumps(decoding))
    return transformers.MarianMTModel.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()


def marian(folder: Path) -> Made:
    model = make_folder(folder, "separate vocabularies")
    return model.requires_grad_(False), transformers.MarianTokenizer.from_pretrained(folder)


def gpt2(folder: Path) -> Made:
    vocab, merges = vocabulary(byte_level(["<|endoftext|>"]))
    cut = transformers.GPT2Tokenizer(vocab=vocab, merges=merges)
    config = transformers.GPT2Config(
        vocab_size=len(cut), n_embd=21, n_layer=3, n_head=3, n_positions=48, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    return save(folder, transformers.GPT2LMHeadModel, config, cut)


def llama(folder: Path) -> Made:
    made = Tokenizer(models.Unigram(unigram(["<unk>", "<s>", "</s>"]), unk_id=0))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    cut = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    config = transformers.LlamaConfig(
        vocab_size=len(cut), hidden_size=24, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=3, max_position_embeddings=90,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return save(folder, transformers.LlamaForCausalLM, config, cut)


def bert(folder: Path) -> Made:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    made.train_from_iterator(SENTENCES, trainer)
    vocab, _ = vocabulary(made)
    cut = transformers.BertTokenizer(vocab=vocab, do_lower_case=False)
    config = transformers.BertConfig(
        vocab_size=len(cut), hidden_size=20, num_hidden_layers=3, num_attention_heads=5,
        intermediate_size=24, max_position_embeddings=60,
    )  # fmt: skip
    return save(folder, transformers.BertForMaskedLM, config, cut)


def save(folder: Path, kind: Any, config: Any, cut: Any, **decoding: Any) -> Made:
    """A model with wide-spread random weights, written with its tokenizer."""
    torch.manual_seed(3)
    config._attn_implementation = "eager"
    model = kind(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and "position" not in name:
            weight.normal_(std=1.2 * weight.size(1) ** -0.5)
    model.tie_weights()
    if model.can_generate():
        model.generation_config.update(**decoding)
    model.save_pretrained(folder)
    cut.save_pretrained(folder)
    again = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    return again.eval().requires_grad_(False), cut


ENCODER_DECODERS: dict[str, Callable[[Path], Made]] = {
    "t5": t5, "bart": bart, "m2m100": m2m100, "nllb": nllb, "mbart": mbart, "marian": marian,
}  # fmt: skip
DECODERS: dict[str, Callable[[Path], Made]] = {"gpt2": gpt2, "llama": llama}
ENCODERS: dict[str, Callable[[Path], Made]] = {"bert": bert}
EVERY = {**ENCODER_DECODERS, **DECODERS, **ENCODERS}


class Pair(NamedTuple):
    """One model twice: the library's with its tokenizer, and ours around the same files."""

    name: str
    theirs: Any
    cut: Any
    ours: HuggingFaceModel
    folder: Path


def make_pair(name: str, folder: Path) -> Pair:
    theirs, cut = EVERY[name](folder / name)
    return Pair(name, theirs, cut, HuggingFaceModel.load(folder / name, "cpu"), folder / name)
