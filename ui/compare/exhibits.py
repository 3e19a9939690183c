"""Figures of both sides: maps with their difference, matched heads, numbers; and their programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from figures.compare import LETTERS, beside
from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from transformer.measures.agreement import Matching, head_agreements, total_log_prob
from transformer.measures.compare import HeadPair, Reals, difference
from transformer.measures.entropy import EVENNESS_RULE, evenness
from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.exhibits import MOST_FOLLOWING, attention_exhibit
from ui.attention.maps import KIND_TEXTS, AttentionChoice, Maps, maps_of
from ui.compare.pairing import difference_map, joined_choices, signed_sheet
from ui.components.grid import grid_component
from ui.components.lens import Map
from ui.components.match import Likeness, head_name
from ui.export.programs import Source, roots_lines

Traces = tuple[Trace, Trace]


@dataclass(frozen=True)
class Compared:
    """Both sides, as captions and programs name them.

    Attributes:
        about: what A and B are, in a sentence or two.
        sources: where the traces of A and B come from.
    """

    about: str
    sources: tuple[Source, Source]


@dataclass(frozen=True)
class MapsChoice:
    """The maps to show of both sides; holds no arrays.

    Attributes:
        display: one of `ui.compare.attention.DISPLAYS`, or "entropies".
        choices: of A and B; kind and units are the same in both.
    """

    display: str
    choices: tuple[AttentionChoice, AttentionChoice]

    @property
    def kind(self) -> AttentionKind:
        """The kind of attention."""
        return self.choices[0].kind

    @property
    def by_words(self) -> bool:
        """Return whether rows and columns are whole words."""
        return self.choices[0].units == "words"

    @property
    def stem(self) -> str:
        """The file's name."""
        words = ["words"] if self.by_words else []
        return file_stem("compare", KIND_TEXTS[self.kind].name, self.display, *words)


def any_maps_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """Return the figure of the maps on screen."""
    make = {"differences": differences_exhibit, "entropies": evenness_exhibit}
    return make.get(shown.display, maps_exhibit)(traces, shown, compared)


def maps_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """Return the Attention page's figures of both sides, with their difference if shown."""
    made = {
        letter: attention_exhibit(trace, choice, source)
        for letter, trace, choice, source in zip(
            LETTERS, traces, shown.choices, compared.sources, strict=True
        )
    }
    title = f"{KIND_TEXTS[shown.kind].name}: A and B"
    both = beside(shown.stem, title, _caption(shown, compared), made)
    columns = max(each.columns for each in made.values()) or len(both.parts)
    both = replace(both, columns=columns)
    if shown.display != "difference":
        return both
    apart = difference_map(*_maps(traces, shown), shown.choices)
    return with_difference(both, _panel(apart.name, apart), "weights", apart.lens().offline())


def with_difference(both: Exhibit, panel: Panel, array: str, *views: Offline) -> Exhibit:
    """Add the difference of an array of A and B to the figure of both."""
    return replace(
        both,
        parts=(*both.parts, panel),
        arrays={**both.arrays, "difference": panel.values},
        snippet=f"{both.snippet}difference = {array}_a - {array}_b\n",
        offline=(*both.views, *views),
        columns=both.columns + 1,
    )


def differences_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """Return the differences of all heads that both sides have."""
    maps = _maps(traces, shown)
    choices = joined_choices(maps, shown.choices)
    layers, heads = (
        min(pair) for pair in zip(*(each.weights.shape[:2] for each in maps), strict=True)
    )
    apart = difference(*(each.weights[:layers, :heads] for each in maps))
    chosen = difference_map(*maps, choices)
    grid = grid_component(signed_sheet(maps, choices[0]), choices[0].cell)
    return Exhibit(
        name=shown.stem,
        title=f"{maps[0].kind_text.name}: A − B for every layer and head",
        caption=_caption(shown, compared),
        parts=tuple(
            _panel(f"A − B {layer + 1}.{head + 1}", replace(chosen, weights=apart[layer, head]))
            for layer, head in np.ndindex(layers, heads)
        ),
        arrays={"maps_a": maps[0].weights, "maps_b": maps[1].weights, "difference": apart},
        snippet=_program(shown, compared)
        + f"difference = maps_a[:{layers}, :{heads}] - maps_b[:{layers}, :{heads}]\n",
        offline=(
            grid.offline(),
            chosen.lens().offline(_lenses(maps, choices, (layers, heads))),
        ),
        columns=heads,
    )


def evenness_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """Return how evenly every head of both sides looks."""
    maps = _maps(traces, shown)
    spreads = [evenness(each.weights).astype("f4") for each in maps]
    program = _program(shown, compared, "from transformer.measures.entropy import evenness")
    return Exhibit(
        name=shown.stem,
        title=f"{maps[0].kind_text.name}: how evenly each head looks",
        caption=f"{_caption(shown, compared)} {EVENNESS_RULE}",
        parts=tuple(
            Panel(
                letter, spread, _numbers(spread.shape[0]), _numbers(spread.shape[1]),
                "layer", "head", quantity="evenness",
            )
            for letter, spread in zip(LETTERS, spreads, strict=True)
        ),
        arrays={"spread_a": spreads[0], "spread_b": spreads[1]},
        snippet=f"{program}spread_a, spread_b = evenness(maps_a), evenness(maps_b)\n",
        columns=2,
    )  # fmt: skip


