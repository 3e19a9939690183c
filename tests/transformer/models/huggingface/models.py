"""Tiny random models from every `transformers` family, with tiny tokenizers."""

import json
import os
import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported

import sentencepiece as spm
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from benchmarks.random_marian import pieces_of, sentence_pieces, spread
from tests.tiny_models import SENTENCES
from transformer.models.huggingface.model import HuggingFaceModel

transformers.logging.disable_progress_bar()

Made = tuple[Any, Any]

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def unigram(special: list[str]) -> list[tuple[str, float]]:
    cut = spm.SentencePieceProcessor(model_proto=sentence_pieces(SENTENCES, 110))
    rest = ((cut.id_to_piece(index), cut.get_score(index)) for index in range(3, len(cut)))
    return [*((name, 0.0) for name in special), *rest]


def learned(
    model: Any, trainer: Any, before: Any, special: list[str], size: int, **more: Any
) -> dict[str, Any]:
    """Train a tokenizer and return its piece ids, and BPE merges."""
    made = Tokenizer(model)
    made.pre_tokenizer = before
    made.train_from_iterator(
        SENTENCES, trainer(vocab_size=size, special_tokens=special, show_progress=False, **more)
    )
    found = json.loads(made.to_str())["model"]
    merges = [tuple(pair) for pair in found.get("merges", ())]
    return {"vocab": found["vocab"]} | ({"merges": merges} if merges else {})


def byte_level(special: list[str]) -> dict[str, Any]:
    before = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return learned(
        models.BPE(), trainers.BpeTrainer, before, special, 300, initial_alphabet=alphabet
    )


def t5_tokenizer(_: Path) -> Any:
    pieces = unigram(["<pad>", "</s>", "<unk>"])
    return transformers.T5Tokenizer(vocab=pieces, extra_ids=4, model_max_length=512)


def bart_tokenizer(_: Path) -> Any:
    return transformers.BartTokenizer(**byte_level([*SPECIAL, "<mask>"]))


def m2m100_tokenizer(folder: Path) -> Any:
    model = sentence_pieces(SENTENCES, 110)
    names = [*SPECIAL, *pieces_of(model)]
    (folder / "vocab.json").write_text(json.dumps({name: at for at, name in enumerate(names)}))
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    return transformers.M2M100Tokenizer(
        folder / "vocab.json", folder / "sentencepiece.bpe.model", src_lang="en", tgt_lang="fr"
    )


def nllb_tokenizer(_: Path) -> Any:
    model, before = models.BPE(unk_token="<unk>"), pre_tokenizers.Metaspace()
    return transformers.NllbTokenizer(
        **learned(model, trainers.BpeTrainer, before, SPECIAL, 120), src_lang="eng_Latn",
        extra_special_tokens=["deu_Latn", "eng_Latn", "fra_Latn", "arb_Arab"],
    )  # fmt: skip


def mbart_tokenizer(_: Path) -> Any:
    return transformers.MBartTokenizer(vocab=unigram(SPECIAL), src_lang="en_XX", tgt_lang="de_DE")


def gpt2_tokenizer(_: Path) -> Any:
    return transformers.GPT2Tokenizer(**byte_level(["<|endoftext|>"]))


def llama_tokenizer(_: Path) -> Any:
    made = Tokenizer(models.Unigram(unigram(["<unk>", "<s>", "</s>"]), unk_id=0))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def bert_tokenizer(_: Path) -> Any:
    model, before = models.WordPiece(unk_token="[UNK]"), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    found = learned(model, trainers.WordPieceTrainer, before, special, 120)
    return transformers.BertTokenizer(**found, do_lower_case=False)


def roberta_tokenizer(_: Path) -> Any:
    return transformers.RobertaTokenizer(**byte_level([*SPECIAL, "<mask>"]))


def byt5_tokenizer(_: Path) -> Any:
    return transformers.ByT5Tokenizer(extra_ids=3)


def merges() -> list[tuple[str, str]]:
    """Return frequent merges in the older BPE format, which marks word ends with `</w>`."""
    before, ends = pre_tokenizers.Whitespace(), {"end_of_word_suffix": "</w>"}
    return list(learned(models.BPE(), trainers.BpeTrainer, before, [], 150, **ends)["merges"])


