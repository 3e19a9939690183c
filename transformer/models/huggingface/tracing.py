"""Traces of a model of the `transformers` library: a search or a target, then one pass."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer.files.safe import one_line
from transformer.models.huggingface.building import Family
from transformer.models.huggingface.generate import Generated, Generation, generate
from transformer.models.huggingface.tokenizer import HubTokenizer, TokenizedText
from transformer.search.inputs import checked_new_tokens, checked_whole
from transformer.search.reader import EXTRA_LENGTH, Ids
from transformer.trace.building import NO_PREDICTIONS, build_trace, penalties, predictions, to_array
from transformer.trace.records import Trace
from transformer.types import (
    AttentionKind,
    CheckpointError,
    Floats,
    InputError,
    Report,
    literals,
    map_sizes,
)

#: Largest deviation of a row's sum from 1.
ROW_TOLERANCE = 1e-3
#: Memory limit of a trace, and of a search.
MAX_BYTES = 2 * 2**30

#: Map names in the library's output.
OUTPUTS: dict[Family, dict[AttentionKind, str]] = {
    "encoder_decoder": {
        "encoder_self": "encoder_attentions",
        "decoder_self": "decoder_attentions",
        "cross": "cross_attentions",
    },
    "decoder": {"decoder_self": "attentions"},
    "encoder": {"encoder_self": "attentions"},
}
KINDS = {family: tuple(outputs) for family, outputs in OUTPUTS.items()}


@dataclass(frozen=True, eq=False)
class PassOutput:
    """The output of one pass."""

    maps: dict[AttentionKind, Floats]  # by kind, [L, H, queries, keys]
    logits: Tensor | None  # [T, V] on the model's device, or None without a decoder


@literals
def run(
    model: Any, family: Family, name: str, src: Sequence[int], tgt: Sequence[int]
) -> PassOutput:
    """Run one pass over a source and a target, either of them empty, and return every map.

    Raises: `CheckpointError` unless the model returns maps whose rows sum to 1.
    """
    ids = torch.tensor([list(src or tgt)], device=model.device)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if family == "encoder_decoder":
        inputs["decoder_input_ids"] = torch.tensor([list(tgt)], device=model.device)
    if family != "encoder":
        inputs["use_cache"] = False
    try:
        output = model(**inputs, output_attentions=True, return_dict=True)
    except Exception as error:  # noqa: BLE001 - the library may raise anything
        raise CheckpointError(f"{name}: the model cannot be run ({one_line(error)})") from None
    sizes = map_sizes(len(src), len(tgt))
    maps = {
        kind: _stacked(getattr(output, attribute, None), name, kind, *sizes[kind])
        for kind, attribute in OUTPUTS[family].items()
    }
    return PassOutput(maps, None if family == "encoder" else output.logits[0].float())


def _stacked(layers: Any, name: str, kind: AttentionKind, n_queries: int, n_keys: int) -> Floats:
    """Return the maps of one sentence, [L, H, queries, keys], checked."""
    what = kind.replace("_", " ")
    if not layers or any(layer is None for layer in layers):
        raise CheckpointError(f"{name}: the library gives no {what} attention for this model")
    shapes = [tuple(getattr(layer, "shape", ())) for layer in layers]
    if len(set(shapes)) > 1 or shapes[0][:1] + shapes[0][2:] != (1, n_queries, n_keys):
        odd = next((shape for shape in shapes if shape[2:] != (n_queries, n_keys)), shapes[-1])
        raise CheckpointError(
            f"{name}: {what} attention of shape {list(odd)} is not a map of {n_queries} queries "
            f"and {n_keys} keys for each head, the same number of heads in every layer"
        )
    maps = to_array(torch.cat(list(layers)))
    if not np.isfinite(maps).all() or np.abs(maps.sum(-1) - 1).max() > ROW_TOLERANCE:
        raise CheckpointError(
            f"{name}: rows of {what} attention do not sum to 1, so they cannot be shown as weights"
        )
    if kind == "decoder_self" and np.triu(maps, 1).any():
        raise CheckpointError(
            f"{name}: {what} attention has weight on later tokens, so this is not a decoder"
        )
    return maps


def position_limits(model: Any) -> Iterator[int]:
    """Yield limits on positions, from the config and learned position tables."""
    declared = getattr(model.config, "max_position_embeddings", None)
    if type(declared) is int and declared > 0:
        yield declared
    for name, module in model.named_modules():
        table = name.rpartition(".")[2] in ("embed_positions", "position_embeddings", "wpe")
        if table and isinstance(module, torch.nn.Embedding):
            # RoBERTa counts positions from the id after padding, BART and OPT from 2.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            offset = getattr(module, "offset", first)
            yield module.num_embeddings - (offset if type(offset) is int else first)


def _check_bytes(what: str, n_bytes: int, less: str = "") -> None:
    if n_bytes > MAX_BYTES:
        raise InputError(
            f"{what} could take {n_bytes / 2**30:.1f} GiB; at most {MAX_BYTES / 2**30:g} GiB are "
            f"allowed, so take {less}a shorter sentence"
        )


class Tracing:
    """Run the model of a `transformer.models.huggingface.model.HuggingFaceModel`."""

    family: Family
    name: str
    path: Path | None
    max_tokens: int
    _model: Any
    _text: HubTokenizer
    _generation: Generation
    _output: PassOutput  # of any pass, for depths and heads

    def _probe(self) -> PassOutput:
        """Run a first pass, so that opening a model without usable maps fails."""
        try:
            ids = self._text.cut("a", self.max_tokens).ids
            if not ids:
                raise InputError("the tokenizer returns no tokens for 'a'")
        except InputError as error:
            raise CheckpointError(f"{self.path or self.name}: {error}") from None
        with torch.inference_mode():
            if self.family == "decoder":
                return self._run((), ids)
            start = self._generation.start
            return self._run(ids, () if start is None else (start,))

    def _run(self, src: tuple[int, ...], tgt: tuple[int, ...]) -> PassOutput:
        return run(self._model, self.family, self.name, src, tgt)

    def _check_memory(self, n_src: int, n_tgt: int) -> None:
        """Raise `InputError` for a trace that could exceed `MAX_BYTES`."""
        sizes, numbers = map_sizes(n_src, n_tgt), n_tgt * self._text.sizes[1]
        for kind, maps in self._output.maps.items():
            numbers += maps[:, :, 0, 0].size * math.prod(sizes[kind])
        _check_bytes(f"the maps of {n_src} source and {n_tgt} target tokens", 4 * numbers)

    def _check_search(self, beam_size: int, n_before: int, new_tokens: int) -> None:
        """Raise `InputError` for a search whose cache and scores could exceed `MAX_BYTES`."""
        config = self._model.config.get_text_config(decoder=True)
        n_layers, n_heads = self._output.maps["decoder_self"].shape[:2]
        sizes = (getattr(config, name, None) or 0 for name in ("d_kv", "head_dim"))
        width = max(getattr(config, "hidden_size", 0), n_heads * max(sizes))
        # Keys and values of every token, and the scores before and after the processors.
        numbers = 2 * n_layers * (n_before + new_tokens) * width + 4 * self._text.sizes[1]
        if self.family == "decoder":  # the first step is a pass over the text, for every beam
            numbers += 2 * n_heads * n_before**2
        what = f"beam size {beam_size} over {n_before} and {new_tokens} more tokens"
        _check_bytes(what, 4 * beam_size * numbers, "a smaller beam or ")

    def _continue(
        self,
        source: TokenizedText,
        new_tokens: int,
        generation: Generation,
        progress: Report | None,
        top_k: int,
    ) -> Trace:
        """Trace a decoder-only model after it has continued the text, if asked to."""
        ids = source.ids
        if new_tokens:
            new_tokens = checked_new_tokens(new_tokens, len(ids), self.max_tokens)
        self._check_memory(0, len(ids) + new_tokens)
        found = self._generate(generation, ids, new_tokens, progress) if new_tokens else None
        ids += () if found is None else found.ids
        return self._record(
            TokenizedText(source.text, (), (), (), ()), ids, ids[1:], top_k,
            written=source.pieces, found=found, alpha=generation.decoding.alpha if found else 0.0,
            text=self._text.decode(ids), forced=not new_tokens, n_forced=len(source.ids) - 1,
        )  # fmt: skip

    def _translate(
        self,
        source: TokenizedText,
        target: str | Ids | None,
        max_length: int | None,
        tgt_lang: str | None,
        generation: Generation,
        progress: Report | None,
        top_k: int,
    ) -> Trace:
        if tgt_lang is not None:  # its token is the first input or output
            token = self._text.languages[tgt_lang]
            sample = self._text.cut("a", self.max_tokens, target=True, tgt_lang=tgt_lang).ids
            # mBART's targets end with the language, and its decoder starts from it.
            starts = sample[-1] == token and self._model.config.model_type in ("mbart", "plbart")
            change = {"start": token, "forced_first": None} if starts else {"forced_first": token}
            generation = replace(generation, **change)
        start, first, limit = generation.start, generation.forced_first, 0
        written: tuple[str, ...] = ()
        assert start is not None
        found = None
        if target is None:
            limit = len(source.ids) + EXTRA_LENGTH
            if max_length is not None:
                limit = checked_whole("max_length", max_length)
            limit = min(limit, self.max_tokens)
            self._check_memory(len(source.ids), limit)
            found = self._generate(generation, source.ids, limit, progress)
            predicted = found.ids
        else:
            predicted, written = self._given(target, tgt_lang, first)
            self._check_memory(len(source.ids), len(predicted))
        n_fixed = int(first is not None and predicted[0] == first)
        trace = self._record(
            source, (start, *predicted[:-1]), predicted, top_k, found=found,
            written=(*self._text.shown((start,)), *written),
            alpha=generation.decoding.alpha, unscored=n_fixed, text=self._text.decode(predicted),
            penalties=penalties(generation.decoding.penalty, len(predicted)),
            complete=predicted[-1] in generation.eos, forced=target is not None,
            n_forced=n_fixed if target is None else len(predicted),
        )  # fmt: skip
        if len(predicted) == limit and "forced_eos_token_id" in generation.rules:
            cut = trace.complete and int(trace.top_ids[-1, 0]) not in generation.eos
            trace = replace(trace, complete=trace.complete and not cut, forced_end=cut)
        return trace

    def _record(
        self,
        source: TokenizedText,
        tgt_ids: tuple[int, ...],
        predicted: tuple[int, ...],
        top_k: int = 1,
        *,
        found: Generated | None = None,
        alpha: float = 0.0,
        unscored: int = 0,
        **rest: Any,
    ) -> Trace:
        """Record one pass.

        Args:
            source: the encoder's input; without tokens if there is no encoder.
            tgt_ids: [T], the decoder's input.
            predicted: [T], the tokens that follow; the last defaults to the most probable.
            found: the search's result, with the log-probabilities of its tokens.
            alpha: the score is log P / n^alpha, of a search's result or all n tokens.
            unscored: number of first predictions that the model does not make.
        """
        output, steps = self._run(source.ids, tgt_ids), NO_PREDICTIONS
        if output.logits is not None:
            own = [int(output.logits[-1].argmax())] if len(predicted) < len(tgt_ids) else []
            steps = predictions(output.logits.log_softmax(-1), (*predicted, *own), top_k)
            steps.log_probs[:unscored] = 0
        log_prob, length = steps.log_prob(), max(len(steps.ids), 1)
        if found is not None and output.logits is not None:
            first, length = len(predicted) - len(found.ids), len(found.ids)
            log_probs = found.log_probs(
                output.logits[first : first + length], (*tgt_ids[: first + 1], *found.ids)
            )
            log_prob = float(log_probs.sum(dtype=torch.float64))
            steps.log_probs[first : first + length] = to_array(log_probs)
        return build_trace(
            self._text, output.maps, tgt_ids, steps,
            source=source.text, src_tokens=source.pieces, src_ids=source.ids,
            src_unknown=source.unknown, src_special=source.special,
            tgt_special=self._text.special(tgt_ids),
            score=log_prob / length**alpha, **rest,
        )  # fmt: skip

    def _generate(
        self, generation: Generation, ids: Sequence[int], new_tokens: int, progress: Report | None
    ) -> Generated:
        n_layers = len(self._output.maps["decoder_self"])
        self._check_search(generation.decoding.beam_size, len(ids), new_tokens)
        return generate(self._model, self.name, generation, ids, new_tokens, progress, n_layers)

    def _given(
        self, target: str | Ids, tgt_lang: str | None, first: int | None
    ) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Return the ids of the target that the decoder predicts, and pieces of the first ones."""
        if isinstance(target, str):
            text = self._text.cut(target, self.max_tokens, target=True, tgt_lang=tgt_lang)
        else:
            text = self._text.of_ids(target, self.max_tokens, target=True)
        ids, pieces = text.ids, text.pieces
        if tgt_lang is not None:
            if ids[-1] == self._text.languages[tgt_lang]:
                ids, pieces = ids[:-1], pieces[:-1]
            if first is not None and ids[:1] != (first,):
                ids, pieces = (first, *ids), (*self._text.shown((first,)), *pieces)
        if self._generation.eos and ids[-1] not in self._generation.eos:
            ids = (*ids, self._generation.eos[0])
        if len(ids) > self.max_tokens:
            raise InputError(
                f"the target has {len(ids):,} tokens; at most {self.max_tokens} are allowed"
            )
        return ids, pieces
