"""The settings of a fairseq checkpoint, checked, as a config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformer.config import ModelConfig, Tying
from transformer.errors import CheckpointError
from transformer.importers.settings import ACTIVATIONS, Settings, by_side, model_config
from transformer.importers.torch_content import plain

#: The special tokens that every dictionary begins with, and their ids.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_, PAD, EOS, UNK = range(4)

#: Settings whose values other than the default mean another architecture.
OTHER_MODELS = (
    "adaptive_softmax_cutoff", "adaptive_input", "layernorm_embedding", "no_cross_attention",
    "cross_self_attention", "no_token_positional_embeddings", "char_inputs", "base_layers",
    "no_decoder_final_norm", "encoder_layers_to_keep", "decoder_layers_to_keep",
    "tie_adaptive_proj", "tie_adaptive_weights", "quant_noise_pq", "encoder_xformers_att_config",
    "decoder_xformers_att_config",
)  # fmt: skip


def settings_of(path: Path, content: dict[str, Any]) -> Settings:
    """Return the settings of model and task side by side, whichever version wrote them.

    Versions up to 0.9 have one namespace "args". Later ones have groups in "cfg", of which the
    model's is a namespace or has its own groups for encoder and decoder.
    """
    groups = plain(content.get("cfg"))
    values: dict[str, Any] = {}
    if groups:
        for name in ("task", "model"):
            for key, value in plain(groups.get(name)).items():
                within = plain(value) if key in ("encoder", "decoder", "quant_noise") else None
                if within is None:
                    values[key] = value
                else:
                    values |= {f"{key}_{each}": given for each, given in within.items()}
        for name in ("bpe", "tokenizer"):
            group = plain(groups.get(name))
            values[name] = group.get("_name") if group else groups.get(name)
    values = plain(content.get("args")) | values
    # An unresolved reference stands for the default.
    values = {k: v for k, v in values.items() if not (isinstance(v, str) and v.startswith("${"))}
    if not values:
        raise CheckpointError(f"{path}: has no settings of a model ('cfg' or 'args')")
    return Settings(path, values)


def read_config(settings: Settings, n_source: int, n_target: int) -> ModelConfig:
    """Return the model's config. Raises `CheckpointError`, one line.

    Args: n_source, n_target: sizes of the dictionaries.
    """
    settings.refuse(*OTHER_MODELS)
    width = settings.whole("encoder_embed_dim", 512)
    for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
        if settings.values.get(name) is not None and settings.whole(name) != width:
            raise settings.error(name, f"encoder_embed_dim={width}")
    pre = settings.flag("encoder_normalize_before")
    if settings.flag("decoder_normalize_before") != pre:
        raise settings.error("decoder_normalize_before", f"as encoder_normalize_before={pre}")
    inner, heads = (settings.whole(f"encoder_{name}", least) for name, least in
                    (("ffn_embed_dim", 2048), ("attention_heads", 8)))  # fmt: skip
    decoder_inner = settings.whole("decoder_ffn_embed_dim", inner)
    decoder_heads = settings.whole("decoder_attention_heads", 8)
    learned = any(settings.flag(f"{stack}_learned_pos") for stack in ("encoder", "decoder"))
    longest = [max_positions(settings, side) for side in ("source", "target")]
    tying = _tying(settings)
    if tying == "all" and n_source != n_target:
        raise settings.error("share_all_embeddings", f"for {n_source:,} and {n_target:,} pieces")
    return model_config(settings.path, {
        **by_side(
            vocab_size=(n_source, n_target), n_heads=(heads, decoder_heads),
            d_ff=(inner, decoder_inner),
        ),
        "d_model": width,
        "n_encoder_layers": settings.whole("encoder_layers", 6),
        "n_decoder_layers": settings.whole("decoder_layers", 6),
        "dropout": settings.share("dropout", 0.1),
        "attention_dropout": settings.share("attention_dropout", 0.0),
        "activation": ACTIVATIONS[settings.choice("activation_fn", ACTIVATIONS, "relu")],
        "norm": "pre" if pre else "post",
        "positions": "learned" if learned else "sinusoidal",
        "position_layout": "concatenated",
        "position_frequencies": "endpoint",
        "position_offset": PAD + 1,
        # A learned table ends; of sinusoids this many are precomputed.
        "max_positions": min(longest) if learned else min(max(longest), 1024),
        "tie_embeddings": tying,
        "scale_embedding": not settings.flag("no_scale_embedding"),
        "attention_bias": True,
        "pad_id": PAD,
        "bos_id": EOS,  # the decoder starts from the end of the previous sentence
        "eos_id": EOS,
        "unk_id": UNK,
    })  # fmt: skip


def max_positions(settings: Settings, side: str) -> int:
    """Return the longest source or target that the model has positions for."""
    name = f"max_{side}_positions"
    return 1024 if settings.values.get(name) is None else settings.whole(name)


def _tying(settings: Settings) -> Tying:
    if settings.flag("share_all_embeddings"):
        return "all"
    return "decoder" if settings.flag("share_decoder_input_output_embed") else "none"