def numbered_pieces(texts: Sequence[str], special: Sequence[str]) -> dict[str, int]:
    """Return an older BPE vocabulary: characters, whole words and split words."""
    words = [*dict.fromkeys(re.findall(r"\w+|[^\w\s]", " ".join(texts)))]
    letters = sorted({*"".join(words)})
    pieces = [*special, *letters, *(f"{each}</w>" for each in (*letters, *words[::2]))]
    pieces += ["".join(pair) for pair in merges()]
    return {piece: at for at, piece in enumerate(dict.fromkeys(pieces))}


def fsmt_tokenizer(folder: Path) -> Any:
    """Write two vocabularies in different orders, and their common merges."""
    for name, texts in (("src", SENTENCES[::2]), ("tgt", SENTENCES[1::2])):
        (folder / f"vocab-{name}.json").write_text(json.dumps(numbered_pieces(texts, SPECIAL)))
    (folder / "merges.txt").write_text("".join(f"{a} {b} 1\n" for a, b in merges()))
    return transformers.FSMTTokenizer(
        ["en", "de"], *(str(folder / name) for name in FSMT_FILES), do_lower_case=False
    )


FSMT_FILES = ("vocab-src.json", "vocab-tgt.json", "merges.txt")


#: Sizes and ids of BART and of models with its layers.
BART: dict[str, Any] = {
    "encoder_ffn_dim": 20, "decoder_ffn_dim": 22, "pad_token_id": 1, "bos_token_id": 0,
    "eos_token_id": 2,
}  # fmt: skip
M2M100: dict[str, Any] = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 4, "max_position_embeddings": 80, "decoder_start_token_id": 2,
    **BART,
}  # fmt: skip

#: Each family: its tokenizer, the model's class, its shape, and how many rows its embedding has
#: beside the tokenizer's pieces.
FAMILIES: dict[str, tuple[Callable[[Path], Any], str, dict[str, Any], int]] = {
    "t5": (t5_tokenizer, "T5ForConditionalGeneration", {
        "d_model": 20, "d_kv": 7, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 3,
        "num_heads": 5, "feed_forward_proj": "gated-gelu", "decoder_start_token_id": 0,
        "pad_token_id": 0, "eos_token_id": 1, "relative_attention_num_buckets": 8}, 5),
    "bart": (bart_tokenizer, "BartForConditionalGeneration", {
        "d_model": 18, "encoder_layers": 3, "decoder_layers": 1, "encoder_attention_heads": 3,
        "decoder_attention_heads": 6, "max_position_embeddings": 64, "decoder_start_token_id": 2,
        **BART}, 0),
    "m2m100": (m2m100_tokenizer, "M2M100ForConditionalGeneration", M2M100, 108),
    "nllb": (nllb_tokenizer, "M2M100ForConditionalGeneration", M2M100, 0),
    "mbart": (mbart_tokenizer, "MBartForConditionalGeneration", {
        "d_model": 20, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 5, "max_position_embeddings": 70, **BART}, 0),
    "fsmt": (fsmt_tokenizer, "FSMTForConditionalGeneration", {
        "d_model": 24, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 1,
        "decoder_attention_heads": 4, "max_position_embeddings": 66, "num_beams": 1, **BART}, 0),
    "byt5": (byt5_tokenizer, "T5ForConditionalGeneration", {
        "d_model": 16, "d_kv": 6, "d_ff": 12, "num_layers": 3, "num_decoder_layers": 1,
        "num_heads": 2, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
        "tie_word_embeddings": False}, 2),
    "roberta": (roberta_tokenizer, "RobertaForMaskedLM", {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 1,
        "intermediate_size": 24, "max_position_embeddings": 60, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}, 0),
    "gpt2": (gpt2_tokenizer, "GPT2LMHeadModel", {
        "n_embd": 21, "n_layer": 3, "n_head": 3, "n_positions": 48, "bos_token_id": 0,
        "eos_token_id": 0}, 0),
    "llama": (llama_tokenizer, "LlamaForCausalLM", {
        "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 90,
        "bos_token_id": 1, "eos_token_id": 2}, 0),
    "bert": (bert_tokenizer, "BertForMaskedLM", {
        "hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 5,
        "intermediate_size": 24, "max_position_embeddings": 60}, 0),
}  # fmt: skip


#: Tokens added to two of the tokenizers, as after fine-tuning.
ADDED, ADDING = ["covid19", "New York"], ("bart", "bert", "fsmt")
#: The types that others are stored in, and the size of a file's shards.
DTYPES = {"mbart": torch.float16, "nllb": torch.bfloat16, "roberta": torch.float16}
SHARDS = {"llama": "12KB"}


