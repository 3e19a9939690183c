"""Traces of models of the `transformers` library: `pip install .[hf]`.

Encoder-decoders (T5, BART, M2M100, NLLB, mBART), decoder-only models (such as GPT-2) and
encoder-only models (such as BERT) in a local folder return the same `Trace` as this project's
models: every map of the library's `output_attentions`, with eager attention in float32. Nothing is
downloaded, and files are read as data (`transformer.models.huggingface.files`).
"""

import copy
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch

from transformer.device import Device, resolve_device
from transformer.models.huggingface.building import Family, build, copied, vocabulary_sizes
from transformer.models.huggingface.files import FILES, generation_settings, library, read_values
from transformer.models.huggingface.generate import Generation, read_generation
from transformer.models.huggingface.tokenizer import PREFERRED, HubTokenizer
from transformer.models.huggingface.tokenizer_files import checked_tokenizer, read_tokenizer
from transformer.models.huggingface.tracing import KINDS, Tracing, position_limits
from transformer.models.importers.settings import Settings
from transformer.search.inputs import MAX_TOP_K, checked_alpha, checked_beam, checked_whole
from transformer.search.reader import Ids
from transformer.search.records import NO_TRANSLATION, Translation
from transformer.search.request import refuse_unknown
from transformer.text.tokenizer import clean
from transformer.trace.records import Trace
from transformer.trace.tracer import Unedited
from transformer.types import CheckpointError, InputError, Report


