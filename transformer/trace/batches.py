"""Batches of sentences, translated, or traced along a search or a target."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from transformer.execution import Begin, Execution, Executions
from transformer.hooks import Hook, as_hooks
from transformer.model import Encoded
from transformer.search import request as requests
from transformer.search.beam import Found, search
from transformer.search.reader import Ids, Source
from transformer.search.records import NO_TRANSLATION, Translation
from transformer.trace.building import padded, trace_search, trace_targets
from transformer.trace.records import Trace
from transformer.trace.stream import with_states
from transformer.trees.grammar import Symbols, TreeGrammar


@dataclass(frozen=True)
class Batches:
    """Runs sentences of similar length together. It keeps no state between calls."""

    executions: Executions
    symbols: Symbols | None  # a parser's symbols; its output must be a tree of its source

    def translate(
        self, sources: Sequence[Source], request: requests.SearchRequest, hooks: Hook | None,
        progress: requests.Progress | None,
    ) -> list[Translation]:  # fmt: skip
        """Search for translations of sources; a blank source has an empty translation.

        Args: progress: called with (sentences done, all sentences) after each batch.
        """
        decode = request.reader.tokenizer.target.decode

        def run(batch: Sequence[int]) -> list[Translation]:
            execution = self.executions.choose(hooks, batch, len(sources))
            chosen = [sources[index] for index in batch]
            _, results = self._search(execution, chosen, request)
            return [
                Translation.of(result.hypotheses[0], decode, source.unknown_text)
                for source, result in zip(chosen, results, strict=True)
            ]

        lengths, n_rows = [len(source.ids) for source in sources], request.settings.beam_size
        return requests.by_batches(lengths, n_rows, run, progress, blank=NO_TRANSLATION)

    def trace(
        self, sentences: Iterable[str | Ids], targets: Iterable[str | Ids] | None, request:
        requests.SearchRequest, hooks: Hook | None, progress: requests.Progress | None = None,
    ) -> list[Trace]:  # fmt: skip
        """Trace sentences along their targets, or along a search if there are none.

        Args: progress: see `translate`.
        """
        sources, followed = request.read(sentences, targets)
        request.check_record(sources, followed)
        model, config = self.executions.model, request.reader.config

        def run(batch: Sequence[int]) -> list[Trace]:
            execution = self.executions.choose(hooks, batch, len(sources))
            chosen = [sources[index] for index in batch]
            if followed is None:
                encoded, searched = self._search(execution, chosen, request)
                traces = [
                    trace_search(source, encoded, result, request, index=index)
                    for index, (source, result) in enumerate(zip(chosen, searched, strict=True))
                ]
            else:
                n_layers = config.n_encoder_layers + config.n_decoder_layers
                begin = requests.layer_progress(request.progress, n_layers)
                rows = [followed[index] for index in batch]
                with torch.inference_mode():
                    encoded = self._encode(execution, chosen, begin, request.maps)
                    traces = list(trace_targets(execution, chosen, encoded, rows, request, begin))
            own = None if hooks is None else as_hooks(hooks).for_rows(batch)
            return with_states(model, traces, request.states, own)

        lengths, n_rows = [len(source.ids) for source in sources], request.settings.beam_size
        if followed is not None:
            lengths = list(map(max, lengths, (len(target.ids) for target in followed)))
            n_rows = -(-requests.BATCH_TOKENS * config.target_vocab_size // requests.MOST_LOGITS)
        return requests.by_batches(lengths, n_rows, run, progress)

    def _search(
        self, execution: Execution, sources: Sequence[Source], request: requests.SearchRequest
    ) -> tuple[Encoded, list[Found]]:
        """Search a batch, with attention if the request records it."""
        record, progress = request.settings.record and request.maps, request.progress
        limits = [request.limit(source) for source in sources]
        begin = None if progress is None else partial(progress, 0, max(limits))
        spell, forced, grammars = request.reader.tokenizer.target.shown, request.forced, None
        if self.symbols is not None:  # the possible trees of each source
            grammars = [TreeGrammar(self.symbols, source.ids[:-1]) for source in sources]

        def piece(token: int, before: int, step: int) -> str:
            if step < len(forced.pieces):  # text outside the vocabulary has a name
                return forced.pieces[step]
            return spell((token,), None if before < 0 else before)[0]

        with torch.inference_mode():
            encoded = self._encode(execution, sources, begin, record)
            results = search(
                execution.steps(encoded, need_weights=record),
                limits,
                request.settings,
                prefixes=[forced.ids] * len(sources),
                src_lengths=[len(source.ids) for source in sources],
                grammars=grammars,
                piece=piece,
                progress=progress,
            )
        return encoded, results

    def _encode(
        self, execution: Execution, sources: Sequence[Source], begin: Begin | None, weights: bool
    ) -> Encoded:
        ids, model = (source.ids for source in sources), self.executions.model
        src = padded(ids, model.config.pad_id, model.generator.weight.device)  # [B, S]
        return execution.encode(src, need_weights=weights, begin=begin)
