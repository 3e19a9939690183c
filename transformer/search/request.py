"""Search options of all `Translator` methods, their checks, and a checkpoint's default decoding.

metrics.json stores it as `default_decoding`; checkpoints without it use the paper's (section 6.1).
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self, TypedDict, TypeVar, cast, get_args

from transformer.config import ModelConfig
from transformer.search.inputs import MAX_TOP_K, checked_alpha, checked_beam, checked_whole
from transformer.search.reader import EXTRA_LENGTH, Ids, Prefix, Reader, Source, Target
from transformer.search.rules import PAPER, BeamRule, Sampling, SearchSettings, hugging_face
from transformer.types import InputError

#: The record's name in metrics.json.
DEFAULT_DECODING = "default_decoding"


@dataclass(frozen=True)
class Decoding:
    """Beam size (1 is greedy), length-penalty exponent, and search rule."""

    beam_size: int = 4
    alpha: float = 0.6
    # Setting of the `transformers` library and its rule; None for the paper's rule.
    early_stopping: bool | Literal["never"] | None = None

    @property
    def rule(self) -> BeamRule:
        """The rule that scores hypotheses and ends a search."""
        return PAPER if self.early_stopping is None else hugging_face(self.early_stopping)

    def penalty(self, length: int) -> float:
        """Return the divisor of log P for `length` tokens, counting `</s>`."""
        return self.rule.penalty(length, self.alpha)

    def __str__(self) -> str:
        """Describe it: "beam 4, alpha 0.6"."""
        return f"beam {self.beam_size}, alpha {self.alpha:g}" if self.beam_size > 1 else "greedy"

    def resolve(self, beam_size: int | None, alpha: float | None, *, drawn: bool) -> Self:
        """Return a call's beam size and alpha with defaults for None; `drawn` means a beam of 1."""
        default = 1 if drawn else self.beam_size
        size = default if beam_size is None else beam_size
        return replace(self, beam_size=size, alpha=self.alpha if alpha is None else alpha)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON record, without the paper's rule."""
        return {name: value for name, value in asdict(self).items() if value is not None}


#: Section 6.1: "beam search with a beam size of 4 and length penalty alpha = 0.6".
PAPER_DECODING = Decoding()


def default_extra_length(metrics: Mapping[str, Any]) -> int:
    """Return from metrics how many tokens longer than its source an output may be."""
    record = metrics.get(DEFAULT_DECODING)
    extra = record.get("extra_length") if isinstance(record, Mapping) else None
    try:
        return EXTRA_LENGTH if extra is None else checked_whole("extra_length", extra, 10_000)
    except InputError:
        return EXTRA_LENGTH


def default_decoding(metrics: Mapping[str, Any]) -> Decoding:
    """Return a checkpoint's default decoding; the paper's if its metrics hold no valid one."""
    record = metrics.get(DEFAULT_DECODING)
    if not isinstance(record, Mapping):
        return PAPER_DECODING
    try:
        return Decoding(
            checked_beam(record.get("beam_size")),
            checked_alpha(record.get("alpha")),
            None if (early := record.get("early_stopping")) is None else checked_early(early),
        )
    except InputError:
        return PAPER_DECODING


def checked_early(value: object) -> bool | Literal["never"]:
    """Return `value` if it is a setting of `early_stopping`, else raise `InputError`."""
    if isinstance(value, bool):
        return value
    if value == "never":
        return "never"
    raise InputError(f"early_stopping {value!r:.40} is not true, false or 'never'")


Progress = Callable[[int, int], None]

#: Values that a record may contain besides attention (`transformer.trace.records.States`).
StateName = Literal["hidden", "heads", "value_norms"]

MAX_RECORD_BYTES = 2 * 2**30  # memory limit of a record


class SearchOptions(TypedDict, total=False):
    """Optional keyword arguments."""

    # Longest translation in tokens, counting `</s>`, at most the translator's `max_tokens`; by
    # default the source length plus the translator's `extra_length`, 50 in the paper.
    max_length: int | None
    prefix: Prefix  # first tokens of every translation, as text or token ids
    # Sample tokens; needs a beam size of 1. All sentences use the seed, regardless of their batch.
    sampling: Sampling | None
    allow_unknown: bool  # allow `<unk>` in the output; False by default
    rule: BeamRule  # scoring and stopping; by default the checkpoint's (`Decoding.rule`)
    # Called with (step, most steps) in each batch, step 0 for the encoder; may raise to stop.
    progress: Progress | None


