"""A model of one stack as a `Tracer`: its traces, continuations, translations and guesses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transformer.checkpoint.reference import ModelRef
from transformer.device import Device, resolve_device
from transformer.errors import InputError
from transformer.hooks import Record, matching
from transformer.models.one_stack.files import MASK, load_stack, mask_id
from transformer.models.one_stack.model import OneStack, StackSteps
from transformer.search.beam import search
from transformer.search.decoding import PAPER_DECODING, Decoding, default_decoding
from transformer.search.inputs import MAX_TOP_K, checked_whole
from transformer.search.reader import EXTRA_LENGTH, Ids, Reader, Source
from transformer.search.records import NO_TRANSLATION, Hypothesis, Translation
from transformer.search.request import (
    Progress,
    SearchOptions,
    by_batches,
    refuse_unknown,
    search_request,
)
from transformer.search.sampling import Sampling
from transformer.search.scoring import best
from transformer.text.tokenizer import Tokenized, Tokenizer
from transformer.trace.building import build_trace, predictions, to_array
from transformer.trace.records import Trace
from transformer.trace.tracer import NO_EDITS, Ability, Unedited
from transformer.types import AttentionKind, Floats


@dataclass(frozen=True)
class Guesses:
    """Predictions for one place of a text."""

    position: int  # of the place in the text's tokens
    token: str  # what stands there, or `MASK`
    tokens: tuple[str, ...]  # [K], the most probable ones, best first
    log_probs: Floats  # [K]
    log_prob: float | None  # of `token`; None for a place that is hidden


class StackModel(Unedited):
    """A model of one stack and its tokenizer on a device.

    It keeps no state between calls, so threads may share it.
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
            max_tokens: longest text; less if the model has fewer positions.
            decoding: of a translator's calls that leave it out.
        """
        self.device = resolve_device(device).type
        self.model, self.config = model.to(self.device).eval(), model.config
        self.kinds: tuple[AttentionKind, ...] = (model.config.kind,)
        self.tokenizer, self.name, self.path, self.decoding = tokenizer, name, path, decoding
        self.max_tokens = max_tokens
        if self.config.blocks.positions == "learned":
            self.max_tokens = min(max_tokens, self.config.max_positions)
        self._reader = Reader(self.config.blocks, tokenizer, self.max_tokens, EXTRA_LENGTH)

    @classmethod
    def load(
        cls, path: str | Path | ModelRef, device: Device = "auto", max_tokens: int = 512
    ) -> StackModel:
        """Read a checkpoint folder. Raises `CheckpointError`, `InputError` like `Translator`."""
        resolve_device(device)
        found = load_stack(path)
        return cls(
            found.model, found.tokenizer, device=device, name=found.name,
            path=found.path, max_tokens=max_tokens, decoding=default_decoding(found.metrics),
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of the weights in memory."""
        return 4 * self.config.n_parameters

    def lacks(self, ability: Ability) -> str | None:
        """Return None for an ability the model has, else one plain sentence why it has not."""
        if ability in ("heads", "any_sentence"):
            return None
        if ability == "search":
            return {
                "continue": "This model continues a text and translates nothing.",
                "fill": "This model fills in hidden words and writes nothing.",
                "translate": "This model's trace is one pass over source and translation, "
                "without a record of its search.",
            }[self.config.task]
        if ability == "edits":
            return NO_EDITS["one_stack"]
        if ability == "steering":
            return "This model has one stack; steering is made for an encoder and a decoder."
        return "This model has one stack; this page is made for an encoder and a decoder."

    def tokenize(self, sentence: str) -> Tokenized:
        """Split a sentence into pieces. Raises `InputError` for a long one."""
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
        progress: Progress | None = None,
        **options: Any,
    ) -> Trace:
        """Read one text in one pass, with every map.

        A model that fills in has the text, `<s>` to `</s>`, in `src_tokens`. Others have it in
        `tgt_tokens`: each token is predicted from those before it, and the last prediction is the
        model's own. A translator's text is the source, `</s>`, `<s>` and the translation.

        Args:
            sentence: the text, or a translator's source.
            target: a translation to follow instead of searching for one.
            beam_size, alpha: of a translator's search; None is the checkpoint's default.
            top_k: alternatives recorded for every step, at most the vocabulary.
            new_tokens: most tokens to append, greedily or sampled.
            prefix, edits: not supported, see `lacks`.
            sampling: draw the new tokens.
            progress: called with (step, longest step); may raise to stop.
            options: others of `Translator.trace`.

        Raises: `InputError` for a blank or too long text or a bad setting; `TypeError` for an
            option of another name.
        """
        refuse_unknown(options)
        self.refuse_edits(edits)
        if prefix is not None:
            raise InputError(self.lacks("steering") or "")
        task = self.config.task
        if target is not None and task != "translate":
            raise InputError("this model reads one text; it takes no target beside it")
        source = self._reader.source(sentence)
        if not source.ids:
            raise InputError("the sentence is blank; type at least one character")
        top_k = checked_whole("top_k", top_k, MAX_TOP_K)
        bos, eos = self.config.blocks.bos_id, self.config.blocks.eos_id
        with torch.inference_mode():
            if task == "fill":
                return self._filled(source, (bos, *source.ids))
            if task == "continue":
                text: tuple[int, ...] = (bos, *source.ids[:-1])
                written: tuple[int, ...] = ()
                if new_tokens:
                    written = self._continued(text, new_tokens, sampling, progress)
                # `</s>` is predicted last, and nothing reads it.
                last = eos if written[-1:] == (eos,) else None
                whole = (*text, *written[: -1 if last else None])
                return self._recorded(source, whole, len(text), top_k, last, forced=not written)
            n_given = None
            if target is not None:
                written = tuple(self._reader.target(target))
            else:
                limit = options.get("max_length")
                decoding = self.decoding.resolve(beam_size, alpha, drawn=sampling is not None)
                written = self._found([source], decoding, limit, sampling, progress)[0].ids
                n_given = len(source.ids) + 1
            return self._recorded(
                source, (*source.ids, bos, *written[:-1]), n_given, top_k, written[-1],
                forced=target is not None,
            )  # fmt: skip

    def translate(
        self,
        sentences: Iterable[str | Ids],
        beam_size: int | None = None,
        alpha: float | None = None,
        *,
        edits: Any = (),
        on_translated: Progress | None = None,
    ) -> list[Translation]:
        """Translate sentences by beam search; a blank one gives an empty translation.

        Raises: `InputError` for a model that does not translate, or a bad sentence or setting.
        """
        self.refuse_edits(edits)
        if self.config.task != "translate":
            raise InputError(self.lacks("search") or "")
        decoding = self.decoding.resolve(beam_size, alpha, drawn=False)

        def run(batch: Sequence[int]) -> list[Translation]:
            chosen = [sources[index] for index in batch]
            with torch.inference_mode():
                found = self._found(chosen, decoding)
            return [
                Translation.of(each, self.tokenizer.decode, source.unknown_text)
                for source, each in zip(chosen, found, strict=True)
            ]

        sources = self._reader.sources(sentences)
        lengths = [len(source.ids) for source in sources]
        return by_batches(lengths, decoding.beam_size, run, on_translated, blank=NO_TRANSLATION)

    def guesses(self, trace: Trace, top_k: int = 10) -> tuple[Guesses, ...]:
        """Return predictions for every hidden place of a trace, by a model that fills in.

        If nothing is hidden, every word is hidden in turn, the others in sight.

        Raises: `InputError` for a model with another task.
        """
        if self.config.task != "fill":
            raise InputError("this model does not fill in hidden words")
        hidden, ids = mask_id(self.tokenizer), list(trace.src_ids)
        places = [place for place, each in enumerate(ids) if each == hidden]
        rows = [ids]
        if alone := not places:
            special = {self.config.blocks.bos_id, self.config.blocks.eos_id}
            places = [place for place, each in enumerate(ids) if each not in special]
            rows = [[*ids[:place], hidden, *ids[place + 1 :]] for place in places]
        with torch.inference_mode():
            text = torch.tensor(rows, device=self.device)
            states = self.model.read(text)  # [1 or P, T, d_model]
            chosen = states[range(len(places)), places] if alone else states[0, places]
            logits = self.model.logits(chosen).float()  # [P, V]
            logits[:, [hidden, self.config.pad_id]] = -torch.inf
            every = logits.log_softmax(-1)
        log_probs, order = best(every, checked_whole("top_k", top_k, MAX_TOP_K))
        return tuple(
            Guesses(
                place,
                MASK if ids[place] == hidden else trace.src_tokens[place],
                self.tokenizer.shown(order[row].tolist()),
                to_array(log_probs[row]),
                None if ids[place] == hidden else float(every[row, ids[place]]),
            )
            for row, place in enumerate(places)
        )

    def _found(
        self,
        sources: Sequence[Source],
        decoding: Decoding,
        max_length: int | None = None,
        sampling: Sampling | None = None,
        progress: Progress | None = None,
    ) -> list[Hypothesis]:
        """Return the best translations; their ids end in `</s>` unless cut."""
        options: SearchOptions = {
            "max_length": max_length, "sampling": sampling, "rule": decoding.rule,
        }  # fmt: skip
        request = search_request(self._reader, decoding.beam_size, decoding.alpha, options)
        # Source, `<s>` and translation share the positions.
        limits = [min(request.limit(each), self.max_tokens - len(each.ids)) for each in sources]
        if min(limits) < 1:
            longest = max(len(source.ids) for source in sources)
            raise InputError(
                f"the sentence has {longest} tokens, which leaves no room for a translation; "
                f"at most {self.max_tokens} are allowed in all"
            )
        rows = [torch.tensor(source.ids) for source in sources]
        src = pad_sequence(rows, True, self.config.pad_id).to(self.device)
        found = search(
            StackSteps(self.model, src), limits, request.settings,
            piece=lambda token, before: self.tokenizer.pieces[token], progress=progress,
        )  # fmt: skip
        return [each.hypotheses[0] for each in found]

    def _continued(
        self,
        given: tuple[int, ...],
        new_tokens: int,
        sampling: Sampling | None,
        progress: Progress | None,
    ) -> tuple[int, ...]:
        new_tokens = checked_whole("new_tokens", new_tokens)
        if len(given) + new_tokens > self.max_tokens:
            raise InputError(
                f"new_tokens {new_tokens} after {len(given)} is too long; "
                f"at most {self.max_tokens} tokens are allowed in all"
            )
        options: SearchOptions = {"sampling": sampling}
        settings = search_request(self._reader, 1, 0.0, options).settings
        prompt, nothing = list(given[1:]), torch.zeros(1, 0, dtype=torch.long, device=self.device)
        (found,) = search(
            StackSteps(self.model, nothing), [len(prompt) + new_tokens], settings,
            prefixes=[prompt], progress=progress,
        )  # fmt: skip
        return found.hypotheses[0].ids[len(prompt) :]

    def _filled(self, source: Source, ids: tuple[int, ...]) -> Trace:
        maps, _ = self._pass(ids)
        return build_trace(
            self.tokenizer,
            {"encoder_self": maps},
            source=source.text,
            src_tokens=self.tokenizer.shown(ids),
            src_ids=ids,
            src_unknown=tuple(place + 1 for place in source.unknown),
            src_special=(0, len(ids) - 1),
        )

    def _recorded(
        self,
        source: Source,
        ids: tuple[int, ...],
        n_given: int | None,
        top_k: int,
        last: int | None,
        *,
        forced: bool = False,
    ) -> Trace:
        """Record a causal pass.

        Args:
            n_given: the first tokens, which were given; None is all.
            last: the token after the text; None for the model's own choice.
        """
        maps, logits = self._pass(ids)
        n_given = len(ids) if n_given is None else n_given
        every = logits.float().log_softmax(-1)  # [T, V]
        if last is None:
            last = int(every[-1].argmax())
        predicted = predictions(every, (*ids[1:], last), top_k)
        bos, eos = self.config.blocks.bos_id, self.config.blocks.eos_id
        written = ids[1:] if self.config.task == "continue" else predicted.ids[ids.index(bos) :]
        return build_trace(
            self.tokenizer,
            {"decoder_self": maps},
            ids,
            predicted,
            source=source.text,
            text=self.tokenizer.decode(written),
            score=predicted.log_prob(n_given - 1) / max(len(ids) - n_given + 1, 1),
            tgt_special=tuple(place for place, each in enumerate(ids) if each in (bos, eos)),
            complete=last == eos,
            forced=forced,
            n_forced=n_given - 1,
        )

    def _pass(self, ids: tuple[int, ...]) -> tuple[Floats, Tensor]:
        """Return the maps [L, H, T, T] of a text and its logits [T, V]."""
        if len(ids) > self.max_tokens:
            raise InputError(
                f"the text has {len(ids):,} tokens; at most {self.max_tokens} are allowed"
            )
        record = Record(matching(name="weights"))
        hidden = self.model.read(torch.tensor([ids], device=self.device), hooks=record)
        maps = record.layers(self.config.kind)[:, 0]
        return to_array(maps), self.model.logits(hidden[0])