def _maps(traces: Traces, shown: MapsChoice) -> tuple[Maps, Maps]:
    left, right = (maps_of(trace, shown.kind, shown.choices[0].units) for trace in traces)
    return left, right


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(index + 1) for index in range(count))


def _panel(title: str, apart: Map) -> Panel:
    return Panel(
        title, apart.weights, tuple(apart.query_tokens), tuple(apart.key_tokens),
        f"query: {apart.query_title}", f"key: {apart.key_title}", "diverging", "A − B",
    )  # fmt: skip


def _lenses(
    maps: tuple[Maps, Maps],
    choices: tuple[AttentionChoice, AttentionChoice],
    counts: tuple[int, int],
) -> Mapping[str, bytes]:
    """Return the lens of each cell; empty if that would make a large file."""
    if maps[0].weights.size > MOST_FOLLOWING:
        return {}
    found = {}
    for layer in (*range(counts[0]), None):
        for head in (*range(counts[1]), None):
            one, other = (replace(choice, cell=(layer, head)) for choice in choices)
            name = json.dumps([layer, head], separators=(",", ":"))
            found[name] = difference_map(*maps, (one, other)).lens().message()
    return found


def _caption(shown: MapsChoice, compared: Compared) -> str:
    words = f" {WORD_RULE}" if shown.by_words else ""
    return f"{compared.about} Rows are queries, columns are keys.{words}"


def likeness(found: Matching, kind: AttentionKind, names: tuple[str, str]) -> Likeness:
    """Return what the component shows; `names` are those of A and B."""
    about = f", in {KIND_TEXTS[kind].name.lower()} over {found.sentences} sentences"
    one, other = (
        letter if name == letter else f"{letter} {name}"
        for letter, name in zip(LETTERS, names, strict=True)
    )
    return Likeness(found.values, found.shapes, found.pairs, (one, other), about)


def heads_exhibit(
    found: Matching,
    shown: Likeness,
    kind: AttentionKind,
    chosen: HeadPair,
    compared: Compared,
    greedy: tuple[Sequence[Source], Sequence[Source]],
    *,
    follow: bool,
) -> Exhibit:
    """Return the similarities of all heads and the pairing.

    Args:
        chosen: the pair outlined.
        greedy: of A and of B, one source a sentence, decoded greedily.
        follow: whether B follows A's translations.
    """
    rows, columns = (
        tuple(head_name(at, shape) for at in range(count))
        for shape, count in zip(found.shapes, found.values.shape, strict=True)
    )
    values = found.values.astype(np.float32)
    return Exhibit(
        name=file_stem("heads matched", KIND_TEXTS[kind].name),
        title=f"{KIND_TEXTS[kind].name}: how alike the heads of two models are",
        caption=f"{compared.about} Similarity of every pair of heads, layer.head: 1 minus the mean "
        f"Jensen-Shannon divergence of rows in bits, over whole words of {found.sentences} "
        "sentences. The pairs in the NPZ are the assignment with the largest sum.",
        parts=(Panel("Similarity", values, rows, columns, *shown.names, quantity="similarity"),),
        arrays={"values": values, "pairs": np.array(found.pairs, dtype=np.int64)},
        snippet=_matching_program(compared, kind, greedy, follow=follow),
        offline=shown.component(chosen).offline(),
    )


def crossed(left: Trace, right: Trace, b_by_a: Trace | None, a_by_b: Trace | None) -> Reals:
    """Return log P of each side's translation under each side's model, in nats.

    Returns: [text of A, text of B] x [A, B]; NaN if a side cannot follow a text.
    """
    totals = [total_log_prob(each) for each in (left, a_by_b, b_by_a, right)]
    return np.array(totals).reshape(2, 2)


