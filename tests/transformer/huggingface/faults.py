"""Faults of a BART model as the `transformers` library stores it: the damage, and the message."""

from __future__ import annotations

import json
from pathlib import Path

from tests.transformer.damage import Damage, cut, edit, remove, weights, write

CONFIG, SETTINGS = "config.json", "tokenizer_config.json"
FC = "model.encoder.layers.0.fc1.weight"


def elsewhere(folder: Path) -> None:
    """An index that places a tensor outside the folder."""
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    written = json.dumps({"weight_map": {FC: "../../etc/model-1.safetensors"}})
    (folder / "model.safetensors.index.json").write_text(written)


BART: dict[str, tuple[Damage, str]] = {
    "code of its own": (edit(CONFIG, auto_map={"AutoConfig": "evil.Config"}), "auto_map asks for"),
    "code further in": (edit(CONFIG, text_config={"auto_map": {"AutoModel": "a.B"}}), "auto_map"),
    "a tokenizer's code": (edit(SETTINGS, auto_map={"AutoTokenizer": ["evil.T", None]}),
                           r"tokenizer_config\.json: auto_map asks for"),
    "a billion layers": (edit(CONFIG, encoder_layers=10**9), "encoder_layers=1,000,000,000"),
    "a billion heads": (edit(CONFIG, encoder_attention_heads=10**9), "at most 10,000 are"),
    "a billion labels": (edit(CONFIG, num_labels=10**9), "num_labels=1,000,000,000"),
    "many parameters": (edit(CONFIG, d_model=60_000, encoder_ffn_dim=100_000), "asks for|shape"),
    "a huge vocabulary": (edit(CONFIG, vocab_size=90_000_000), "has shape|asks for"),
    "more than is stored": (edit(CONFIG, max_position_embeddings=900_000),
                            "has shape|parameters, but the weights"),
    "no type": (edit(CONFIG, model_type=...), "model_type is missing"),
    "an unknown type": (edit(CONFIG, model_type="<b>nonsense</b>"), "is not one that the transf"),
    "no text": (write(CONFIG, b'{"model_type": "whisper"}'),
                r"'whisper' reads input features and no tokens; it is not supp.*\(BERT, T5\w+\)$"),
    "none of the families": (write(CONFIG, b'{"model_type": "dpr"}'), "'dpr' is not supported"),
    "quantised": (edit(CONFIG, quantization_config={"quant_method": "bitsandbytes"}), "quantised"),
    "heads that do not fit": (edit(CONFIG, encoder_attention_heads=4), r"config\.json: no model"),
    "another width": (edit(CONFIG, encoder_ffn_dim=24), r"has shape .*config\.json asks for"),
    "a layer less": (edit(CONFIG, encoder_layers=2), "'model.encoder.layers.2.* does not belong"),
    "a layer more": (edit(CONFIG, decoder_layers=2), "'model.decoder.layers.1.* missing"),
    "start outside": (edit("generation_config.json", decoder_start_token_id=10**6),
                      "decoder_start_token_id=1000000 is not a token"),
    "end as text": (edit("generation_config.json", eos_token_id="</s>"), "eos_token_id='</s>'"),
    "bad words": (edit("generation_config.json", bad_words_ids=[[5], ["x"]]), "bad_words_ids='x'"),
    "bad words nested": (edit("generation_config.json", bad_words_ids={"a": 1}), "bad_words_ids"),
    "no config": (remove(CONFIG), r"config\.json: the file is missing"),
    "no weights": (remove("model.safetensors"), r"model\.safetensors: the file is missing"),
    "NaN": (weights(lambda s: s[FC].view(-1).__setitem__(3, float("nan"))), f"{FC}.* holds NaN"),
    "a tensor less": (weights(lambda s: s.pop(FC)), f"{FC}' is missing"),
    "a shape": (weights(lambda s: s.update({FC: s[FC][:5].clone()})), f"{FC}' has shape"),
    "complex": (weights(lambda s: s.update({FC: s[FC].double()})), "stored as F64"),
    "whole numbers": (weights(lambda s: s.update({FC: s[FC].int()})), "is missing"),
    "no tokenizer": (lambda f: [remove(n)(f) for n in ("tokenizer.json", SETTINGS)],
                     "tokenizer's files are missing"),
    "tokenizer cut": (cut("tokenizer.json", 0.6), "the tokenizer cannot be read"),
    "tokenizer a list": (write("tokenizer.json", b"[1]"), "the tokenizer cannot be read"),
    "settings cut": (cut(SETTINGS, 0.6), r"tokenizer_config\.json: not valid JSON"),
    "index to elsewhere": (elsewhere, "is not the name of"),
}  # fmt: skip
