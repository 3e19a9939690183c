"""Traces of a model of the `transformers` library: a search or a target, then one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from transformer.errors import CheckpointError, InputError
from transformer.models.huggingface.building import Family
from transformer.models.huggingface.generate import Generation, generate
from transformer.models.huggingface.passes import PassOutput, check_memory, run
from transformer.models.huggingface.tokenizer import HubTokenizer, TokenizedText
from transformer.search.inputs import checked_new_tokens, checked_whole
from transformer.search.reader import EXTRA_LENGTH, Ids
from transformer.trace.building import NO_PREDICTIONS, build_trace, predictions
from transformer.trace.records import Trace
from transformer.types import Report


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
                raise InputError("the tokenizer makes nothing of 'a'")
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
        check_memory(self._output, n_src, n_tgt, self._text.sizes[1])

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
        if new_tokens:
            ids += self._generate(generation, ids, new_tokens, progress)
        trace = self._record(
            TokenizedText(source.text, (), (), (), ()),
            ids,
            ids[1:],
            top_k,
            text=self._text.decode(ids),
            forced=not new_tokens,
            n_forced=len(source.ids) - 1,
        )
        n = len(source.ids)  # pieces of the text mark where words start
        return replace(
            trace,
            tgt_tokens=(*source.pieces, *trace.tgt_tokens[n:]),
            predicted_tokens=(*source.pieces[1:], *trace.predicted_tokens[n - 1 :]),
        )

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
        assert start is not None
        if target is None:
            limit = len(source.ids) + EXTRA_LENGTH
            if max_length is not None:
                limit = checked_whole("max_length", max_length)
            limit = min(limit, self.max_tokens)
            self._check_memory(len(source.ids), limit)
            predicted = self._generate(generation, source.ids, limit, progress)
        else:
            predicted = self._target_ids(target, tgt_lang, first)
            self._check_memory(len(source.ids), len(predicted))
        n_fixed = int(first is not None and predicted[0] == first)
        trace = self._record(
            source,
            (start, *predicted[:-1]),
            predicted,
            top_k,
            alpha=generation.decoding.alpha,
            unscored=n_fixed,
            text=self._text.decode(predicted),
            complete=predicted[-1] in self._generation.eos,
            forced=target is not None,
            n_forced=n_fixed if target is None else len(predicted),
        )
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
        alpha: float = 0.0,
        unscored: int = 0,
        **rest: Any,
    ) -> Trace:
        """Record one pass.

        Args:
            source: the encoder's input; without tokens if there is no encoder.
            tgt_ids: [T], the decoder's input.
            predicted: [T], the tokens that follow; the last defaults to the most probable.
            alpha: the score is log P / T^alpha.
            unscored: number of first predictions that do not count in log P.
        """
        output, steps = self._run(source.ids, tgt_ids), NO_PREDICTIONS
        if output.logits is not None:
            own = [int(output.logits[-1].argmax())] if len(predicted) < len(tgt_ids) else []
            steps = predictions(output.logits.log_softmax(-1), (*predicted, *own), top_k)
        return build_trace(
            self._text,
            output.maps,
            tgt_ids,
            steps,
            source=source.text,
            src_tokens=source.pieces,
            src_ids=source.ids,
            src_unknown=source.unknown,
            src_special=source.special,
            tgt_special=self._text.special(tgt_ids),
            score=steps.log_prob(unscored) / max(len(steps.ids), 1) ** alpha,
            **rest,
        )

    def _generate(
        self, generation: Generation, ids: Sequence[int], new_tokens: int, progress: Report | None
    ) -> tuple[int, ...]:
        n_layers = len(self._output.maps["decoder_self"])
        return generate(self._model, self.name, generation, ids, new_tokens, progress, n_layers)

    def _target_ids(
        self, target: str | Ids, tgt_lang: str | None, first: int | None
    ) -> tuple[int, ...]:
        """Return the target tokens that the decoder predicts."""
        if isinstance(target, str):
            ids = self._text.cut(target, self.max_tokens, target=True, tgt_lang=tgt_lang).ids
        else:
            ids = self._text.of_ids(target, self.max_tokens, target=True).ids
        if tgt_lang is not None:
            if ids[-1] == self._text.languages[tgt_lang]:
                ids = ids[:-1]
            if first is not None and ids[:1] != (first,):
                ids = (first, *ids)
        if self._generation.eos and ids[-1] not in self._generation.eos:
            ids = (*ids, self._generation.eos[0])
        if len(ids) > self.max_tokens:
            raise InputError(
                f"the target has {len(ids):,} tokens; at most {self.max_tokens} are allowed"
            )
        return ids