def numbers_exhibit(
    traces: Traces,
    followed: tuple[Trace | None, Trace | None],
    compared: Compared,
    *,
    by_place: bool,
) -> Exhibit:
    """Return log-probabilities of both translations under both models, and agreement of attention.

    Args:
        followed: A following B's translation and B following A's; None if that cannot be.
        by_place: as in `head_agreements`.
    """
    left, right = traces
    log_p = crossed(left, right, *followed)
    agreed = head_agreements(left, followed[1] or right, by_place=by_place)
    parts: list[Series | Panel] = [
        Series(
            "log P of each translation", ("A's translation", "B's translation"),
            {f"by {name}": log_p[:, at] for at, name in enumerate(LETTERS)},
            y_title="log P (nats)", mark="bar",
        )
    ]  # fmt: skip
    arrays = {"log_p": log_p}
    imports = "from transformer.measures.agreement import head_agreements, total_log_prob"
    calls = [
        "None" if trace is None else _following_call(compared.sources, side)
        for side, trace in enumerate(followed)
    ]
    program = _reading(compared.sources, imports) + (
        f"\nb_by_a = {calls[0]}\n"
        f"a_by_b = {calls[1]}\n"
        "totals = [total_log_prob(each) for each in (a, a_by_b, b_by_a, b)]\n"
        "log_p = np.array(totals).reshape(2, 2)\n"
    )
    if agreed:
        arrays["agreement"] = np.array([[each.mean, each.matched] for each in agreed.values()])
        parts.append(
            Panel(
                "Agreement of attention", arrays["agreement"],
                tuple(KIND_TEXTS[kind].name for kind in agreed),
                ("mean of all heads", "heads, matched"), quantity="agreement",
            )
        )  # fmt: skip
        program += (
            f"agreed = head_agreements(a, a_by_b or b, by_place={by_place})\n"
            "agreement = np.array([[each.mean, each.matched] for each in agreed.values()])\n"
        )
    return Exhibit(
        name=file_stem("compare numbers"),
        title="Each other's translation, and how alike the attention is",
        caption=f"{compared.about} log P in nats, </s> included, of each side's translation read "
        "by both sides; agreement is 1 minus the mean Jensen-Shannon divergence of rows in bits, "
        "over whole words, B following A's translation.",
        parts=tuple(parts),
        arrays=arrays,
        snippet=program,
    )


_MATCHING = """
sentences_a = {sentences[0]}
sentences_b = {sentences[1]}
found = []
for sentence_a, sentence_b in zip(sentences_a, sentences_b, strict=True):
    try:
        one = model_a.trace(sentence_a{arguments[0]})
        target = one.text if {follow} and one.text.strip() else None
        other = model_b.trace(sentence_b, target=target{arguments[1]})
    except InputError:
        continue
    found.append(head_agreements(one, other).get({kind!r}))
matching = match(found)
values, pairs = matching.values, np.array(matching.pairs)
"""


def _reading(sources: tuple[Source, Source], *imports: str) -> str:
    """Return lines that make both models and their traces: model_a, model_b, a and b."""
    lines = ["from transformer.catalogue import open_tracer", *imports]
    if any("sampling" in dict(source.arguments) for source in sources):
        lines.append("from transformer.search.sampling import Sampling")
    program = roots_lines(*lines)
    for letter, source in zip("ab", sources, strict=True):
        arguments = "".join(f"    {name}={value!r},\n" for name, value in source.arguments)
        program += (
            f"model_{letter} = open_tracer("
            f"path_of({source.checkpoint!r}), device={source.device!r})\n"
            f"{letter} = model_{letter}.trace(\n    {source.sentence!r},\n{arguments})\n"
        )
    return program


def _program(shown: MapsChoice, compared: Compared, *imports: str) -> str:
    """Return the program up to `maps_a` and `maps_b`, [layers, heads, queries, keys]."""
    maps = "{letter}.attention({kind!r})"
    if shown.by_words:
        imports = (*imports, "from transformer.measures.words import maps_by_words")
        maps = "maps_by_words({letter}, {kind!r}).weights"
    return f"{_reading(compared.sources, *imports)}\n" + "".join(
        f"maps_{letter} = {maps.format(letter=letter, kind=shown.kind)}\n" for letter in "ab"
    )


def _matching_program(
    compared: Compared,
    kind: AttentionKind,
    greedy: tuple[Sequence[Source], Sequence[Source]],
    *,
    follow: bool,
) -> str:
    """Return a program that makes `values` and `pairs`; see `heads_exhibit`."""
    both = [[source.sentence for source in side] for side in greedy]
    written = _listed(both[0]), "sentences_a" if both[1] == both[0] else _listed(both[1])
    arguments = [_written(side[0].arguments) if side else "" for side in greedy]
    return _reading(
        compared.sources,
        "from transformer.errors import InputError",
        "from transformer.measures.agreement import head_agreements, match",
    ) + _MATCHING.format(kind=kind, sentences=written, arguments=arguments, follow=follow)


def _following_call(sources: tuple[Source, Source], side: int) -> str:
    """Return the call that makes a side follow the text of the other one's trace, `a` or `b`."""
    own, other, source = "ab"[side], "ba"[side], sources[side]
    languages = [each for each in source.arguments if each[0] in ("src_lang", "tgt_lang")]
    return f"model_{own}.trace({source.sentence!r}, target={other}.text{_written(languages)})"


def _written(arguments: Iterable[tuple[str, object]]) -> str:
    return "".join(f", {name}={value!r}" for name, value in arguments)


def _listed(sentences: Sequence[str]) -> str:
    return "[\n" + "".join(f"    {sentence!r},\n" for sentence in sentences) + "]"
