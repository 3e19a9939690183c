"""`Translator`: a checkpoint and its tokenizer on a device, for translation and inspection."""

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack, cast

from transformer.checkpoint.folder import Checkpoint, check_pieces, load_checkpoint, read_means
from transformer.checkpoint.reference import ModelRef
from transformer.device import Device, resolve_device
from transformer.edits.language import Edit, Edits, parse_edits
from transformer.edits.model import Means, edited, head_means
from transformer.execution import Executions
from transformer.hooks import Hook
from transformer.model import Transformer
from transformer.search.reader import EXTRA_LENGTH, Ids, Reader, Source
from transformer.search.records import Translation
from transformer.search.request import (
    PAPER_DECODING,
    Decoding,
    Progress,
    RecordOptions,
    SearchOptions,
    SearchRequest,
    default_decoding,
    default_extra_length,
    search_request,
)
from transformer.text.tokenizer import Tokenized, Tokenizer
from transformer.trace.building import forcing_gap
from transformer.trace.records import Pair, Stream, Trace
from transformer.trace.stream import later_layers_skipped, record_stream
from transformer.trace.tracer import Ability
from transformer.trace.whole import Batches
from transformer.trees.grammar import symbols_of
from transformer.types import ATTENTION_KINDS, AttentionKind, InputError, literals


