"""Ways to damage a model folder."""

import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import safetensors.torch
import torch
import yaml

from tests.transformer.models.importers.foreign import written

Damage = Callable[[Path], object]
State = dict[str, torch.Tensor]
P = ParamSpec("P")

WEIGHTS = "model.safetensors"


class Call:
    """Pickles as a call to any function with any arguments."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


class Evil(Call):
    """Creates the file `mark` when unpickled."""

    def __init__(self, mark: Path) -> None:
        super().__init__(Path.touch, mark)


def damaging(do: Callable[Concatenate[Path, P], object]) -> Callable[P, Damage]:
    """Turn a function of (folder, arguments) into a function of arguments, for tables."""
    return lambda *given, **named: lambda folder: do(folder, *given, **named)


@damaging
def edit(folder: Path, name: str, *where: str, **changes: object) -> None:
    """Change values in a JSON or YAML file, optionally in a group; `...` removes a key."""
    path = folder / name
    text = path.read_text() if path.exists() else "{}"
    values: Any = yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
    group = values
    for each in where:
        group = group[each]
    group |= changes
    for key in [key for key, value in group.items() if value is ...]:
        del group[key]
    path.write_text((yaml.safe_dump if path.suffix == ".yaml" else json.dumps)(values))


@damaging
def rewrite(folder: Path, name: str, change: Callable[[Any], object]) -> None:
    path = folder / name
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


@damaging
def twice(folder: Path, name: str, key: str, value: int = 7) -> None:
    text = (folder / name).read_text().rstrip().removesuffix("}")
    (folder / name).write_text(f"{text}, {json.dumps(key)}: {value}}}")


@damaging
def cut(folder: Path, name: str, share: float) -> None:
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(share * len(data))])


def write(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


def append(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text((folder / name).read_text() + text)


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


@damaging
def become(folder: Path, name: str, change: Callable[[Path], object]) -> None:
    (folder / name).unlink()
    change(folder / name)


@damaging
def weights(folder: Path, change: Callable[[State], object]) -> None:
    state = safetensors.torch.load_file(folder / WEIGHTS)
    change(state)
    safetensors.torch.save_file(state, folder / WEIGHTS, {"format": "pt"})


@damaging
def content(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    (path,) = [*folder.glob("*.pt"), *folder.glob("*.ckpt")]
    values = written(path)
    change(values)
    torch.save(values, path)


def state_in(key: str, change: Callable[[State], object]) -> Damage:
    return content(lambda values: change(values[key]))


@damaging
def header(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change each tensor's header in model.safetensors, but not its data."""
    data = (folder / WEIGHTS).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    values = json.loads(data[8 : 8 + size])
    for name, each in values.items():
        if name != "__metadata__":
            change(each)
    (folder / WEIGHTS).write_bytes(safetensors_file(json.dumps(values), data[8 + size :]))


def safetensors_file(head: str, numbers: bytes = b"") -> bytes:
    return struct.pack("<Q", len(head)) + head.encode() + numbers


@damaging
def torch_file(folder: Path, make: Callable[[State], object], name: str) -> None:
    state = safetensors.torch.load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    torch.save(make(state), folder / name)


@damaging
def archive(folder: Path, name: str, compression: int = zipfile.ZIP_STORED, **more: bytes) -> None:
    """Rewrite a torch file with other members; `__` is a slash in names."""
    with zipfile.ZipFile(folder / name) as old:
        members = [(each.filename, old.read(each)) for each in old.infolist()]
    members += [(each.replace("__", "/"), data) for each, data in more.items()]
    with zipfile.ZipFile(folder / name, "w", compression) as new:
        for member, data in members:
            new.writestr(member, data)


@damaging
def split(folder: Path, ending: str = "safetensors") -> None:
    save = safetensors.torch.save_file if ending == "safetensors" else torch.save
    stem = "model" if ending == "safetensors" else "pytorch_model"
    files = [f"{stem}-0000{part}-of-00002.{ending}" for part in (1, 2)]
    state = safetensors.torch.load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    placed = {name: files[at % 2] for at, name in enumerate(sorted(state))}
    for file in files:
        save({name: state[name] for name in placed if placed[name] == file}, folder / file)
    index = {"metadata": {"total_size": 1}, "weight_map": placed}
    (folder / f"{stem}.{ending}.index.json").write_text(json.dumps(index))


