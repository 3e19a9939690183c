"""The figures of both sides' maps: side by side, and their differences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from figures.compare import beside
from figures.exhibit import Exhibit, Offline, Panel, file_stem
from transformer.measures.compare import difference
from transformer.measures.entropy import EVENNESS_RULE, evenness
from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.exhibits import MOST_FOLLOWING, attention_exhibit
from ui.attention.maps import KIND_TEXTS, AttentionChoice, Maps, maps_of
from ui.compare.maps.pairing import difference_map, joined_choices, signed_sheet
from ui.compare.programs import LETTERS, Compared, reading
from ui.components.grid import still_grid
from ui.components.lens import Map, still_lens

Traces = tuple[Trace, Trace]


@dataclass(frozen=True)
class MapsChoice:
    """The maps to show of both sides; holds no arrays.

    Attributes:
        display: one of `ui.compare.choice.DISPLAYS`, or "entropies".
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
        """Whether rows and columns are whole words."""
        return self.choices[0].units == "words"

    @property
    def stem(self) -> str:
        """The file's name."""
        words = ["words"] if self.by_words else []
        return file_stem("compare", KIND_TEXTS[self.kind].name, self.display, *words)


def maps_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """The Attention page's figures of both sides as one, with their difference if shown."""
    made = {
        letter: attention_exhibit(trace, choice, source)
        for letter, trace, choice, source in zip(
            LETTERS, traces, shown.choices, compared.sources, strict=True
        )
    }
    title = f"{KIND_TEXTS[shown.kind].name}: A and B"
    both = beside(shown.stem, title, _caption(shown, compared), made)
    columns = max(each.columns for each in made.values()) or len(both.parts)
    if shown.display != "difference":
        return replace(both, columns=columns)
    apart = difference_map(*_maps(traces, shown), shown.choices)
    return replace(
        both,
        parts=(*both.parts, _panel(apart.name, apart)),
        arrays={**both.arrays, "difference": apart.weights},
        snippet=f"{both.snippet}difference = weights_a - weights_b\n",
        offline=(*both.views, Offline("lens", still_lens(apart))),
        columns=columns + 1,
    )


def differences_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """The differences of all heads that both sides have."""
    maps = _maps(traces, shown)
    choices = joined_choices(maps, shown.choices)
    layers, heads = (
        min(pair) for pair in zip(*(each.weights.shape[:2] for each in maps), strict=True)
    )
    apart = difference(*(each.weights[:layers, :heads] for each in maps))
    chosen = difference_map(*maps, choices)
    parts = tuple(
        _panel(f"A − B {layer + 1}.{head + 1}", replace(chosen, weights=apart[layer, head]))
        for layer in range(layers)
        for head in range(heads)
    )
    grid = still_grid(signed_sheet(maps, choices[0]), choices[0].cell)
    return Exhibit(
        name=shown.stem,
        title=f"{maps[0].kind_text.name}: A − B for every layer and head",
        caption=_caption(shown, compared),
        parts=parts,
        arrays={"maps_a": maps[0].weights, "maps_b": maps[1].weights, "difference": apart},
        snippet=_program(shown, compared)
        + f"difference = maps_a[:{layers}, :{heads}] - maps_b[:{layers}, :{heads}]\n",
        offline=(
            Offline("grid", grid),
            Offline("lens", still_lens(chosen), _lenses(maps, choices, (layers, heads))),
        ),
        columns=heads,
    )


def evenness_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """How evenly every head of both sides looks."""
    maps = _maps(traces, shown)
    spreads = [evenness(each.weights).astype("f4") for each in maps]
    parts = tuple(
        Panel(
            letter,
            spread,
            _numbers(len(spread)),
            _numbers(spread.shape[1]),
            "layer",
            "head",
            quantity="evenness",
        )
        for letter, spread in zip(LETTERS, spreads, strict=True)
    )
    program = _program(shown, compared, "from transformer.measures.entropy import evenness")
    return Exhibit(
        name=shown.stem,
        title=f"{maps[0].kind_text.name}: how evenly each head looks",
        caption=f"{_caption(shown, compared)} {EVENNESS_RULE}",
        parts=parts,
        arrays={"spread_a": spreads[0], "spread_b": spreads[1]},
        snippet=f"{program}spread_a, spread_b = evenness(maps_a), evenness(maps_b)\n",
        columns=2,
    )


def _maps(traces: Traces, shown: MapsChoice) -> tuple[Maps, Maps]:
    left, right = (maps_of(trace, shown.kind, shown.choices[0].units) for trace in traces)
    return left, right


def _panel(title: str, apart: Map) -> Panel:
    return Panel(
        title, apart.weights, tuple(apart.query_tokens), tuple(apart.key_tokens),
        f"query: {apart.query_title}", f"key: {apart.key_title}", "diverging", "A − B",
    )  # fmt: skip


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(index + 1) for index in range(count))


def _lenses(
    maps: tuple[Maps, Maps],
    choices: tuple[AttentionChoice, AttentionChoice],
    counts: tuple[int, int],
) -> Mapping[str, bytes]:
    """The lens of each cell; empty if that would make a large file."""
    if maps[0].weights.size > MOST_FOLLOWING:
        return {}
    found = {}
    for layer in (*range(counts[0]), None):
        for head in (*range(counts[1]), None):
            one, other = (replace(choice, cell=(layer, head)) for choice in choices)
            name = json.dumps([layer, head], separators=(",", ":"))
            found[name] = still_lens(difference_map(*maps, (one, other)))
    return found


def _program(shown: MapsChoice, compared: Compared, *imports: str) -> str:
    """The program up to `maps_a` and `maps_b`, [layers, heads, queries, keys]."""
    maps = "{letter}.attention({kind!r})"
    if shown.by_words:
        imports = (*imports, "from transformer.measures.words import maps_by_words")
        maps = "maps_by_words({letter}, {kind!r}).weights"
    return f"{reading(compared.sources, *imports)}\n" + "".join(
        f"maps_{letter} = {maps.format(letter=letter, kind=shown.kind)}\n" for letter in "ab"
    )


def _caption(shown: MapsChoice, compared: Compared) -> str:
    """What A and B are, and what a map is."""
    words = f" {WORD_RULE}" if shown.by_words else ""
    return f"{compared.about} Rows are queries, columns are keys.{words}"
