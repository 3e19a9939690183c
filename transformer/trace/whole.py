"""All blocks of the model at work on one sentence, and batches of sentences."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from transformer.execution import Begin, Execution, Executions
from transformer.hooks import Hook, Name, Record, as_hooks
from transformer.layers import FeedForward
from transformer.model import Encoded, Transformer
from transformer.search import request as requests
from transformer.search.beam import Found, search
from transformer.search.reader import Ids, Source
from transformer.search.records import NO_TRANSLATION, Translation
from transformer.search.request import excluded
from transformer.text.tokenizer import Tokenizer
from transformer.trace.building import padded, to_array, trace_search, trace_targets
from transformer.trace.position_vectors import stack_input
from transformer.trace.records import StackName, Stream, Trace, Whole
from transformer.trace.stream import lens, neuron_parts, record_stream, stream_logits, with_states
from transformer.trees.grammar import Symbols, TreeGrammar
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools, Floats, Ints


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


#: Numbers of neurons for every token, and of tokens that every part of the decoder raises.
N_NEURONS, N_WORDS = 8, 4
#: Multiplications above which no part is read with the output matrix: about a second.
MOST_READING = 1e10

_NAMES: tuple[Name, ...] = ("q", "k", "v", "scores", "weights", "heads")
_STACKS: tuple[StackName, ...] = ("encoder", "decoder")


@torch.inference_mode()
def record_whole(model: Transformer, pieces: Tokenizer, trace: Trace) -> Whole:
    """Run a trace's tokens through the model again, and record every block.

    Args: pieces: the target's tokenizer.
    """
    record = Record(lambda site: site.name in _NAMES)
    stream = record_stream(model, trace, hooks=record)

    def values(name: Name) -> dict[AttentionKind, Floats]:
        return {kind: to_array(record.layers(kind, name)[:, 0]) for kind in ATTENTION_KINDS}

    q, k = values("q"), values("k")
    parts = {kind: _parts(model, record, kind) for kind in ATTENTION_KINDS}
    neurons: dict[StackName, Ints] = {
        name: np.argsort(-stream.stack(name).inner, axis=-1, kind="stable")[..., :N_NEURONS]
        for name in _STACKS
    }
    words, logits, own, tokens = _read(model, pieces, trace, stream, torch.cat([
        parts["decoder_self"].transpose(1, 2),
        parts["cross"].transpose(1, 2),
        torch.from_numpy(stream.decoder.outputs[:, -1:].copy()).transpose(1, 2).to(parts["cross"]),
        torch.stack([
            neuron_parts(cast("FeedForward", layer.feed_forward), inner, chosen)
            for layer, inner, chosen in zip(
                model.decoder, stream.decoder.inner, neurons["decoder"], strict=True)
        ]),
    ], dim=2))  # fmt: skip
    read = lens(model, trace, excluded=excluded(model.config))
    return Whole(
        stream, q, k, values("v"), _relative(model, q, k, values("scores")),
        head_norms={kind: to_array(part.norm(dim=-1)) for kind, part in parts.items()},
        held={kind: _held(record, kind) for kind in ATTENTION_KINDS},
        content={
            "encoder": stack_input(model, trace.src_ids, "source").content,
            "decoder": stack_input(model, trace.tgt_ids, "translation").content,
        },
        neurons=neurons, lens=read,
        lens_tokens=tuple(
            tuple(pieces.shown((int(index),))[0] for index in row) for row in read.top_ids
        ),
        words=words, logits=logits, own=own, tokens=tokens,
    )  # fmt: skip


def _parts(model: Transformer, record: Record, kind: AttentionKind) -> Tensor:
    """Return the parts of heads in their block's output, [L, H, n, d_model]."""
    layers = []
    for layer, heads in enumerate(record.layers(kind, "heads")[:, 0]):
        w_o = model.attention_block(kind, layer).w_o.weight  # [d_model, H d_v]
        n_heads, _, d_v = heads.shape
        layers.append(heads @ w_o.T.reshape(n_heads, d_v, -1))
    return torch.stack(layers)


def _read(
    model: Transformer, pieces: Tokenizer, trace: Trace, stream: Stream, parts: Tensor
) -> tuple[Ints, Floats, Floats, tuple[str, ...]]:
    """Read parts [L, T, P, d_model] of the decoder, and its blocks, with the output matrix."""
    layers, n, count, d_model = parts.shape
    v, chosen = model.config.target_vocab_size, min(N_WORDS, model.config.target_vocab_size)
    own = np.zeros((layers, n, len(stream.decoder.blocks)), np.float32)
    if layers * n * count * d_model * v > MOST_READING:
        nothing = np.zeros((layers, n, 0, chosen))
        return nothing.astype(np.int64), nothing.astype(np.float32), own[..., :0], ()
    ids = np.zeros((layers, n, count, chosen), np.int64)
    logits = np.zeros(ids.shape, np.float32)
    for layer, at in np.ndindex(layers, n):
        best = stream_logits(model, stream, layer, at, parts[layer, at]).topk(chosen)
        ids[layer, at], logits[layer, at] = best.indices.cpu().numpy(), to_array(best.values)
        outputs = torch.from_numpy(stream.decoder.outputs[layer, :, at]).to(parts)
        raised = stream_logits(model, stream, layer, at, outputs)
        own[layer, at] = to_array(raised[:, trace.predicted_ids[at]])
    unique, words = np.unique(ids, return_inverse=True)
    tokens = tuple(pieces.shown((int(index),))[0] for index in unique)
    return words.reshape(ids.shape), logits, own, tokens


def _relative(
    model: Transformer, q: dict[AttentionKind, Floats], k: dict[AttentionKind, Floats],
    scores: dict[AttentionKind, Floats],
) -> dict[AttentionKind, Floats]:  # fmt: skip
    kinds: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self")
    if model.config.positions != "relative":
        return {}
    return {
        kind: scores[kind] - q[kind] @ k[kind].swapaxes(-1, -2) / math.sqrt(q[kind].shape[-1])
        for kind in kinds
    }  # fmt: skip


def _held(record: Record, kind: AttentionKind) -> Bools:
    weights, v, heads = (record.layers(kind, name)[:, 0] for name in ("weights", "v", "heads"))
    away = (weights @ v - heads).abs().amax(dim=(-1, -2))
    held: Bools = (away > 1e-3 * heads.abs().amax().clamp(min=1e-6)).cpu().numpy()
    return held