def in_turn(*damages: Damage) -> Damage:
    return lambda folder: [each(folder) for each in damages]


#: What may stand in the place of any file.
IN_PLACE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo, "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a loop": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "nothing": Path.touch,
}  # fmt: skip


Faults = dict[str, tuple[Damage, str]]


def poke(name: str, value: float) -> Any:
    return lambda state: state[name].view(-1).__setitem__(3, value)


def holes(folder: Path) -> None:
    """Write a sparse file of a terabyte with a matching header."""
    size = 2**40
    tensor = {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}
    data = safetensors_file(json.dumps({"x": tensor}))
    (folder / WEIGHTS).write_bytes(data)
    os.truncate(folder / WEIGHTS, len(data) + size)


@damaging
def repeated(folder: Path, name: str, large: int, *sizes: str) -> None:
    """Enlarge config sizes, and store each affected tensor as one repeated number."""
    inner = json.loads((folder / CONFIG).read_text())[sizes[0]]
    edit(CONFIG, **dict.fromkeys(sizes, large))(folder)
    torch_file(
        lambda state: {
            name: torch.zeros(1).expand([large if size == inner else size for size in each.shape])
            for name, each in state.items()
        },
        name,
    )(folder)


def claim(folder: Path) -> None:
    """Write an archive directory that claims 2 GB for its first file."""
    torch_file(lambda state: state, "model.pt")(folder)
    data = bytearray((folder / "model.pt").read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + 20 : entry + 28] = struct.pack("<II", 2**31, 2**31)
    (folder / "model.pt").write_bytes(data)


def doubling() -> object:
    """Return text that doubles in each of 60 calls."""
    import codecs

    text: object = "x"
    for _ in range(60):
        text = Call(codecs.encode, text, "hex")
    return text


def not_text(name: str) -> Damage:
    return lambda folder: (folder / name).write_bytes(
        (folder / name).read_bytes().replace("▁".encode(), b"\xe2\x96\xff", 1)
    )


def torch_of(value: object) -> Damage:
    return torch_file(lambda _: value, "model.pt")


CONFIG, TOKENIZER, TOKENIZER_SETTINGS = "config.json", "tokenizer.model", "tokenizer_config.json"
INDEX, PIECES = "model.safetensors.index.json", "vocabulary.json"
FFN = "encoder.0.feed_forward.w_1.weight"
BILLION = 10**9

#: This project's checkpoints. A fault that only the numbers show is not in the list's error.
OWN: Faults = {
    "a billion layers": (twice(CONFIG, "n_encoder_layers", BILLION), r"config\.json: .*occurs tw"),
    "a key without end": (write(CONFIG, b'{"' + b"x" * 10**6 + b'": 1}'), "unknown setting"),
    "line breaks": (write(CONFIG, rb'{"activation": "a\nb\u2028c\u001b[31m"}'), "activation='a"),
    "a huge config": (become(CONFIG, lambda path: (path.touch(), os.truncate(path, 10**9))),
                      r"config\.json: 1,000,000,000 bytes; at most"),
    "too many layers": (edit(CONFIG, n_encoder_layers=100_000), r"config\.json: n_encoder"),
    "too many positions": (edit(CONFIG, max_positions=10**12), r"config\.json: max_positions"),
    "too large": (edit(CONFIG, d_ff=10**12), r"config\.json: .* parameters"),
    "another vocabulary": (edit(CONFIG, vocab_size=111), r"tokenizer\.model: 110 pieces.*111"),
    "other special ids": (edit(CONFIG, pad_id=5), r"tokenizer\.model: pad_id is 0.*5"),
    "no weights": (remove(WEIGHTS), r"model\.safetensors: the file is missing"),
    "a tensor is missing": (weights(lambda s: s.pop(FFN)), rf"'{FFN}' is missing"),
    "a tensor too many": (weights(lambda s: s.update(x=torch.ones(1))), "'x' does not belong"),
    "more than memory maps": (holes, "more than can be opened|'x' does not belong"),
    "a transposed tensor": (weights(lambda s: s.update({FFN: s[FFN].T.contiguous()})),
                            r"\[24, 40\].*\[40, 24\]"),
    "whole numbers": (weights(lambda s: s.update({FFN: s[FFN].int()})), "stored as I32"),
    "NaN": (weights(poke(FFN, float("nan"))), r"safetensors: .*NaN or infinite"),
    "untied": (weights(lambda s: s.update({"generator.weight": s["src_embedding.weight"] + 1})),
               r"differ, but config\.json ties them"),
    "no tokenizer": (remove(TOKENIZER), r"tokenizer\.model: the file is missing"),
    "a piece that is not text": (not_text(TOKENIZER), r"tokenizer\.model: not a SentencePiece"),
    "torch file of a list": (torch_of([torch.ones(2)]), r"model\.pt: not a state dict"),
    "torch file of numbers": (torch_of({"a": 1}), r"model\.pt: not a state dict"),
    "a sparse tensor": (torch_of({FFN: torch.eye(3).to_sparse()}), r"model\.pt: holds more than"),
    "torch file cut": (in_turn(torch_file(lambda s: s, "model.pt"), cut("model.pt", 0.9)),
                       r"model\.pt: not a whole"),
    "a bomb beside the weights": (
        in_turn(torch_file(lambda s: s, "model.pt"),
                archive("model.pt", zipfile.ZIP_DEFLATED, archive__bomb=b"\0" * 10**7)),
        r"model\.pt: a compressed archive"),
    "a way out of an archive": (
        in_turn(torch_file(lambda s: s, "model.pt"), archive("model.pt", **{"..__..__x": b"x"})),
        r"model\.pt: not a whole torch file"),
    "an archive that claims too much": (claim, r"pt: an archive smaller than its files"),
    "text that doubles": (torch_of(doubling()), r"holds more than weights \(_codecs\.encode"),
    "an empty tensor without end": (torch_of({"a": Call(torch.Tensor, 10**7, 10**7)}),
                                    r"holds more than weights \(torch"),
    "one number for all": (repeated("model.pt", 8_000_000, "d_ff"),
                           r"model\.pt: .* bytes are too few for"),
}  # fmt: skip
#: Faults that the headers do not show.
HIDDEN = {"NaN", "untied"}

