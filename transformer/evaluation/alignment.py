"""Word alignment error of each head, against manual links.

RWTH Aachen published the gold links for tokenised German and English sentences of the European
Parliament. A model follows the given translation, so each head gives one map per sentence.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from transformer.attribution.cells import Place, measured
from transformer.attribution.edges import row_shares
from transformer.measures import words
from transformer.measures.heads import widen
from transformer.measures.pharaoh import check_links, read_links, turned
from transformer.measures.words import diagonal
from transformer.models.one_stack.tracer import StackModel
from transformer.trace.records import CELL_MEASURES, CellMeasure, Trace
from transformer.training.data import DataError, corpus_folder, find_file, read_lines
from transformer.translator import Translator
from transformer.types import Floats, InputError, Ints, Report, literals, no_report

#: Key in metrics.json.
ALIGNMENT = "alignment"

#: Measures of every head; an effect takes a decoder position for every edge of each.
MEASURES = CELL_MEASURES[:-1]

#: Folder of the gold links under --data.
FOLDER = "alignment-de-en"


#: Rounding of log-probabilities in nats; smaller effects are none.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class Aligned:
    """Sentence pairs with their gold links."""

    pairs: tuple[tuple[str, str], ...]
    gold: tuple[words.Gold, ...]
    units: words.LinkUnits = "spaces"  # what the links join
    partial: bool = False  # only target words with a link count


def read_gold(data: Path, src: str) -> Aligned:
    """Read the gold links.

    Args: src: language of the sources, "en" or "de"; the targets are the other.

    Raises: `DataError` naming the file, or the language if it is neither.
    """
    if src not in ("en", "de"):
        raise DataError(f"the gold links are of German and English, not of {src!r}")
    folder = corpus_folder(FOLDER, data)
    german, english, drawn = (
        [" ".join(line.split()) for line in read_lines(find_file(folder / f"dev.{end}"))]
        for end in ("de", "en", "talp")
    )
    if not len(german) == len(english) == len(drawn):
        raise DataError(f"{folder}: the files have different numbers of lines")
    sides = (english, german) if src == "en" else (german, english)
    try:
        gold = tuple(read_links(line, 1) for line in drawn)
    except InputError as error:
        raise DataError(f"{folder}: {error}") from None
    gold = tuple(map(turned, gold)) if src == "en" else gold
    return Aligned(tuple(zip(*sides, strict=True)), gold)


def letters(texts: Sequence[str]) -> Aligned:
    """Return strings, their reversals and the links of their letters, which are tokens.

    The first token of a text, `▁`, has no link.
    """
    gold = [frozenset((len(text) - at, at + 1) for at in range(len(text))) for text in texts]
    pairs = tuple((text, text[::-1]) for text in texts)
    return Aligned(
        pairs, tuple(words.Gold(places, places) for places in gold), "tokens", partial=True
    )


def head_errors(
    model: Translator | StackModel, aligned: Aligned, progress: Report = no_report
) -> dict[str, Any]:
    """Return the alignment error rate of every head, as in metrics.json.

    Returns: "sentences", for "reading" and "predicting" rows a table [L][H], and for "diagonal" the
        error of that guess and its 95% interval (see `diagonal_error`).
    """
    errors = error_grid(model, aligned, ["weight"], progress).errors()[0, ..., :-1].round(4)
    table = {"sentences": len(aligned.pairs), "diagonal": diagonal_error(aligned)}
    return table | dict(zip(get_args(words.Row), errors.tolist(), strict=True))


@literals
def measured_maps(
    model: Any, trace: Trace, measure: CellMeasure, layer: int | None = None,
    head: int | None = None,
) -> Floats:  # fmt: skip
    """Return one map of cross-attention by a measure of its edges, [T, S]; rows sum to 1, or are 0.

    Args:
        measure: "effect" counts only cuts that make a token less probable.
        layer, head: 0-based; without a head, all heads of a layer together; without a layer, the
            mean over layers, or for "effect" the edge in all of them.

    Raises: `InputError` if the model lacks the measure or the place.
    """
    shape = trace.cross.shape if trace.cross.size else words.source_block(trace).weights.shape
    for name, at, most in (("layer", layer, shape[0]), ("head", head, shape[1])):
        if at is not None and not 0 <= at < most:
            raise InputError(f"{name} {at + 1}; the model has {name}s 1 to {most}")
    place: Place = ("cross", layer, head)
    wide = wide_maps(model, trace, measure, places=[place])
    chosen = wide[tuple(-1 if index is None else index for index in (layer, head))]
    if measure == "effect":
        chosen = np.where(chosen < -_ROUNDING, -chosen, 0)
    return row_shares(chosen)


@literals
def wide_maps(model: Any, trace: Trace, measure: CellMeasure, **options: Any) -> Floats:
    """Return a measure of cross-attention [L + 1, H + 1, T, S], all layers and heads together last.

    Args: options: of `transformer.attribution.cells.measured`.

    Raises: `InputError` if the model lacks the measure.
    """
    if measure == "weight" and not trace.cross.size:
        return widen(words.source_block(trace).weights)
    if measure != "weight" and not (isinstance(model, Translator) and trace.cross.size):
        raise InputError(f"only encoder-decoders of this project have the measure {measure!r}")
    cells = measured(model, trace, measure, kinds=["cross"], **options).cells
    assert cells is not None
    return cells.wide["cross"]


@dataclass(frozen=True, eq=False)
class Grid:
    """Alignment counts of every measure, row and head over N sentence pairs."""

    measures: tuple[CellMeasure, ...]  # [M]
    #: [N, M, rows, L, H + 1, 2], see `alignment_counts`; all heads of a layer come last
    counts: Ints
    guesses: Ints  # [N, 2], of the diagonal

    def errors(self, half: int | None = None) -> Floats:
        """Return alignment error rates [M, rows, L, H + 1]; `half`: 0 or 1, or all pairs."""
        return _error(self.counts[slice(half, None, None if half is None else 2)].sum(0))

    def diagonal(self, half: int | None = None) -> float:
        """Return the error of the guess along the diagonal."""
        return float(_error(self.guesses[slice(half, None, None if half is None else 2)].sum(0)))

    @literals
    def best(self, of: CellMeasure | None = None, in_row: words.Row | None = None) -> "Best":
        """Return the place with the smallest error on pairs 1, 3, ..., with its error on the rest.

        A single pair is both halves.

        Args: of, in_row: search only there.
        """
        other = int(len(self.counts) > 1)
        first, second = self.errors(0), self.errors(other)
        if of is not None and in_row is not None:
            here = self.measures.index(of), get_args(words.Row).index(in_row)
            alone = np.full_like(first, np.nan)
            alone[here] = first[here]
            first = alone
        measure, row, layer, head = (
            int(at) for at in np.unravel_index(np.nanargmin(first), first.shape)
        )
        place, drawn = (measure, row, layer, head), np.random.default_rng(0)
        rest = self.counts[other::2, measure, row, layer, head]
        sums = rest[drawn.integers(len(rest), size=(2000, len(rest)))].sum(1)
        low, high = np.nanquantile(_error(sums), [0.025, 0.975])
        return Best(
            self.measures[measure], get_args(words.Row)[row], layer,
            None if head == first.shape[-1] - 1 else head, float(first[place]),
            float(second[place]), (float(low), float(high)), self.diagonal(other),
        )  # fmt: skip

    def alignment_heads(self, most: int = 10) -> list[list[int]]:
        """Return heads [layer, head] that beat the diagonal on pairs 1, 3, ..., best first.

        They are of the measure and row of `best`.
        """
        best = self.best()
        row = get_args(words.Row).index(best.row)
        errors = self.errors(0)[self.measures.index(best.measure), row, :, :-1]
        order = np.argsort(errors, axis=None, kind="stable")[:most]
        places = [np.unravel_index(at, errors.shape) for at in order]
        return [[*map(int, at)] for at in places if errors[at] < self.diagonal(0)]


class Best(NamedTuple):
    """The best place of a `Grid`."""

    measure: CellMeasure
    row: words.Row
    layer: int
    head: int | None  # None: all heads of the layer together
    chosen: float  # its error on the half where it was chosen
    error: float  # on the other half
    interval: tuple[float, float]  # 95%, by bootstrap over the other half's pairs
    diagonal: float  # error of the guess along the diagonal on the other half


def _error(counts: NDArray[Any]) -> Floats:
    right, total = np.moveaxis(counts, -1, 0).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Floats = 1 - right / total
    return error


def error_grid(
    model: Any, aligned: Aligned, measures: Sequence[CellMeasure] = MEASURES,
    progress: Report = no_report,
) -> Grid:  # fmt: skip
    """Compare the links of every measure, row and head with gold links.

    The model follows the given translations.

    Raises: `InputError` naming a pair whose links leave its words or that the model cannot read, or
        a measure that it lacks.
    """
    counts, guesses = list[Ints](), list[Ints]()
    for number, (pair, gold) in enumerate(zip(aligned.pairs, aligned.gold, strict=True), 1):
        progress(number - 1, len(aligned.pairs))
        try:
            trace = model.trace(*pair, top_k=1)
            known, at = words.words_of(trace, "predicting", aligned.units), []
            check_links(gold, len(known.sources), len(known.targets))
            only = {target for _, target in gold.possible} if aligned.partial else None
            for measure in measures:
                maps = wide_maps(model, trace, measure)[:-1]
                maps = maps if measure == "weight" else row_shares(maps)
                at.append([
                    _counts(words.word_maps(trace, row, maps, aligned.units), gold, only)
                    for row in get_args(words.Row)
                ])  # fmt: skip
        except InputError as error:
            raise InputError(f"sentence pair {number}: {error}") from None
        counts.append(np.array(at, np.int64))
        guess = diagonal(len(known.targets), len(known.sources))
        guess = frozenset(link for link in guess if only is None or link[1] in only)
        guesses.append(words.alignment_counts([guess], [gold])[0])
    progress(len(aligned.pairs), len(aligned.pairs))
    return Grid(tuple(measures), np.stack(counts), np.stack(guesses))


def _counts(maps: Floats, gold: words.Gold, only: Collection[int] | None) -> Ints:
    """Return the counts of `alignment_counts` for the links of maps [L, H, t, s], [L, H, 2]."""
    keys = maps.argmax(-1)  # [L, H, t]
    value = np.zeros(maps.shape[-2:], np.int64)
    for source, target in (*gold.sure, *gold.possible):
        value[target, source] += 1
    rows = range(maps.shape[-2]) if only is None else sorted(only)
    right = sum((value[row][keys[..., row]] for row in rows), np.zeros(keys.shape[:-1], np.int64))
    return np.stack([right, np.full_like(right, len(rows) + len(gold.sure))], -1)


def diagonal_error(aligned: Aligned) -> dict[str, Any]:
    """Return the "error" of a diagonal guess and its 95% bootstrap "interval"."""
    guesses = [
        diagonal(len(target.split()), len(source.split())) for source, target in aligned.pairs
    ]
    counts, n = words.alignment_counts(guesses, aligned.gold), len(guesses)
    right, total = counts[np.random.default_rng(0).integers(n, size=(2000, n))].sum(axis=1).T
    interval = np.quantile(1 - right / total, [0.025, 0.975]).round(4).tolist()
    return {"error": round(words.alignment_error(guesses, aligned.gold), 4), "interval": interval}


def best_aligner(table: Mapping[str, Any]) -> tuple[int, int, str]:
    """Compare the smallest error of `head_errors`, in either row, with the guess.

    Returns: layer and head from 0, and a sentence. A head aligns words if its error lies below the
        interval of the guess.
    Raises: errors of indexing, for an invalid table.
    """
    rows = {"reading": "reads", "predicting": "predicts"}
    errors = np.array([table[row] for row in rows], np.float64)
    row, layer, head = (int(place) for place in np.unravel_index(errors.argmin(), errors.shape))
    error, guess, (low, high) = errors.min(), *(table["diagonal"][n] for n in ("error", "interval"))
    name = f"layer {layer + 1}, head {head + 1}"
    text = f"No head aligns words better than a guess: {name} comes nearest; its links"
    if error < low:
        text = f"{name.capitalize()} aligns words: its links"
    text += f" agree by {1 - error:.1%} with those that people drew, in the row that "
    text += f"{[*rows.values()][row]} a word. A guess along the diagonal agrees by {1 - guess:.1%} "
    text += f"(95% interval {1 - high:.1%} to {1 - low:.1%})"
    return layer, head, text