class HuggingFaceModel(Tracing, Unedited):
    """A model of the `transformers` library as a tracer (`transformer.trace.tracer.Tracer`).

    Calls share no state, so threads may share a model.
    """

    def __init__(
        self,
        model: Any,
        family: Family,
        text: HubTokenizer,
        generation: Generation,
        *,
        device: Device = "auto",
        name: str = "model",
        path: Path | None = None,
        max_tokens: int = 512,
    ) -> None:
        """Wrap a model in evaluation mode with eager attention; see `load`."""
        if family == "encoder_decoder" and generation.start is None:
            raise CheckpointError(
                f"{path or name}: decoder_start_token_id is missing, and bos_token_id too"
            )
        self._device = resolve_device(device)
        self._model = model.to(self._device)
        # Every call passes its own generation config; no other setting applies.
        self._model.generation_config = library(path or Path(name)).GenerationConfig()
        self._text, self._generation, self.decoding = text, generation, generation.decoding
        self.family, self.kinds = family, KINDS[family]
        self.cases = ("huggingface", family, *(["one-sided"] * (not text.fits[1])))
        self.name, self.path = name, path
        limits = (max_tokens, text.own_limit, *position_limits(model))
        self.max_tokens = min(limit for limit in limits if limit is not None)
        self._output = self._probe()

    @classmethod
    def load(cls, path: str | Path, device: Device = "auto", max_tokens: int = 512) -> Self:
        """Read a folder written by the library's `save_pretrained`, or copied from the hub.

        Args:
            max_tokens: longest source and translation, including special tokens, further limited
                by the model's positions.

        Raises: `CheckpointError` naming the bad file, or if the library is not installed;
            `InputError` for a device that does not exist.
        """
        resolve_device(device)
        folder = Path(path)
        values = read_values(folder)
        model, family = build(folder)
        sizes = vocabulary_sizes(model, family)
        settings, starts = generation_settings(folder), family == "encoder_decoder"
        generation = read_generation(settings, sizes[1], starts=starts)
        text = read_tokenizer(folder, values, model.config, sizes, generation.special)
        name = folder.resolve().name
        return cls(
            model, family, text, generation,
            device=device, name=name, path=folder, max_tokens=max_tokens,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of the weights in memory."""
        return sum(int(parameter.nbytes) for parameter in self._model.parameters())

    @classmethod
    def of(
        cls, model: Any, tokenizer: Any, device: Device = "auto", *, name: str = "model",
        max_tokens: int = 512,
    ) -> Self:  # fmt: skip
        """Wrap copies of a model and its tokenizer in memory, such as after fine-tuning.

        Later training of the originals does not change the copies.

        Raises: `InputError` for other objects, and like `load`.
        """
        resolve_device(device)
        copy_of_model, family, values = copied(name, model)
        if model.can_generate():
            own = model.generation_config.to_dict()
            values = {key: value for key, value in own.items() if value is not None}
        sizes, starts = vocabulary_sizes(copy_of_model, family), family == "encoder_decoder"
        generation = read_generation(Settings(Path(name), values), sizes[1], starts=starts)
        text = checked_tokenizer(name, copy.deepcopy(tokenizer), sizes, generation.special)
        return cls(
            copy_of_model, family, text, generation,
            device=device, name=name, max_tokens=max_tokens,
        )  # fmt: skip

    @classmethod
    def from_hub(cls, name: str, device: Device = "auto", **options: Any) -> Self:
        """Download `owner/name` from the hub with `huggingface_hub`, and load it.

        Args: options: see `load`.

        Raises: `CheckpointError` if the hub cannot be reached, and like `load`.
        """
        from transformer.files.hub import opened

        library(Path(name))  # before downloading gigabytes
        with opened(name, FILES, Path(tempfile.gettempdir())) as folder:
            loaded = cls.load(folder, device, **options)
        loaded.name, loaded.path = name, None
        return loaded

    @property
    def device(self) -> str:
        """The device's name, "cpu" or "cuda"."""
        return self._device.type

    @property
    def languages(self) -> tuple[str, ...]:
        """Values of `src_lang` and `tgt_lang`; empty for most models."""
        return tuple(self._text.languages)

    def resolve_languages(
        self, src_lang: str | None = None, tgt_lang: str | None = None
    ) -> tuple[str | None, str | None]:
        """Return the source and target languages that `trace` uses for these arguments."""
        source = self._text.language("src_lang", src_lang)
        if self.family != "encoder_decoder":
            return source, None
        target = self._text.language("tgt_lang", tgt_lang)
        if self._text.languages and target is None:
            ids = self._text.languages
            names = {index: name for name, index in ids.items()}
            own = (self._generation.forced_first, self._generation.start)
            choices = [names[index] for index in own if index in names]
            choices += [name for name in (*PREFERRED, *ids) if name in ids and name != source]
            target = next(iter(choices), None)
        return source, target

    def randomised(self) -> Self:
        """Return a model of the same shape with the library's random initial weights."""
        new, config = copy.copy(self), copy.deepcopy(self._model.config)
        new._model = type(self._model)(config).eval().requires_grad_(False).to(self._device)
        new._model.set_attn_implementation("eager")
        new._model.generation_config = self._model.generation_config
        return new

    @property
    def module(self) -> Any:
        """The library's model, for PyTorch's own forward hooks."""
        return self._model

    def translate(
        self, sentences: Iterable[str | Ids], *settings: Any, **options: Any
    ) -> list[Translation]:
        """Translate sentences one by one; a blank sentence has an empty translation.

        Args: settings, options: `beam_size`, `alpha` and other options of `trace`.

        Raises: `InputError` if the model does not translate, and like `traces`.
        """
        if self.family != "encoder_decoder":
            raise InputError("this model reads one text and translates nothing")
        if isinstance(sentences, str):
            raise InputError("translate takes a list of sentences, not one text")
        every = list(sentences)
        blank = [isinstance(sentence, str) and not clean(sentence) for sentence in every]
        texts = (sentence for sentence, empty in zip(every, blank, strict=True) if not empty)
        traces = iter(self.traces(texts, *settings, **options, top_k=1))
        return [NO_TRANSLATION if empty else next(traces).translation for empty in blank]

    def traces(self, sentences: Iterable[str | Ids], *settings: Any, **options: Any) -> list[Trace]:
        """Trace sentences one by one.

        Args: settings, options: `beam_size`, `alpha`, `top_k` and other options of `trace`.

        Raises: `InputError` like `trace`, with the sentence's number, counted from 1.
        """
        if isinstance(sentences, str):
            raise InputError("traces takes a list of sentences, not one text")
        traces: list[Trace] = []
        for number, sentence in enumerate(sentences, 1):
            try:
                traces.append(self.trace(sentence, None, *settings, **options))
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
        return traces

    def trace(
        self,
        sentence: str | Ids,
        target: str | Ids | None = None,
        beam_size: int | None = None,
        alpha: float | None = None,
        top_k: int = 10,
        *,
        max_length: int | None = None,
        new_tokens: int = 0,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        prefix: Any = None,
        sampling: Any = None,
        edits: Any = (),
        hooks: Any = None,
        progress: Report | None = None,
        **options: Any,
    ) -> Trace:
        """Read one sentence, and translate it if the model is an encoder-decoder.

        Maps, log-probabilities and alternatives of an encoder-decoder come from one teacher-forced
        pass over the output of `generate`, or over the target. A model without an encoder reads
        the text as `tgt_tokens` and predicts every token from the tokens before it, and one more
        at the end. As in the library, the text may include special tokens.

        Args:
            sentence: the source, or the text of a model without an encoder, as text or as token
                ids that include special tokens.
            target: a translation to follow instead of a search, as text or token ids.
            beam_size: 1 is greedy; default: the model's own (`decoding`), or the library's, 1.
            alpha: the library's `length_penalty`; default: the model's own. Scores are
                log P / |Y|^alpha, not the paper's log P / ((5 + |Y|) / 6)^alpha, so the same
                value has a slightly stronger effect.
            top_k: alternatives recorded at every step, at most the vocabulary size.
            max_length: longest translation in tokens; default: source length + 50.
            new_tokens: number of tokens that a model without an encoder appends.
            src_lang, tgt_lang: from `languages`; default: the tokenizer's. A missing target
                language is German, French or the first other language.
            prefix, sampling, edits, hooks: not supported, see `lacks`; `module` takes hooks.
            progress: called with (step, last step) while translating; may raise to stop.
            options: other options of `Translator.trace`, without effect here.

        Raises: `InputError` for a blank or overlong sentence or target, or a bad setting;
            `TypeError` for an unknown option.
        """
        refuse_unknown(options)
        if prefix is not None or sampling is not None:
            raise InputError(self.lacks("steering") or "")
        self.refuse_edits(edits)
        if hooks is not None:
            raise InputError(
                "hooks of Headlight need its own blocks, and the transformers library runs this "
                "model; register PyTorch's forward hooks on `module` instead"
            )
        own = self.decoding.resolve(beam_size, alpha, drawn=False)
        beam_size, alpha = checked_beam(own.beam_size), checked_alpha(own.alpha)
        decoding = replace(own, beam_size=beam_size, alpha=alpha)
        generation = replace(self._generation, decoding=decoding)
        top_k = checked_whole("top_k", top_k, MAX_TOP_K)
        if self.family != "encoder_decoder" and target is not None:
            raise InputError("this model reads one text and takes no target")
        src_lang, tgt_lang = self.resolve_languages(src_lang, tgt_lang)
        if isinstance(sentence, list | tuple) or getattr(sentence, "ndim", 0) == 1:
            source = self._text.of_ids(sentence, self.max_tokens)
        else:
            text: Any = sentence  # refused unless it is text
            source = self._text.cut(text, self.max_tokens, src_lang=src_lang)
        with torch.inference_mode():
            if self.family == "encoder":
                self._check_memory(len(source.ids), 0)
                return self._record(source, (), ())
            if self.family == "decoder":
                return self._continue(source, new_tokens, generation, progress, top_k)
            return self._translate(
                source, target, max_length, tgt_lang, generation, progress, top_k
            )
