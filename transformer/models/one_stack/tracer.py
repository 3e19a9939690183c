"""A model with one stack as a `Tracer`: its traces, continuations, translations and guesses."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from transformer.checkpoint.reference import ModelRef
from transformer.device import Device, resolve_device
from transformer.hooks import Record, matching
from transformer.models.one_stack.model import MASK, OneStack, StackSteps, load_stack, mask_id
from transformer.search import request as requests
from transformer.search.beam import search
from transformer.search.inputs import MAX_TOP_K, checked_new_tokens, checked_whole
from transformer.search.reader import EXTRA_LENGTH, Ids, Reader, Source
from transformer.search.records import NO_TRANSLATION, Hypothesis, Translation
from transformer.search.request import PAPER_DECODING, Decoding, default_decoding
from transformer.search.rules import Sampling
from transformer.search.scoring import best
from transformer.text.tokenizer import Tokenized, Tokenizer
from transformer.trace.building import build_trace, padded, predictions, to_array
from transformer.trace.records import Trace
from transformer.trace.tracer import Unedited
from transformer.types import AttentionKind, BlankError, Floats, InputError


@dataclass(frozen=True)
class Guesses:
    """Predictions for one position of a text."""

    position: int  # index in the text's tokens
    token: str  # token at this position, or `MASK`
    tokens: tuple[str, ...]  # [K], the most probable tokens, best first
    log_probs: Floats  # [K]
    log_prob: float | None  # log-probability of `token`, or None if it is hidden


class StackModel(Unedited):
    """A model with one stack and its tokenizer on a device.

    Calls share no state, so threads may share a model.
    """

    def __init__(
        self,
        model: OneStack,
        tokenizer: Tokenizer,
        *,
        device: Device = "auto",
        name: str = "model",
        path: Path | None = None,
        max_tokens: int = 512,
        decoding: Decoding = PAPER_DECODING,
    ) -> None:
        """Make a tracer.

        Args:
            max_tokens: longest text, further limited by learned positions.
            decoding: defaults of a translator's calls.
        """
        self.device = resolve_device(device).type
        self.model, self.config = model.to(self.device).eval(), model.config
        self.kinds: tuple[AttentionKind, ...] = (model.config.kind,)
        self.cases = ("one_stack", model.config.task)
        self.tokenizer, self.name, self.path, self.decoding = tokenizer, name, path, decoding
        learned = self.config.blocks.positions == "learned"
        self.max_tokens = min(max_tokens, self.config.max_positions) if learned else max_tokens
        self._reader = Reader(self.config.blocks, tokenizer, self.max_tokens, EXTRA_LENGTH)

    @classmethod
    def load(
        cls, path: str | Path | ModelRef, device: Device = "auto", max_tokens: int = 512
    ) -> Self:
        """Read a checkpoint folder. Raises `CheckpointError`, `InputError` like `Translator`."""
        resolve_device(device)
        loaded = load_stack(path)
        return cls(
            loaded.model, loaded.tokenizer, device=device, name=loaded.ref.name,
            path=loaded.ref.path, max_tokens=max_tokens, decoding=default_decoding(loaded.metrics),
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of the weights in memory."""
        return 4 * self.config.n_parameters

    def tokenize(self, sentence: str) -> Tokenized:
        """Split a sentence into pieces. Raises `InputError` if it is too long."""
        return self._reader.tokenize(sentence)

    def trace(
        self,
        sentence: str | Ids,
        target: str | Ids | None = None,
        beam_size: int | None = None,
        alpha: float | None = None,
        top_k: int = 10,
        *,
        new_tokens: int = 0,
        prefix: Any = None,
        sampling: Sampling | None = None,
        edits: Any = (),
        progress: requests.Progress | None = None,
        **options: Any,
    ) -> Trace:
        """Record every map of one pass over a text.

        A model that fills in reads the text, `<s>` to `</s>`, as `src_tokens`. Others read it as
        `tgt_tokens` and predict every token from the tokens before it, and one more at the end. A
        translator's text is the source, `</s>`, `<s>` and the translation.

        Args:
            sentence: the text, or a translator's source.
            target: a translation to follow instead of a search.
            beam_size, alpha: a translator's search settings; default: the checkpoint's.
            top_k: alternatives recorded at every step, at most the vocabulary size.
            new_tokens: maximum number of tokens to append, greedily or sampled.
            prefix, edits: not supported, see `lacks`.
            sampling: settings to draw the new tokens.
            progress: called with (step, last step); may raise to stop.
            options: other options of `Translator.trace`.

        Raises: `InputError` for a blank or overlong text or a bad setting, `TypeError` for an
            unknown option.
        """
        requests.refuse_unknown(options)
        self.refuse_edits(edits)
        if prefix is not None:
            raise InputError(self.lacks("steering") or "")
        task = self.config.task
        if target is not None and task != "translate":
            raise InputError("this model reads one text and takes no target")
        source = self._reader.source(sentence)
        if not source.ids:
            raise BlankError("the sentence is blank; type at least one character")
        top_k = checked_whole("top_k", top_k, MAX_TOP_K)
        bos, eos = self.config.blocks.bos_id, self.config.blocks.eos_id
        with torch.inference_mode():
            if task == "fill":
                ids = (bos, *source.ids)
                return build_trace(
                    self.tokenizer, {"encoder_self": self._pass(ids)[0]}, source=source.text,
                    src_tokens=(*self.tokenizer.shown((bos,)), *source.pieces), src_ids=ids,
                    src_unknown=tuple(position + 1 for position in source.unknown),
                    src_special=(0, len(ids) - 1),
                )  # fmt: skip
            if task == "continue":
                text: tuple[int, ...] = (bos, *source.ids[:-1])
                new: tuple[int, ...] = ()
                if new_tokens:
                    new = self._continue(text, new_tokens, sampling, progress)
                # `</s>` is only predicted; the model does not read it.
                last = eos if new[-1:] == (eos,) else None
                whole = (*text, *new[: -1 if last else None])
                written = (*self.tokenizer.shown((bos,)), *source.pieces[:-1])
                return self._record(source, whole, written, len(text), top_k, last, forced=not new)
            n_prompt, written = len(source.ids) + 1, (*source.pieces, *self.tokenizer.shown((bos,)))
            decoding = self.decoding.resolve(beam_size, alpha, drawn=sampling is not None)
            if target is not None:
                given = self._reader.target(target)
                new, written = given.ids, (*written, *given.pieces[:-1])
            else:
                limit = options.get("max_length")
                new = self._search([source], decoding, limit, sampling, progress)[0].ids
            return self._record(
                source, (*source.ids, bos, *new[:-1]), written, n_prompt, top_k, new[-1],
                forced=target is not None, penalty=decoding.penalty,
            )  # fmt: skip

    def translate(
        self,
        sentences: Iterable[str | Ids],
        beam_size: int | None = None,
        alpha: float | None = None,
        *,
        edits: Any = (),
        on_translated: requests.Progress | None = None,
    ) -> list[Translation]:
        """Translate sentences by beam search; a blank sentence has an empty translation.

        Raises: `InputError` if the model does not translate, or for a bad sentence or setting.
        """
        self.refuse_edits(edits)
        if self.config.task != "translate":
            raise InputError(self.lacks("search") or "")
        decoding = self.decoding.resolve(beam_size, alpha, drawn=False)

        def run(batch: Sequence[int]) -> list[Translation]:
            rows = [sources[index] for index in batch]
            with torch.inference_mode():
                hypotheses = self._search(rows, decoding)
            return [
                Translation.of(hypothesis, self.tokenizer.decode, source.unknown_text)
                for source, hypothesis in zip(rows, hypotheses, strict=True)
            ]

        sources = self._reader.sources(sentences)
        lengths = [len(source.ids) for source in sources]
        return requests.by_batches(
            lengths, decoding.beam_size, run, on_translated, blank=NO_TRANSLATION
        )

    def guesses(self, trace: Trace, top_k: int = 10) -> tuple[Guesses, ...]:
        """Return predictions for every hidden token of a trace by a model that fills in.

        If nothing is hidden, every word is hidden in turn while the others stay visible.

        Raises: `InputError` for a model with another task.
        """
        if self.config.task != "fill":
            raise InputError("this model does not fill in hidden words")
        hidden, ids = mask_id(self.tokenizer), list(trace.src_ids)
        positions = [position for position, token in enumerate(ids) if token == hidden]
        rows = [ids]
        if in_turn := not positions:
            special = {self.config.blocks.bos_id, self.config.blocks.eos_id}
            positions = [position for position, token in enumerate(ids) if token not in special]
            rows = [[*ids[:position], hidden, *ids[position + 1 :]] for position in positions]
        with torch.inference_mode():
            states = self.model.read(torch.tensor(rows, device=self.device))  # [1 or P, T, d_model]
            at = range(len(positions)) if in_turn else 0
            logits = self.model.logits(states[at, positions]).float()  # [P, V]
            logits[:, [hidden, self.config.pad_id]] = -torch.inf
            every = logits.log_softmax(-1)
        log_probs, order = best(every, checked_whole("top_k", top_k, MAX_TOP_K))
        return tuple(
            Guesses(
                position,
                MASK if ids[position] == hidden else trace.src_tokens[position],
                self.tokenizer.shown(order[row].tolist()),
                to_array(log_probs[row]),
                None if ids[position] == hidden else float(every[row, ids[position]]),
            )
            for row, position in enumerate(positions)
        )

    def _search(
        self,
        sources: Sequence[Source],
        decoding: Decoding,
        max_length: int | None = None,
        sampling: Sampling | None = None,
        progress: requests.Progress | None = None,
    ) -> list[Hypothesis]:
        """Return the best translations, which end in `</s>` unless they reach the limit."""
        options: requests.SearchOptions = {
            "max_length": max_length, "sampling": sampling, "rule": decoding.rule,
        }  # fmt: skip
        request = requests.search_request(self._reader, decoding.beam_size, decoding.alpha, options)
        # Source, `<s>` and translation share the positions.
        limits = [min(request.limit(row), self.max_tokens - len(row.ids)) for row in sources]
        if min(limits) < 1:
            longest = max(len(source.ids) for source in sources)
            raise InputError(
                f"the sentence has {longest} tokens, which leaves no room for a translation; "
                f"at most {self.max_tokens} are allowed in total"
            )
        rows = (source.ids for source in sources)
        src = padded(rows, self.config.pad_id, torch.device(self.device))
        results = search(
            StackSteps(self.model, src), limits, request.settings,
            piece=lambda token, *_: self.tokenizer.pieces[token], progress=progress,
        )  # fmt: skip
        return [result.hypotheses[0] for result in results]

    def _continue(
        self,
        text: tuple[int, ...],
        new_tokens: int,
        sampling: Sampling | None,
        progress: requests.Progress | None,
    ) -> tuple[int, ...]:
        new_tokens = checked_new_tokens(new_tokens, len(text), self.max_tokens)
        options: requests.SearchOptions = {"sampling": sampling}
        settings = requests.search_request(self._reader, 1, 0.0, options).settings
        prompt, nothing = list(text[1:]), torch.zeros(1, 0, dtype=torch.long, device=self.device)
        (result,) = search(
            StackSteps(self.model, nothing), [len(prompt) + new_tokens], settings,
            prefixes=[prompt], progress=progress,
        )  # fmt: skip
        return result.hypotheses[0].ids[len(prompt) :]

    def _record(
        self,
        source: Source,
        ids: tuple[int, ...],
        written: tuple[str, ...],
        n_prompt: int,
        top_k: int,
        last: int | None,
        *,
        forced: bool = False,
        penalty: Callable[[int], float] = float,
    ) -> Trace:
        """Record a causal pass.

        Args:
            written: pieces of the first ids, which come from a text.
            n_prompt: number of tokens before those that the score counts.
            last: the token after the text; None for the most probable.
        """
        maps, logits = self._pass(ids)
        every = logits.float().log_softmax(-1)  # [T, V]
        if last is None:
            last = int(every[-1].argmax())
        predicted = predictions(every, (*ids[1:], last), top_k)
        bos, eos = self.config.blocks.bos_id, self.config.blocks.eos_id
        own = ids[1:] if self.config.task == "continue" else predicted.ids[ids.index(bos) :]
        return build_trace(
            self.tokenizer, {"decoder_self": maps}, ids, predicted, written,
            source=source.text, text=self.tokenizer.decode(own),
            score=predicted.log_prob(n_prompt - 1) / penalty(len(ids) - n_prompt + 1),
            tgt_special=tuple(at for at, token in enumerate(ids) if token in (bos, eos)),
            complete=last == eos, forced=forced, n_forced=len(ids) - 1 if forced else n_prompt - 1,
        )  # fmt: skip

    def _pass(self, ids: tuple[int, ...]) -> tuple[Floats, Tensor]:
        """Return the maps [L, H, T, T] of a text and its logits [T, V]."""
        if len(ids) > self.max_tokens:
            raise InputError(
                f"the text has {len(ids):,} tokens; at most {self.max_tokens} are allowed"
            )
        record = Record(matching(name="weights"))
        hidden = self.model.read(torch.tensor([ids], device=self.device), hooks=record)
        return to_array(record.layers(self.config.kind)[:, 0]), self.model.logits(hidden[0])