FC = "model.encoder.layers.0.fc1.weight"
GENERATION, VOCABULARY = "generation_config.json", "vocab.json"
MARIAN: Faults = {
    "a billion layers": (edit(CONFIG, encoder_layers=BILLION), "parameters; at most"),
    "many tiny layers": (edit(CONFIG, decoder_layers=9_000, d_model=4, encoder_attention_heads=1,
                              decoder_attention_heads=1, decoder_ffn_dim=1, encoder_ffn_dim=1),
                         "at most 200"),
    "a huge table": (edit(CONFIG, max_position_embeddings=10**12), "table of more than"),
    "another family": (edit(CONFIG, model_type="bart"), "model_type='bart'"),
    "pre-norm": (edit(CONFIG, normalize_before=True), "normalize_before=True"),
    "an activation": (edit(CONFIG, activation_function="tanh"), "relu, gelu, swish, silu"),
    "a size as text": (edit(CONFIG, d_model="24"), "d_model='24'"),
    "heads that do not fit": (edit(CONFIG, encoder_attention_heads=5), "multiple of"),
    "eos as text": (edit(CONFIG, eos_token_id="0"), "eos_token_id='0'"),
    "a key twice": (twice(CONFIG, "d_model"), r"config\.json: .*'d_model' occurs tw"),
    "vocabulary cut": (cut(VOCABULARY, 0.7), r"vocab\.json: not valid JSON"),
    "a piece more": (edit(VOCABULARY, extra=999), r"vocab\.json: \d+ pieces, but config\.json"),
    "ids twice": (edit(VOCABULARY, **{">>fra<<": 5, ">>deu<<": 5}), r"vocab\.json: its"),
    "an id beyond": (edit(VOCABULARY, **{">>fra<<": 10**6}), r"vocab\.json: "),
    "a flag": (edit(VOCABULARY, **{">>fra<<": True}), r"vocab\.json: expected"),
    "half a character": (edit(VOCABULARY, **{">>fra<<": ..., "\ud800": 5}), r"vocab\.json: holds"),
    "a list of pieces": (write(VOCABULARY, b'["a"]'), r"vocab\.json: expected"),
    "other pieces": (rewrite(VOCABULARY, lambda ids: {
        p if p in ("<pad>", "</s>", "<unk>") else f"x{i}": i for p, i in ids.items()}),
        r"source\.spm: only 0 of .* belong to different models"),
    "no <unk>": (edit(VOCABULARY, **{"<unk>": ...}), r"vocab\.json: <unk> is missing"),
    "no source.spm": (remove("source.spm"), r"source\.spm: the file is missing"),
    "a piece that is not text": (not_text("source.spm"), r"source\.spm: not a SentencePiece model"),
    "no weights": (remove(WEIGHTS), r"model\.safetensors: the file is missing"),
    "another width": (edit(CONFIG, encoder_ffn_dim=48), r"has shape .*config\.json requires"),
    "a tensor less": (weights(lambda s: s.pop(FC)), f"{FC}' is missing"),
    "a tensor more": (weights(lambda s: s.update(x=torch.ones(1))), "'x' does not belong"),
    "ties that differ": (weights(lambda s: s.update({
        "lm_head.weight": s["model.decoder.embed_tokens.weight"] + 1})), "differ, but config"),
    "an index that is none": (
        lambda f: (f / WEIGHTS).rename(f / "model.safetensors.index.json"),
        r"model\.safetensors\.index\.json: not "),
    "a sampling tokenizer": (edit(TOKENIZER_SETTINGS, sp_model_kwargs={"alpha": 0.1}),
                             r"tokenizer_config\.json: sp_model_kwargs="),
    "another end of text": (edit(TOKENIZER_SETTINGS, eos_token="<end>"),
                            r"tokenizer_config\.json: eos_token='<end>' is not '</s>'"),
    "another unknown": (edit("special_tokens_map.json", unk_token={"content": "?"}),
                        r"special_tokens_map\.json: unk_token="),
    "an added token elsewhere": (
        in_turn(remove(TOKENIZER_SETTINGS), edit("added_tokens.json", **{">>fra<<": 3})),
        r"added_tokens\.json: .*'>>fra<<' is 3"),
    "an added token that is none": (edit(TOKENIZER_SETTINGS, added_tokens_decoder={"x": {}}),
                                    r"tokenizer_config\.json: .*is not an added token"),
    "an added token of one word": (
        edit(TOKENIZER_SETTINGS, added_tokens_decoder={"9": {"content": "q", "single_word": True}}),
        r"tokenizer_config\.json: .*single_word"),
    "no target pieces": (
        edit(CONFIG, decoder_vocab_size=0, share_encoder_decoder_embeddings=True),
        "decoder_vocab_size=0"),
    "one number for all": (
        repeated("pytorch_model.bin", 4_000_000, "encoder_ffn_dim", "decoder_ffn_dim"),
        r"bin: .* bytes are too few for the .* numbers"),
}  # fmt: skip