class Translator:
    """Translates sentences and records the model at work.

    It keeps no state between calls, so threads may share it.

    Packed copies of the model's weights make it fast (`transformer.execution`). Every call checks,
    in microseconds, that they still match `model`:

    - If weights were written or replaced (by an optimiser, `load_state_dict`, in-place operations),
      they are packed again first. Only writes through `weight.data` go unnoticed, since PyTorch
      does not count them; call `repack` after those.
    - If a module has forward hooks or was replaced by another class (adapters, parametrisations),
      the model itself runs instead, so that hooks fire and every module counts. The same holds for
      this project's `hooks` (`transformer.hooks`), which see more and are cheaper to write. Results
      are the same up to rounding, at two to five times the time.
    """

    kinds: tuple[AttentionKind, ...] = ATTENTION_KINDS  # attention kinds in its traces

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, *, device: Device = "auto",
        name: str = "model", path: Path | None = None, max_tokens: int = 512,
        decoding: Decoding = PAPER_DECODING, extra_length: int = EXTRA_LENGTH,
        follow_grammar: bool = True,
    ) -> None:  # fmt: skip
        """Create a translator.

        Args:
            max_tokens: longest source and longest translation, including `</s>`.
            decoding: default beam size, alpha and rule.
            extra_length: default number of tokens by which a translation may exceed its source.
            follow_grammar: restrict a parser to trees of its source.
        """
        self.device = resolve_device(device).type
        self.model, self.config = model.to(self.device).eval(), model.config
        self.edits: tuple[Edit, ...] = ()
        self._original: Translator | None = None  # the unedited translator of an edited one
        self.means: Means | None = None  # head means for `mean`, in an edited translator
        self.tokenizer = tokenizer
        self.name, self.path, self.decoding = name, path, decoding
        self.max_tokens = max_tokens
        if model.config.positions in ("learned", "stored"):
            self.max_tokens = min(max_tokens, model.config.max_positions)
        symbols = symbols_of(tokenizer.target.pieces, model.config.eos_id)
        self._batches = Batches(Executions(self.model), symbols if follow_grammar else None)
        self._reader = Reader(model.config, tokenizer, self.max_tokens, extra_length)

    @classmethod
    def load(
        cls, path: str | Path | ModelRef, device: Device = "auto", max_tokens: int = 512
    ) -> "Translator":
        """Read a checkpoint folder, or one of its snapshots as `PATH@UPDATES`.

        Raises: `CheckpointError` naming the file and the error, `InputError` for a missing device.
        """
        resolve_device(device)  # before the weights are read
        return cls.from_checkpoint(load_checkpoint(path), device, max_tokens)

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, device: Device = "auto", max_tokens: int = 512
    ) -> "Translator":
        """Create a translator from a checkpoint in memory."""
        return cls(
            checkpoint.model, checkpoint.tokenizer, device=device, name=checkpoint.ref.name,
            path=checkpoint.ref.path, max_tokens=max_tokens,
            decoding=default_decoding(checkpoint.metrics),
            extra_length=default_extra_length(checkpoint.metrics),
        )  # fmt: skip

    @classmethod
    def from_module(cls, model: Transformer, tokenizer: Tokenizer, **options: Any) -> "Translator":
        """Create a translator from a model in memory, which moves to the device and `eval` mode.

        Args: options: see `Translator(...)`; for example `device`, `name` and `decoding`.

        Raises: `CheckpointError` for another model's tokenizer, `InputError` for another class.
        """
        if not isinstance(model, Transformer):
            raise InputError(
                f"from_module takes a Transformer of this project, not {type(model).__name__}; "
                "HuggingFaceModel.of takes models of the transformers library"
            )
        check_pieces("tokenizer", tokenizer, model.config)
        return cls(model, tokenizer, **options)

    def edited(
        self, *edits: str | Edit, means: Means | None = None, sentences: Sequence[str] = ()
    ) -> "Translator":
        """Return a translator for the edited model; this one stays unchanged.

            translator.edited("off cross.3.5", "cut cross k2").translate(["The cat sleeps."])

        Args:
            edits: see `transformer.edits.language`; added to this translator's.
            means: head outputs for `mean`, from `head_means`; default: the checkpoint's means.npz.
            sentences: instead of `means`: average head outputs over these sentences and this
                model's own translations of them.

        Raises: `InputError` for an edit that the model cannot take.
        """
        chosen, original = parse_edits((*self.edits, *edits)), self._original or self
        means = means or self.means
        if sentences:
            own = original.traces(sentences, 1, top_k=1, maps=False)
            means = head_means(original.model, [(trace.src_ids, trace.tgt_ids) for trace in own])
        elif means is None and self.path and any(edit.verb == "mean" for edit in chosen):
            means = read_means(ModelRef.of(self.path), self.config)
        new = copy.copy(original)
        new.edits, new._original, new.means = chosen, original, means
        new.model = edited(original.model, chosen, means)
        new._batches = Batches(Executions(new.model), original._batches.symbols)
        shift = next((int(e.value or 0) for e in chosen if e.verb == "shift positions"), 0)
        if self.config.positions in ("learned", "stored"):
            new.max_tokens = min(original.max_tokens, self.config.max_positions - shift)
        new._reader = copy.copy(original._reader)
        new._reader.edits, new._reader.max_tokens = chosen, new.max_tokens
        return new

    def repack(self) -> None:
        """Pack the weights again after a write that PyTorch does not track."""
        self._batches.executions.repack()

    @literals
    def lacks(self, ability: Ability) -> str | None:
        """Return None: a translator has every ability of `transformer.trace.tracer`."""
        return None

    def tokenize(self, sentence: str) -> Tokenized:
        """Split a sentence into pieces, without running the model; a blank one has none.

        Raises: `InputError` for too many characters or tokens.
        """
        return self._reader.tokenize(sentence)

    def tokenize_target(self, text: str) -> Tokenized:
        """Split a target-language text into pieces. Raises `InputError` like `tokenize`."""
        return self._reader.tokenize(text, self.tokenizer.target)

    def read(self, sentence: str | Ids) -> Source:
        """Return a sentence as the encoder reads it (`Reader.source`)."""
        return self._reader.source(sentence)

    def pair(self, sentence: str | Ids, target: str | Ids) -> Pair:
        """Return a sentence and a translation as ids. Raises `InputError` like `trace`."""
        ids = self._reader.target(target).ids
        return Pair(self.read(sentence).ids, (self.config.bos_id, *ids[:-1]), ids)

    def translate(
        self, sentences: Iterable[str | Ids], beam_size: int | None = None,
        alpha: float | None = None, *, edits: Edits = (), hooks: Hook | None = None,
        on_translated: Progress | None = None, **options: Unpack[SearchOptions],
    ) -> list[Translation]:  # fmt: skip
        """Translate sentences by beam search (section 6.1); `beam_size=1` is greedy.

        Args:
            sentences: texts or source token ids, in any number and order; sentences of similar
                length share a batch. A blank one gives an empty translation.
            beam_size, alpha: number of hypotheses and exponent of the length penalty; None is the
                checkpoint's default (`decoding`), and a beam of 1 for sampling.
            edits: changes to the model for this call, see `edited`.
            hooks: read or replace values inside the model (`transformer.hooks`). In a batch, they
                see the rows of all its sentences; row values follow the order of `sentences`.
            on_translated: called with (sentences done, all sentences) after each batch.
            options: `max_length`, `prefix`, `sampling`, `allow_unknown`, `rule` and `progress`, see
                `transformer.search.request.SearchOptions`.

        Returns: one translation per sentence, in order.

        Raises: `InputError` for an invalid sentence (counted from 1) or setting, before any work.
        """
        of = self._with(edits)
        request = of._request(beam_size, alpha, options)
        sources = of._reader.sources(sentences)
        request.check_lengths(sources)
        return of._batches.translate(sources, request, hooks, on_translated)

    def score(
        self, sentences: Iterable[str | Ids], targets: Iterable[str | Ids],
        alpha: float | None = None, *, edits: Edits = (), hooks: Hook | None = None,
        on_scored: Progress | None = None, **options: Unpack[SearchOptions],
    ) -> list[Translation]:  # fmt: skip
        """Return given translations with log-probabilities of their tokens, without attention.

        Args: see `traces`; `on_scored` is called like `on_traced`.

        Returns: one translation per sentence, in order, with `</s>` scored last.
        """
        of = self._with(edits)
        request = of._request(1, alpha, cast(RecordOptions, {**options, "maps": False}), 1)
        traces = of._batches.trace(sentences, targets, request, hooks, on_scored)
        return [trace.translation for trace in traces]

    def from_encoder_layers(
        self, sentence: str | Ids, beam_size: int | None = None, alpha: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[Translation]:  # fmt: skip
        """Translate a sentence from each encoder layer's output, skipping later layers.

        This is DecoderLens (Langedijk et al. 2024): the unchanged decoder reads the output of the
        first layer, then of the second, and so on.

        Args: see `translate`; `progress` follows each search in turn.

        Returns: one translation per encoder layer; the last is the model's own.
        """
        n = self.config.n_encoder_layers
        models = (*(self.edited(*later_layers_skipped(depth, n)) for depth in range(1, n)), self)
        return [m.translate([sentence], beam_size, alpha, **options)[0] for m in models]

    def trace(
        self, sentence: str | Ids, target: str | Ids | None = None, beam_size: int | None = None,
        alpha: float | None = None, top_k: int = 10, *, edits: Edits = (),
        hooks: Hook | None = None, **options: Unpack[RecordOptions],
    ) -> Trace:  # fmt: skip
        """Translate one sentence and record every attention map.

        Args:
            sentence: the source, as text or token ids (see `read`).
            target: a translation to follow (teacher forcing, one pass) instead of searching;
                `progress` is then called with (layer, layers).
            beam_size, alpha, edits: see `translate`.
            options: as for `translate`; `maps=False` omits attention, and `states` adds hidden
                states and more, see `transformer.search.request.RecordOptions`.
            top_k: alternatives to record per step, at most the vocabulary size.
            hooks: read or replace values inside the model (`transformer.hooks`). Without a target,
                the decoder runs step by step, with one row per hypothesis.

        Returns: the record. Without a target, its maps come from the search itself.

        Raises: `InputError` for a blank or overlong sentence or target, or an invalid setting.
        """
        of, targets = self._with(edits), None if target is None else [target]
        request = of._request(beam_size, alpha, options, top_k)
        return of._batches.trace([sentence], targets, request, hooks)[0]

    def traces(
        self, sentences: Iterable[str | Ids], beam_size: int | None = None,
        alpha: float | None = None, top_k: int = 10, *,
        targets: Iterable[str | Ids] | None = None, edits: Edits = (), hooks: Hook | None = None,
        on_traced: Progress | None = None, **options: Unpack[RecordOptions],
    ) -> list[Trace]:  # fmt: skip
        """Trace many sentences, in batches of similar length.

        Args: see `translate` and `trace`; `on_traced` is called like `on_translated`. `targets` has
            one translation per sentence.

        Returns: one trace per sentence, in order.

        Raises: `InputError` for a blank or invalid sentence (counted from 1), an invalid setting,
            or more data than can be recorded at once (`trace_bytes`).
        """
        of = self._with(edits)
        request = of._request(beam_size, alpha, options, top_k)
        return of._batches.trace(sentences, targets, request, hooks, on_traced)

    def trace_bytes(
        self, sentences: Iterable[str | Ids], beam_size: int | None = None,
        alpha: float | None = None, top_k: int = 10, *,
        targets: Iterable[str | Ids] | None = None, **options: Unpack[RecordOptions],
    ) -> int:  # fmt: skip
        """Return the most bytes that `traces` could record with these arguments; no model runs."""
        request = self._request(beam_size, alpha, options, top_k)
        return request.record_bytes(*request.read(sentences, targets))

    def forcing_gap(
        self, trace: Trace, *, hooks: Hook | None = None, progress: Progress | None = None
    ) -> float:
        """Return the largest difference between a trace's weights and a teacher-forced pass.

        The decoder reads the whole translation at once; the result is only rounding, about 1e-6.

        Args:
            hooks: the hooks that made the trace.
            progress: called with (layer, layers) of the decoder; may raise to stop.
        """
        return forcing_gap(self._batches.executions, trace, hooks, progress)

    def stream(self, trace: Trace, *, hooks: Hook | None = None) -> Stream:
        """Record the residual stream and the neurons for a trace of this translator.

        Args: hooks: the hooks that made the trace.
        """
        return record_stream(self.model, trace, hooks=hooks)

    def _with(self, edits: Edits) -> "Translator":
        chosen = parse_edits(edits)
        return self.edited(*chosen) if chosen else self

    def _request(
        self, beam_size: int | None, alpha: float | None,
        options: SearchOptions | RecordOptions, top_k: int | None = None,
    ) -> SearchRequest:  # fmt: skip
        sampled = bool(options.get("sampling"))
        decoding = self.decoding.resolve(beam_size, alpha, drawn=sampled)
        options = {"rule": decoding.rule, **options}
        beam_size, alpha = decoding.beam_size, decoding.alpha
        return search_request(self._reader, beam_size, alpha, options, top_k=top_k)