def make(name: str, folder: Path) -> Made:
    """Write a model with wide random weights and its tokenizer, and return both."""
    tokenizer, kind_name, shape, more = FAMILIES[name]
    folder.mkdir(parents=True, exist_ok=True)
    cut, kind = tokenizer(folder), getattr(transformers, kind_name)
    cut.add_tokens(ADDED if name in ADDING else [])
    sizes = {"vocab_size": len(cut) + more}
    if name == "fsmt":
        sizes = {"src_vocab_size": len(cut), "tgt_vocab_size": len(cut.decoder) + 40}
    config = kind.config_class(**sizes, **shape)
    torch.manual_seed(3)
    config._attn_implementation = "eager"
    model = kind(config).eval().requires_grad_(False)
    for weight_name, weight in model.named_parameters():
        if weight.dim() == 2 and "position" not in weight_name:
            weight.normal_(std=1.2 * weight.size(1) ** -0.5)
    model.tie_weights()
    if name == "bart":
        model.generation_config.update(forced_bos_token_id=0)
    model.to(DTYPES.get(name, torch.float32)).save_pretrained(
        folder, max_shard_size=SHARDS.get(name, "1GB")
    )
    assert len([*folder.glob("*.safetensors")]) > 2 * (name in SHARDS) - 1
    cut.save_pretrained(folder)
    again = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    return again.eval().requires_grad_(False), cut


#: Characters that libraries clean, join or part words at, each in their own way.
TYPED = (
    *"\0\x01\x08\t\n\x0b\x0c\r\x1b\x1c\x1f\x7f\x80\x85\x9b\xa0\xad",
    *"\u0301\u0308\u0338\u05d0\u05b8\u0627\u064b\u200b\u200c\u200d\u200e\u200f\u2028\u2029",
    *"\u202e\u202f\u2060\u2066\u2069\u3000\ufe0f\ufeff\ufffd\ufb01½Å漢￭▁Ġ🎸👩",
    "\r\n", "  ", "e\u0301", "👩\u200d🚀", "</w>", "@@", "##", "a##b", "'", "@-@", "&amp;",
    "covid19", "New York",
)  # fmt: skip


def typed_texts(count: int, seed: int = 0) -> list[str]:
    """Texts with control, invisible, combining, right-to-left and line-break characters."""
    draw, words = random.Random(seed), " ".join(SENTENCES).split()
    parts = lambda: draw.choices((draw.choice(words), " ", draw.choice(TYPED)), (4, 4, 3))[0]  # noqa: E731
    return [
        draw.choice(words) + "".join(parts() for _ in range(draw.randint(1, 14)))
        for _ in range(count)
    ]


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
    """Return a shuffled vocabulary with fixed ids for special pieces."""
    rest = sorted(set(pieces))
    random.Random(seed).shuffle(rest)
    size = len(rest) + len(special)
    free = iter(index for index in range(size) if index not in special.values())
    return special | {piece: next(free) for piece in rest}


def make_folder(folder: Path, shape: str, seed: int = 0, **changes: Any) -> Any:
    """Write a Marian model with its tokenizers, and return the library's model."""
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
    return marian_model(folder)


def marian_model(folder: Path) -> Any:
    eager = {"attn_implementation": "eager", "dtype": torch.float32}
    return transformers.MarianMTModel.from_pretrained(folder, **eager).eval()


def marian(folder: Path) -> Made:
    model = make_folder(folder, "separate vocabularies").requires_grad_(False)
    return model, transformers.MarianTokenizer.from_pretrained(folder)


EVERY: dict[str, Callable[[Path], Made]] = {
    **{name: partial(make, name) for name in FAMILIES}, "marian": marian,
}  # fmt: skip
DECODERS, ENCODERS = ("gpt2", "llama"), ("bert", "roberta")
ENCODER_DECODERS = tuple(name for name in EVERY if name not in (*DECODERS, *ENCODERS))


class Pair(NamedTuple):
    """One model in two forms: the library's with its tokenizer, and ours on the same files."""

    name: str
    theirs: Any
    cut: Any
    ours: HuggingFaceModel
    folder: Path


def make_pair(name: str, folder: Path) -> Pair:
    theirs, cut = EVERY[name](folder / name)
    return Pair(name, theirs, cut, HuggingFaceModel.load(folder / name, "cpu"), folder / name)