@damaging
def args(folder: Path, **changes: Any) -> None:
    """Change settings in a fairseq model; `...` removes a setting."""

    def change(values: dict[str, Any]) -> None:
        settings = values["cfg"]["model"]
        kept = vars(settings) | changes
        settings.__dict__ = {name: value for name, value in kept.items() if value is not ...}

    content(change)(folder)


def cfg(**changes: object) -> Damage:
    return content(lambda values: values["cfg"].update(changes))


model = partial(state_in, "model")
joey = partial(state_in, "model_state")
config = partial(edit, "config.yaml")
F_FC = "encoder.layers.0.fc1.weight"
BOTH = ("dict.en.txt", "dict.de.txt")
FAIRSEQ: Faults = {
    "a size of nothing": (args(encoder_ffn_embed_dim=0), "encoder_ffn_embed_dim=0"),
    "widths that differ": (args(decoder_embed_dim=48), "is not encoder_embed_dim=24"),
    "half pre-norm": (args(encoder_normalize_before=True), "as encoder_normalize_before=True"),
    "layer norm on embeddings": (args(layernorm_embedding=True), "layernorm_embedding=True"),
    "an adaptive softmax": (args(adaptive_softmax_cutoff=[5, 9]), "adaptive_softmax_cutoff"),
    "a flag as text": (args(no_scale_embedding="no"), "no_scale_embedding='no'"),
    "dropout": (args(dropout=float("nan")), "dropout=nan"),
    "no settings": (content(lambda c: c.update(cfg=None)), "no settings of a model"),
    "no weights": (content(lambda c: c.pop("model")), "'model' is not a state dict"),
    "weights that are none": (model(lambda s: s.update(x="y")), "'model' is not a state dict"),
    "a sparse tensor": (model(lambda s: s.update({F_FC: s[F_FC].to_sparse()})),
                        r"checkpoint_best\.pt: "),
    "a language as a path": (
        content(lambda c: setattr(c["cfg"]["task"], "source_lang", "../../x")), "source_lang="),
    "no file": (remove("checkpoint_best.pt"), r"checkpoint_best\.pt: the file is missing"),
    "several": (lambda f: shutil.copy((f / "checkpoint_best.pt").rename(f / "a.pt"), f / "b.pt"),
                r"several checkpoints \(a\.pt, b\.pt\)"),
    "no dictionary": (remove("dict.de.txt"), r"dict\.de\.txt: the file is missing"),
    "dictionaries that differ": (append("dict.de.txt", "more 1\n"), "pieces"),
    "another dictionary": (in_turn(*(append(each, "more 1\n") for each in BOTH)),
                           r"dict\.en\.txt: \d+ pieces"),
    "a piece twice": (in_turn(*(append(each, "madeupword0000 1\n") for each in BOTH)),
                      "a piece twice"),
    "a line that is none": (append("dict.en.txt", "nocount\n"), r"line \d+ is not a piece"),
    "a dictionary of bytes": (write("dict.en.txt", b"\xff\xfe 1\n"), r"dict\.en\.txt: not UTF-8"),
    "merges that are none": (write("bpe.codes", b"#version: 0.2\na b c\n"), r"bpe\.codes: line 2"),
    "merges of another model": (write("bpe.codes", b"#version: 0.2\nq x\nqx y\n"),
                                r"bpe\.codes: only 0 of the 2"),
    "two ways to cut": (write("spm.model", b"x"), r"spm\.model and bpe\.codes; keep"),
    "another cutter": (cfg(bpe={"_name": "gpt2"}), "bpe='gpt2' is not one of: sentencepiece"),
    "a cutter without its file": (cfg(bpe="sentencepiece"),
                                  r"bpe='sentencepiece' needs a model, spm\.model"),
    "another tokenizer": (cfg(tokenizer={"_name": "nltk"}), "tokenizer='nltk' is not one of: mos"),
    "many languages": (cfg(task={"_name": "translation_multi_simple_epoch"}),
                       "M2M100, NLLB and mBART open"),
    "a language model": (cfg(task={"_name": "language_modeling"},
                             model={"_name": "transformer_lm"}), "a language model without an enc"),
}  # fmt: skip