class RecordOptions(SearchOptions, total=False):
    """Optional keyword arguments of recording methods."""

    maps: bool  # record attention; True by default
    # "hidden", "heads", "value_norms" (`transformer.trace.records.States`), from one more pass.
    states: str | Iterable[str]


@dataclass(frozen=True)
class SearchRequest:
    """Checked settings of a search, or of a pass over targets; see `SearchOptions`."""

    settings: SearchSettings
    reader: Reader
    forced: Target  # first tokens of all translations
    max_length: int | None
    progress: Progress | None
    maps: bool = True
    states: tuple[StateName, ...] = ()

    def limit(self, source: Source) -> int:
        """Return the longest translation of a source; see `Reader.limit`."""
        return self.reader.limit(len(source.ids), self.max_length, self.forced.ids)

    def read(
        self, sentences: Iterable[str | Ids], targets: Iterable[str | Ids] | None
    ) -> tuple[list[Source], list[Target] | None]:
        """Read sentences, which must not be blank, and their targets, if any."""
        sources = self.reader.sources(sentences, blank=False)
        if targets is None:
            self.check_lengths(sources)
            return sources, None
        if self.forced.ids:
            raise InputError("give a target or a prefix, not both")
        ids = self.reader.targets(targets, len(sources))
        self.check_lengths(sources, ids)
        return sources, ids

    def check_lengths(
        self, sources: Sequence[Source], targets: Sequence[Target] | None = None
    ) -> None:
        """Raise `InputError` for a source too short for the prefix, or an edit beyond them all."""
        most = max((len(source.ids) for source in sources), default=0)
        limits = map(self.limit, sources) if targets is None else (len(t.ids) for t in targets)
        steps = max(limits, default=0)
        for edit in self.reader.edits if most else ():
            edit.check_tokens(most, steps)

    def record_bytes(
        self, sources: Sequence[Source], targets: Sequence[Target] | None = None
    ) -> int:
        """Return an upper bound on the bytes of records.

        Args: targets: translations ending in `</s>`; None for a search.
        """
        config, total = self.reader.config, 0
        stacks = [*config.head_shapes.values()][:2]
        encoder, decoder = (layers * heads for layers, heads in stacks)
        widths = [config.d_v or config.d_model // heads for _, heads in stacks]
        for index, source in enumerate(sources):
            n = len(source.ids)
            t = self.limit(source) if targets is None else len(targets[index].ids)
            numbers = 5 * t * self.settings.top_k  # ids have 8 bytes, and tokens a reference
            if self.maps:
                numbers += encoder * n * n + decoder * t * (t + n)
                if targets is None:  # each row of each step
                    numbers += self.settings.beam_size * decoder * t * (n + t // 2)
            if "hidden" in self.states:
                layers = 1 + config.n_encoder_layers, 1 + config.n_decoder_layers
                numbers += config.d_model * (layers[0] * n + layers[1] * t)
            if "heads" in self.states:
                numbers += encoder * n * widths[0] + 2 * decoder * t * widths[1]
            if "value_norms" in self.states:
                numbers += encoder * n + decoder * (n + t)
            total += 4 * numbers
        return total

    def check_record(
        self, sources: Sequence[Source], targets: Sequence[Target] | None = None
    ) -> None:
        """Raise `InputError` if records could exceed `MAX_RECORD_BYTES`."""
        if (n_bytes := self.record_bytes(sources, targets)) > MAX_RECORD_BYTES:
            searched = targets is None
            beam = f"beam size {self.settings.beam_size} over " if searched else ""
            less = ["a smaller beam"] * searched + ["maps=False"] * self.maps
            less += ["a shorter sentence" if len(sources) == 1 else "fewer sentences at once"]
            raise InputError(
                f"recording {beam}{sum(len(source.ids) for source in sources):,} source tokens "
                f"could take {n_bytes / 2**30:.1f} GiB; at most {MAX_RECORD_BYTES / 2**30:g} GiB "
                f"are allowed, so take {' or '.join(less)}"
            )


def search_request(
    reader: Reader, beam_size: int, alpha: float, options: SearchOptions | RecordOptions, *, top_k:
    int | None = None,
) -> SearchRequest:  # fmt: skip
    """Check search settings.

    Padding, `<s>` and the config's suppressed ids are never generated, `<unk>` only if allowed.
    A search without a record may stop once the best hypothesis is certain.

    Args: top_k: alternatives to record per step; None records nothing.

    Raises: `InputError` for a bad value, `TypeError` for an unknown option.
    """
    refuse_unknown(options, SearchOptions if top_k is None else RecordOptions)
    states, maps = options.get("states", ()), bool(options.get("maps", True))
    config, size, sampling = reader.config, checked_beam(beam_size), options.get("sampling")
    if sampling is not None and not isinstance(sampling, Sampling):
        raise InputError(f"sampling must be a Sampling, not {type(sampling).__name__}")
    if sampling is not None and size != 1:
        raise InputError(f"sampling requires a beam size of 1, not {size}")
    never = never_generated(config)
    unknown = set() if options.get("allow_unknown") else {config.unk_id}
    rule = options.get("rule", PAPER)
    settings = SearchSettings(
        beam_size=size,
        alpha=checked_alpha(alpha),
        rule=rule,
        bos_id=config.bos_id,
        eos_id=config.eos_id,
        suppressed=tuple(sorted(never | unknown)),
        suppressed_words=config.suppressed_words,
        excluded=excluded(config),
        forced_eos=config.forced_eos,
        n_best=1 if top_k is None and rule == PAPER else None,
        record=top_k is not None,
        top_k=1 if top_k is None else checked_whole("top_k", top_k, MAX_TOP_K),
        sampling=sampling,
    )
    forced = reader.prefix(options.get("prefix"))
    named = [states] if isinstance(states, str) else list(cast(Iterable[str], states))
    known: tuple[StateName, ...] = get_args(StateName)
    for state in named:
        if state not in known:
            raise InputError(f"state {state!r} is not one of: {', '.join(known)}")
    return SearchRequest(
        settings, reader, forced, options.get("max_length"), options.get("progress"), maps,
        tuple(name for name in known if name in named),
    )  # fmt: skip


def refuse_unknown(options: Mapping[str, object], known: type = SearchOptions) -> None:
    """Raise `TypeError` for an option that is not a key of `known`."""
    if unknown := options.keys() - known.__annotations__.keys():
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")


def never_generated(config: ModelConfig) -> set[int]:
    """Return the ids that are never generated: padding, `<s>` and suppressed ids."""
    return {config.pad_id, config.bos_id, *config.suppressed_ids} - {config.eos_id}


def excluded(config: ModelConfig) -> tuple[int, ...]:
    """Return the ids without probability, ascending."""
    return tuple(sorted(never_generated(config))) if config.renormalise else ()


def layer_progress(progress: Progress | None, n_layers: int) -> Callable[[], None]:
    """Return a callback that reports the start of the next of `n_layers` layers."""
    begun = itertools.count(1)

    def begin() -> None:
        if progress is not None:
            progress(next(begun), n_layers)

    return begin


Result = TypeVar("Result")

#: Maximum rows times source tokens in a batch, and maximum logits in one pass over targets.
BATCH_TOKENS, MOST_LOGITS = 6_000, 16_000_000


def by_batches(
    lengths: Sequence[int], n_rows: int, run: Callable[[list[int]], Sequence[Result]], progress:
    Callable[[int, int], None] | None = None, *, blank: Result | None = None,
) -> list[Result]:  # fmt: skip
    """Run sentences of similar length together and return their results in order.

    The longest sentences come first, so that a batch too large for the machine fails at once.

    Args:
        lengths: sentence lengths in tokens.
        n_rows: batch rows per sentence.
        run: takes sentence indices and returns one result for each.
        progress: called with (sentences done, all sentences) after each batch.
        blank: result of sentences without tokens, which are not run.
    """
    results = {index: blank for index, length in enumerate(lengths) if not length}
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        # The first sentence of a batch is its longest.
        widest = lengths[batches[-1][0]] if batches else 0
        if index in results:
            continue
        if batches and (len(batches[-1]) + 1) * widest * n_rows <= BATCH_TOKENS:
            batches[-1].append(index)
        else:
            batches.append([index])
    for batch in batches:
        results |= zip(batch, run(batch), strict=True)
        if progress is not None:
            progress(len(results), len(lengths))
    return [results[index] for index in range(len(lengths))]  # type: ignore[misc]
