"""Traces of models of the `transformers` library: `pip install .[hf]`.

Any encoder-decoder (T5, BART, M2M100, NLLB, mBART), decoder-only model (such as GPT-2) or
encoder-only model (such as BERT) in a local folder gives the same `Trace` as a model of this
project: every map that the library's `output_attentions` returns, with eager attention in float32.
Nothing is downloaded, and files are read as data (`transformer.models.huggingface.files`).
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from transformer.device import Device, resolve_device
from transformer.errors import InputError
from transformer.models.huggingface.building import Family, build, copied, vocabulary_sizes
from transformer.models.huggingface.files import (
    FILES,
    generation_path,
    generation_values,
    library,
    read_values,
)
from transformer.models.huggingface.generate import (
    Generation,
    Search,
    read_generation,
)
from transformer.models.huggingface.passes import KINDS, position_limits
from transformer.models.huggingface.tokenizer import (
    PREFERRED,
    HubTokenizer,
    checked_tokenizer,
    read_tokenizer,
)
from transformer.models.huggingface.tracing import Tracing
from transformer.search.inputs import MAX_TOP_K, checked_alpha, checked_beam, checked_whole
from transformer.search.reader import Ids
from transformer.search.records import NO_TRANSLATION, Translation
from transformer.search.request import SearchOptions
from transformer.text.tokenizer import clean
from transformer.trace.records import Trace
from transformer.trace.tracer import NO_EDITS, Ability, Unedited
from transformer.types import Report

#: Why every model lacks an ability, one sentence each.
LACKS: dict[Ability, str] = {
    "search": "This model's beam search is run by the transformers library, which keeps no record "
    "of it.",
    "steering": "This model's tokens are chosen by the transformers library, and Headlight cannot "
    "override them.",
    **dict.fromkeys(
        ("internals", "heads"),
        "This model is run by the transformers library, which returns its attention weights, but "
        "not the queries, keys, values and gates behind them.",
    ),
    "edits": NO_EDITS["huggingface"],
    "vocabulary": "This model's tokenizer belongs to the transformers library, which does not show "
    "how it works.",
}
#: The consequence of having no decoder.
READS_ONLY = {
    "search": "nothing was searched for", "steering": "there is nothing to steer",
}  # fmt: skip


class HuggingFaceModel(Tracing, Unedited):
    """A model of the `transformers` library as a tracer (`transformer.trace.tracer.Tracer`).

    It holds no state between calls and may be shared by threads.
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
        self._device = resolve_device(device)
        self._model = model.to(self._device)
        # Each call passes its own generation config, and nothing else applies.
        self._model.generation_config = library(path or Path(name)).GenerationConfig()
        self._text, self._generation, self.decoding = text, generation, generation.decoding
        self.family, self.kinds = family, KINDS[family]
        self.name, self.path = name, path
        limits = (max_tokens, text.own_limit, *position_limits(model))
        self.max_tokens = min(limit for limit in limits if limit is not None)
        self._output = self._probe()

    @classmethod
    def load(
        cls, path: str | Path, device: Device = "auto", max_tokens: int = 512
    ) -> HuggingFaceModel:
        """Read a folder that the library's `save_pretrained` wrote, or a copy of one on the hub.

        Args:
            max_tokens: longest source and longest translation, special tokens included; less
                if the model has fewer positions.

        Raises: `CheckpointError` naming the file and what is wrong, or if the library is not
            installed; `InputError` for a device that does not exist.
        """
        resolve_device(device)
        folder = Path(path)
        values = read_values(folder)
        model, family = build(folder)
        sizes = vocabulary_sizes(model, family)
        generation = read_generation(
            generation_path(folder),
            generation_values(folder, values),
            sizes[1],
            starts=family == "encoder_decoder",
        )
        text = read_tokenizer(folder, values, model.config, sizes, generation.special)
        name = folder.resolve().name
        return cls(
            model, family, text, generation,
            device=device, name=name, path=folder, max_tokens=max_tokens,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of the weights in memory."""
        return sum(int(each.nbytes) for each in self._model.parameters())

    @classmethod
    def of(
        cls, model: Any, tokenizer: Any, device: Device = "auto", *, name: str = "model",
        max_tokens: int = 512,
    ) -> HuggingFaceModel:  # fmt: skip
        """Wrap a model and its tokenizer in memory, such as one just fine-tuned or merged.

        Both are copied: the caller's stay as they are, and may be trained on.

        Raises: `InputError` for other objects, and like `load`.
        """
        resolve_device(device)
        made, family, values = copied(name, model)
        if model.can_generate():
            own = model.generation_config.to_dict()
            values = {key: value for key, value in own.items() if value is not None}
        sizes, starts = vocabulary_sizes(made, family), family == "encoder_decoder"
        generation = read_generation(Path(name), values, sizes[1], starts=starts)
        text = checked_tokenizer(name, copy.deepcopy(tokenizer), sizes, generation.special)
        return cls(made, family, text, generation, device=device, name=name, max_tokens=max_tokens)

    @classmethod
    def from_hub(cls, name: str, device: Device = "auto", **options: Any) -> HuggingFaceModel:
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
        """Return the languages that `trace` uses, given these arguments."""
        source = self._text.language("src_lang", src_lang)
        if self.family != "encoder_decoder":
            return source, None
        target = self._text.language("tgt_lang", tgt_lang)
        if self._text.languages and target is None:
            named = {index: name for name, index in self._text.languages.items()}
            own = (self._generation.forced_first, self._generation.start)
            target = next((named[each] for each in own if each in named), None)
            others = (*PREFERRED, *self._text.languages)
            target = target or next(
                (each for each in others if each in self._text.languages and each != source), None
            )
        return source, target

    def lacks(self, ability: Ability) -> str | None:
        """Return None for an ability the model has, else one plain sentence why it has not."""
        if self.family == "encoder" and ability in READS_ONLY:
            return f"This model only reads, it has no decoder, so {READS_ONLY[ability]}."
        if ability == "vocabulary" and not self._text.fits[1]:
            return "This model has a tokenizer for its encoder; its decoder's tokens are numbers."
        return LACKS.get(ability)

    def randomised(self) -> HuggingFaceModel:
        """Return a model of the same shape with the library's random first weights."""
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
        """Translate sentences, one after another; a blank one gives an empty translation.

        Args: settings, options: `beam_size`, `alpha` and the others of `trace`.

        Raises: `InputError` for a model that does not translate, and like `traces`.
        """
        if self.family != "encoder_decoder":
            raise InputError("this model reads one text and translates nothing")
        if isinstance(sentences, str):
            raise InputError("translate takes a list of sentences, not one text")
        every = list(sentences)
        blank = [isinstance(each, str) and not clean(each) for each in every]
        written = [each for each, empty in zip(every, blank, strict=True) if not empty]
        found = iter(self.traces(written, *settings, **options, top_k=1))
        return [NO_TRANSLATION if empty else next(found).translation for empty in blank]

    def traces(self, sentences: Iterable[str | Ids], *settings: Any, **options: Any) -> list[Trace]:
        """Trace sentences, one after another.

        Args: settings, options: `beam_size`, `alpha`, `top_k` and the others of `trace`.

        Raises: `InputError` like `trace`, with the sentence's number, counted from 1.
        """
        if isinstance(sentences, str):
            raise InputError("traces takes a list of sentences, not one text")
        found: list[Trace] = []
        for number, sentence in enumerate(sentences, 1):
            try:
                found.append(self.trace(sentence, None, *settings, **options))
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
        return found

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

        The maps, log-probabilities and alternatives of an encoder-decoder come from one
        teacher-forced pass over the output of `generate`, or over the target. A model without an
        encoder has the text in `tgt_tokens`: each token is predicted from those before it, and the
        last prediction is the model's own. As in the library, special tokens may be typed.

        Args:
            sentence: the source, or the text of a model without an encoder; or its token ids, with
                the special ones.
            target: a translation to follow instead of searching for one, as text or token ids.
            beam_size: 1 is greedy; default: the model's own (`decoding`), or the library's, 1.
            alpha: the library's `length_penalty`; default: the model's own. Scores are
                log P / |Y|^alpha, not the paper's log P / ((5 + |Y|) / 6)^alpha, so the same
                value has a slightly stronger effect.
            top_k: alternatives recorded for every step, at most the vocabulary.
            max_length: longest translation in tokens; default: the source's length + 50.
            new_tokens: number of tokens by which a model without an encoder continues the text.
            src_lang, tgt_lang: of `languages`; default: the tokenizer's, or without a target
                language German, French or the first other one.
            prefix, sampling, edits, hooks: not supported, see `lacks`; hooks on `module` are.
            progress: called with (step, longest step) while translating; may raise to stop.
            options: others of `Translator.trace`, which have no effect here.

        Raises: `InputError` for a blank or too long sentence or target, or a bad setting;
            `TypeError` for an option of another name.
        """
        unknown = options.keys() - SearchOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
        if prefix is not None or sampling is not None:
            raise InputError(self.lacks("steering") or "")
        self.refuse_edits(edits)
        if hooks is not None:
            raise InputError(
                "hooks of Headlight need its own blocks, and the transformers library runs this "
                "model; register PyTorch's forward hooks on `module` instead"
            )
        chosen = self.decoding.resolve(beam_size, alpha, drawn=False)
        search = Search(checked_beam(chosen.beam_size), checked_alpha(chosen.alpha), progress)
        top_k = checked_whole("top_k", top_k, MAX_TOP_K)
        if self.family != "encoder_decoder" and target is not None:
            raise InputError("this model reads one text; it takes no target beside it")
        src_lang, tgt_lang = self.resolve_languages(src_lang, tgt_lang)
        if isinstance(sentence, list | tuple) or getattr(sentence, "ndim", 0) == 1:
            source = self._text.given(sentence, self.max_tokens)
        else:
            text: Any = sentence  # refused unless it is text
            source = self._text.cut(text, self.max_tokens, src_lang=src_lang)
        with torch.inference_mode():
            if self.family == "encoder":
                self._check_memory(len(source.ids), 0)
                return self._recorded(source, (), ())
            if self.family == "decoder":
                return self._continue(source, new_tokens, search, top_k)
            return self._translate(source, target, max_length, tgt_lang, search, top_k)