LAUGHS = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefg")
)
JOEYNMT: Faults = {
    "a recurrent model": (config("model", "encoder", type="recurrent"), "type='recurrent'"),
    "activations that differ": (config("model", "decoder", activation="gelu"), "the encoder's"),
    "norms that differ": (config("model", "decoder", layer_norm="post"), "the encoder's 'pre'"),
    "a weighted sum": (config("model", "encoder", alpha=1.4), "alpha=1.4"),
    "widths that differ": (config("model", "decoder", hidden_size=48), "hidden_size=24"),
    "scales that differ": (config("model", "decoder", "embeddings", scale=False), "scale=False"),
    "no model": (config(model=3), "model=3 is not a group"),
    "ids twice": (config("data", "special_symbols", pad_id=2), "different from the other"),
    "an id elsewhere": (config("data", "special_symbols", eos_id=40), "is not piece"),
    "a language as a path": (config("data", "src", lang="../en",
                                    tokenizer_cfg={"model_file": "x", "pretokenizer": "moses"}),
                             "lang='../en'"),
    "a cutter": (config("data", "src", tokenizer_type="wordpiece"), "sentencepiece, subword-nmt"),
    "a cutter without a file": (config("data", "src", tokenizer_cfg={"alpha": 1}), "model_file="),
    "a path that is none": (config("data", "src", tokenizer_cfg={"model_file": "a/.."}),
                            "names no file"),
    "a model elsewhere": (config("data", "src", tokenizer_cfg={"model_file": "/etc/passwd"}),
                          r"passwd: the file is missing"),
    "a level": (config("data", "src", level="byte"), "word, bpe, char"),
    "tags that are none": (config("data", "special_symbols", lang_tags=3), "lang_tags"),
    "no config": (remove("config.yaml"), r"config\.yaml: the file is missing"),
    "not YAML": (write("config.yaml", b"a: [1,"), r"config\.yaml: not valid YAML"),
    "YAML with code": (write("config.yaml", b"a: !!python/object/apply:os.getcwd []"), "not valid"),
    "YAML that unfolds": (write("config.yaml", LAUGHS.encode()), "more than 20,000 values"),
    "YAML within itself": (write("config.yaml", b"a: &a\n  b: *a\n"), "more than 20,000 values"),
    "no file": (remove("7.ckpt"), r"best\.ckpt: the file is missing"),
    "no last norm": (joey(lambda s: [s.pop(f"encoder.layer_norm.{each}")
                                        for each in ("weight", "bias")]), "layer_norm='pre'"),
    "positions": (joey(lambda s: s["encoder.pe.pe"].fill_(torch.nan)), "pe' holds NaN"),
    "positions of a shape": (joey(lambda s: s.update({"encoder.pe.pe": torch.ones(3)})),
                             r"requires \[1, 1, 24\]"),
    "another vocabulary": (append("trg_vocab.txt", "more\n"), r"trg_vocab\.txt: \d+ pieces"),
    "a setting of the cutter": (config("data", "src", "tokenizer_cfg", glossaries=["<ent>"]),
                                r"tokenizer_cfg\.glossaries=\['<ent>'\] is not supported"),
    "a model of another": (lambda f: (f / "sp.en.model").write_bytes(
        (f / "sp.de.model").read_bytes()[:200]), r"sp\.en\.model: "),
}  # fmt: skip

PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@damaging
def place(folder: Path, file: object) -> None:
    placed = json.loads((folder / INDEX).read_text())["weight_map"]
    edit(INDEX, "weight_map", **{min(placed): file})(folder)


def poison(folder: Path) -> None:
    state = safetensors.torch.load_file(folder / PARTS[1])
    state[min(state)].view(-1)[0] = float("nan")
    safetensors.torch.save_file(state, folder / PARTS[1])


#: Weights in two files.
SHARDS: Faults = {
    "a way out": (place("../../secret.safetensors"), r"index\.json: '\.\./\.\./secret"),
    "a hidden file": (place(".x.safetensors"), "is not the name of a"),
    "another kind": (place("pytorch_model.bin"), "is not the name of a .safetensors file"),
    "a number": (place(3), "3 is not the name of a"),
    "a line break": (place("a\nb.safetensors"), "is not the name of a"),
    "no map": (edit(INDEX, weight_map=None), "does not map tensors to files"),
    "an empty map": (edit(INDEX, weight_map={}), "does not map tensors to files"),
    "too many": (edit(INDEX, weight_map={str(i): f"{i}.safetensors" for i in range(101)}),
                 "101 files; at most 100"),
    "the other file": (place(PARTS[1]), r"00001-of-00002\.safetensors: .*does not list tensor '"),
    "a file less": (remove(PARTS[1]), r"00002\.safetensors: the file is missing"),
    "half copied": (cut(PARTS[1], 0.9), r"00002\.safetensors: not a whole"),
    "NaN": (poison, r"model-00002-of-00002\.safetensors: tensor .* holds NaN"),
}  # fmt: skip


#: A model of the `transformers` library.
BART: Faults = {
    "code of its own": (edit(CONFIG, auto_map={"AutoConfig": "evil.Config"}), "auto_map requires"),
    "code further in": (edit(CONFIG, text_config={"auto_map": {"AutoModel": "a.B"}}), "auto_map"),
    "a tokenizer's code": (edit(TOKENIZER_SETTINGS, auto_map={"AutoTokenizer": ["evil.T", None]}),
                           r"tokenizer_config\.json: auto_map requires"),
    "a billion layers": (edit(CONFIG, encoder_layers=10**9), "encoder_layers=1,000,000,000"),
    "a billion heads": (edit(CONFIG, encoder_attention_heads=10**9), "at most 10,000 are"),
    "many parameters": (edit(CONFIG, d_model=60_000, encoder_ffn_dim=100_000),
                        "exceeds the limit|shape"),
    "more than is stored": (edit(CONFIG, max_position_embeddings=900_000),
                            "has shape|parameters, but the weights"),
    "an infinite number": (edit(CONFIG, dropout=float("inf")), "dropout=inf is not a finite"),
    "no type": (edit(CONFIG, model_type=...), "model_type is missing"),
    "an unknown type": (edit(CONFIG, model_type="<b>nonsense</b>"), "is not one that the transf"),
    "no text": (write(CONFIG, b'{"model_type": "whisper"}'),
                r"'whisper' reads input features and no tokens; it is not supp.*\(BERT, T5\w+\)$"),
    "none of the families": (write(CONFIG, b'{"model_type": "dpr"}'), "'dpr' is not supported"),
    "quantised": (edit(CONFIG, quantization_config={"quant_method": "bitsandbytes"}), "quantised"),
    **{
        f"windows of {kind}": (edit(CONFIG, model_type=kind, **{setting: value}),
                               f"{setting}=.* is attention in windows")
        for kind, setting, value in (
            ("led", "attention_window", [4, 4, 4]), ("longformer", "attention_window", 8),
            ("longt5", "local_radius", 5), ("pegasus_x", "block_size", 8),
        )
    },
    "heads that do not fit": (edit(CONFIG, encoder_attention_heads=4), r"config\.json: no model"),
    "a layer less": (edit(CONFIG, encoder_layers=2), "'model.encoder.layers.2.* does not belong"),
    "no config": (remove(CONFIG), r"config\.json: the file is missing"),
    "no weights": (remove(WEIGHTS), r"model\.safetensors: the file is missing"),
    "NaN": (weights(lambda s: s[FC].view(-1).__setitem__(3, float("nan"))), f"{FC}.* holds NaN"),
    "a tensor less": (weights(lambda s: s.pop(FC)), f"{FC}' is missing"),
    "a shape": (weights(lambda s: s.update({FC: s[FC][:5].clone()})), f"{FC}' has shape"),
    "complex": (weights(lambda s: s.update({FC: s[FC].double()})), "stored as F64"),
    "whole numbers": (weights(lambda s: s.update({FC: s[FC].int()})), "is missing"),
    "no tokenizer": (lambda f: [remove(n)(f) for n in ("tokenizer.json", TOKENIZER_SETTINGS)],
                     "tokenizer's files are missing"),
    "tokenizer cut": (cut("tokenizer.json", 0.6), "the tokenizer cannot be read"),
    "tokenizer that lengthens": (edit("tokenizer.json", normalizer={
        "type": "Replace", "pattern": {"String": "a"}, "content": "b" * 99}), "lengthen a text"),
    "tokenizer a list": (write("tokenizer.json", b"[1]"), "the tokenizer cannot be read"),
    "settings cut": (cut(TOKENIZER_SETTINGS, 0.6), r"tokenizer_config\.json: not valid JSON"),
}  # fmt: skip


#: An imported checkpoint, whose tokenizer has a table of pieces.
TABLE: Faults = {
    "half a million pieces": (
        rewrite(PIECES, lambda _: [f"piece {index}" for index in range(500_000)]),
        r"vocabulary\.json"),
    "a piece twice": (rewrite(PIECES, lambda old: [*old[:-1], old[0]]), "holds a piece twice"),
    "no list": (write(PIECES, b'{"a": 1}'), r"vocabulary\.json: expected a JSON list"),
}  # fmt: skip

#: A model of one stack.
STACK: Faults = {
    "fewer layers": (edit(CONFIG, n_layers=2), "does not belong to this model"),
    "more layers": (edit(CONFIG, n_layers=4), "is missing"),
    "another width": (edit(CONFIG, d_ff=41), r"config\.json requires"),
    "another vocabulary": (edit(CONFIG, vocab_size=109), "110 pieces"),
    "another task": (edit(CONFIG, task="fill"), r"no piece \[MASK\]"),
    "too many layers": (edit(CONFIG, n_layers=10**6), "at most"),
    "NaN": (weights(poke("layers.0.feed_forward.w_1.weight", float("nan"))), "NaN"),
}  # fmt: skip

FAULTS: dict[str, Faults] = {
    "own": OWN, "table": TABLE, "stack": STACK, "marian": MARIAN, "fairseq": FAIRSEQ,
    "joeynmt": JOEYNMT, "shards": SHARDS, "bart": BART,
    "joeynmt merges": {"merges of another": (
        write("codes.de", b"#version: 0.2\nq x\nqx y\n"), r"codes\.de: only 0 of the 2 pieces")},
    "fairseq apart": {"no model of pieces": (
        in_turn(remove("spm.en.model"), remove("spm.de.model")),
        r"dict\.de\.txt: these are SentencePiece pieces")},
}  # fmt: skip
