"""Figures of both sides: maps with their difference, matched heads, numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from figures.compare import LETTERS, beside
from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from figures.labels import KIND_NAMES, counted
from transformer.errors import InputError
from transformer.measures.compare import (
    HeadPair,
    Matching,
    head_agreements,
    match,
    total_log_prob,
)
from transformer.measures.entropy import EVENNESS_RULE, evenness
from transformer.measures.heads import How
from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.types import AttentionKind, Reals
from ui.attention.exhibits import MOST_FOLLOWING, attention_exhibit
from ui.attention.maps import AttentionChoice, Maps, maps_of
from ui.compare.pairing import difference_map, joined_choices, signed_sheet
from ui.components.grid import grid_component
from ui.components.match import Likeness, head_name
from ui.export.programs import Source, call, of_two

Traces = tuple[Trace, Trace]


@dataclass(frozen=True)
class Compared:
    """Both sides, as captions and programs name them."""

    about: str  # what A and B are, in a sentence or two
    sources: tuple[Source, Source]  # where the traces of A and B come from

    def figure(
        self, made: Exhibit, function: Callable[..., Exhibit], between: str = "", **choice: Any
    ) -> Exhibit:
        """Return a figure that says what A and B are, with the program that makes it.

        Args:
            function: of `headlight`; its parameters without a default come from the sources.
            between: lines of the program that make other variables.
            choice: its other arguments.
        """
        traced = "a" in signature(function).parameters
        program = of_two(self.sources, ("a", "b"), between, traced=traced)
        return replace(
            made, caption=f"{self.about} {made.caption}",
            snippet=program + call(made, function, choice),
        )  # fmt: skip

    def of(self, function: Callable[..., Exhibit], traces: Traces, **choice: Any) -> Exhibit:
        """Return the figure of a function of two traces."""
        return self.figure(function(*traces, **choice), function, **choice)


@dataclass(frozen=True)
class MapsChoice:
    """The maps to show of both sides; holds no arrays."""

    display: str  # one of `ui.compare.attention.DISPLAYS`, or "entropies"
    #: of A and B; kind and units are the same in both
    choices: tuple[AttentionChoice, AttentionChoice]

    @property
    def kind(self) -> AttentionKind:
        """The kind of attention."""
        return self.choices[0].kind

    @property
    def stem(self) -> str:
        """The file's name."""
        words = ["words"] if self.choices[0].units == "words" else []
        return file_stem("compare", KIND_NAMES[self.kind], self.display, *words)


def any_maps_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """Return the figure of the maps on screen."""
    choice = shown.choices[0]
    units = {"kind": choice.kind, "units": choice.units}
    if shown.display == "entropies":
        return compared.of(attention_evenness, traces, **units)
    if shown.display == "differences":
        layer, head = choice.cell
        where = {"layer": layer, "head": head, "how": choice.how, "dim": choice.dim}
        return compared.of(attention_differences, traces, **units, **where)
    return maps_exhibit(traces, shown, compared)


def maps_exhibit(traces: Traces, shown: MapsChoice, compared: Compared) -> Exhibit:
    """Return the Attention page's figures of both sides, with their difference if shown."""
    made = {
        letter: attention_exhibit(trace, choice, source)
        for letter, trace, choice, source in zip(
            LETTERS, traces, shown.choices, compared.sources, strict=True
        )
    }
    title = f"{KIND_NAMES[shown.kind]}: A and B"
    caption = f"{compared.about} {_caption(shown.choices[0])}"
    both = beside(shown.stem, title, caption, made)
    columns = max(each.columns for each in made.values()) or len(both.parts)
    both = replace(both, columns=columns)
    if shown.display != "difference":
        return both
    maps = [maps_of(trace, shown.kind, shown.choices[0].units) for trace in traces]
    apart = difference_map(maps[0], maps[1], shown.choices)
    return difference_exhibit(both, apart.panel(), "weights", apart.lens().offline())


def difference_exhibit(both: Exhibit, panel: Panel, array: str, *views: Offline) -> Exhibit:
    """Add the difference of an array of A and B to the figure of both."""
    return replace(
        both,
        parts=(*both.parts, panel),
        arrays={**both.arrays, "difference": panel.values},
        snippet=f"{both.snippet}difference = {array}_a - {array}_b\n",
        offline=(*both.views, *views),
        columns=both.columns + 1,
    )


def attention_differences(
    a: Trace,
    b: Trace,
    kind: AttentionKind = "cross",
    layer: int | None = None,
    head: int | None = None,
    *,
    units: str = "tokens",
    how: How = "mean",
    dim: bool = False,
) -> Exhibit:
    """Return A - B of all heads that both traces have, as a figure.

    Args:
        layer, head: from 0, under the lens; None combines all of them by `how`.
        units: "tokens" or "words".
        dim: cover special tokens.
    """
    maps = maps_of(a, kind, units), maps_of(b, kind, units)
    choice = AttentionChoice(kind, "grid", units, how, dim, (layer, head))
    choices = joined_choices(maps, (choice, choice))
    layers, heads = (
        min(pair) for pair in zip(*(each.weights.shape[:2] for each in maps), strict=True)
    )
    apart = np.subtract(*(each.weights[:layers, :heads] for each in maps))
    chosen = difference_map(*maps, choices)
    grid = grid_component(signed_sheet(maps, choices[0]), choices[0].cell)
    return Exhibit(
        name=MapsChoice("differences", choices).stem,
        title=f"{maps[0].kind_text.name}: A − B for every layer and head",
        caption=_caption(choice),
        parts=tuple(
            replace(
                chosen, weights=apart[layer, head], name=f"A − B {layer + 1}.{head + 1}"
            ).panel()
            for layer, head in np.ndindex(layers, heads)
        ),
        arrays={"maps_a": maps[0].weights, "maps_b": maps[1].weights, "difference": apart},
        offline=(
            grid.offline(),
            chosen.lens().offline(_lenses(maps, choices, (layers, heads))),
        ),
        columns=heads,
    )


def attention_evenness(
    a: Trace, b: Trace, kind: AttentionKind = "cross", *, units: str = "tokens"
) -> Exhibit:
    """Return how evenly every head of both traces looks, as a figure; units as above."""
    choice = AttentionChoice(kind, "grid", units)
    parts, arrays = [], {}
    for letter, trace in zip(LETTERS, (a, b), strict=True):
        spread = evenness(maps_of(trace, kind, units).weights).astype("f4")
        layers, heads = (counted(n) for n in spread.shape)
        parts.append(Panel(letter, spread, layers, heads, "layer", "head", quantity="evenness"))
        arrays[f"spread_{letter.lower()}"] = spread
    return Exhibit(
        name=MapsChoice("entropies", (choice, choice)).stem,
        title=f"{KIND_NAMES[kind]}: how evenly each head looks",
        caption=f"{_caption(choice)} {EVENNESS_RULE}",
        parts=tuple(parts),
        arrays=arrays,
        columns=2,
    )


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


def _caption(choice: AttentionChoice) -> str:
    words = f" {WORD_RULE}" if choice.units == "words" else ""
    return f"Rows are queries, columns are keys.{words}"


def likeness(found: Matching, kind: AttentionKind, names: tuple[str, str]) -> Likeness:
    """Return what the component shows; `names` are those of A and B."""
    about = f", in {KIND_NAMES[kind].lower()} over {found.sentences} sentences"
    one, other = (
        letter if name == letter else f"{letter} {name}"
        for letter, name in zip(LETTERS, names, strict=True)
    )
    return Likeness(found.values, found.shapes, found.pairs, (one, other), about)


def matched_heads(
    model_a: Tracer,
    model_b: Tracer,
    kind: AttentionKind = "encoder_self",
    *,
    sentences: Sequence[tuple[str, str]],
    arguments: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    follow: bool = True,
    names: tuple[str, str] = ("A", "B"),
    chosen: HeadPair = (0, 0),
) -> Exhibit:
    """Return the similarities of all heads of two models, and their pairing, as a figure.

    Args:
        sentences: as A and as B reads them; a model that refuses one leaves it out.
        arguments: of `Tracer.trace`, of A and of B.
        follow: B follows A's translations.
        names: of both models.
        chosen: the pair outlined.

    Raises: `ValueError` if the models see the same words in no sentence.
    """
    found = []
    for one, other in sentences:
        try:
            a = model_a.trace(one, **arguments[0])
            target = a.text if follow and a.text.strip() else None
            b = model_b.trace(other, target=target, **arguments[1])
        except InputError:
            continue
        found.append(head_agreements(a, b).get(kind))
    return matching_exhibit(match(found), kind, names, chosen)


def matching_exhibit(
    found: Matching | None, kind: AttentionKind, names: tuple[str, str], chosen: HeadPair
) -> Exhibit:
    """Return the figure of `matched_heads` of a matching."""
    if found is None:
        raise ValueError("no sentence has the same words in both models")
    rows, columns = (
        tuple(head_name(at, shape) for at in range(count))
        for shape, count in zip(found.shapes, found.values.shape, strict=True)
    )
    values, shown = found.values.astype(np.float32), likeness(found, kind, names)
    return Exhibit(
        name=file_stem("heads matched", KIND_NAMES[kind]),
        title=f"{KIND_NAMES[kind]}: how alike the heads of two models are",
        caption="Similarity of every pair of heads, layer.head: 1 minus the mean "
        f"Jensen-Shannon divergence of rows in bits, over whole words of {found.sentences} "
        "sentences. The pairs in the NPZ are the assignment with the largest sum.",
        parts=(Panel("Similarity", values, rows, columns, *shown.names, quantity="similarity"),),
        arrays={"values": values, "pairs": np.array(found.pairs, dtype=np.int64)},
        offline=shown.component(chosen).offline(),
    )


def crossed(left: Trace, right: Trace, b_by_a: Trace | None, a_by_b: Trace | None) -> Reals:
    """Return log p of each side's translation under each side's model, in nats.

    Returns: [text of A, text of B] x [A, B]; NaN if a side cannot follow a text.
    """
    totals = [total_log_prob(each) for each in (left, a_by_b, b_by_a, right)]
    return np.array(totals).reshape(2, 2)


def compared_numbers(
    a: Trace, b: Trace, b_by_a: Trace | None, a_by_b: Trace | None, *, by_place: bool = False
) -> Exhibit:
    """Return log p of both translations under both models, and how alike attention is, as a figure.

    Args:
        b_by_a, a_by_b: A following B's translation and B following A's; None if that cannot be.
        by_place: as in `transformer.measures.compare.head_agreements`.
    """
    log_p = crossed(a, b, b_by_a, a_by_b)
    agreed = head_agreements(a, a_by_b or b, by_place=by_place)
    parts: list[Series | Panel] = [
        Series(
            "log p of each translation", ("A's translation", "B's translation"),
            {f"by {name}": log_p[:, at] for at, name in enumerate(LETTERS)},
            y_title="log p (nats)", mark="bar",
        )
    ]  # fmt: skip
    arrays = {"log_p": log_p}
    if agreed:
        arrays["agreement"] = np.array([[each.mean, each.matched] for each in agreed.values()])
        parts.append(
            Panel(
                "Agreement of attention", arrays["agreement"],
                tuple(KIND_NAMES[kind] for kind in agreed),
                ("mean of all heads", "heads, matched"), quantity="agreement",
            )
        )  # fmt: skip
    return Exhibit(
        name=file_stem("compare numbers"),
        title="How each model scores the other's translation, and how alike the attention is",
        caption="log p in nats, </s> included, of each side's translation read by both sides; "
        "agreement is 1 minus the mean Jensen-Shannon divergence of rows in bits, over whole "
        "words, B following A's translation.",
        parts=tuple(parts),
        arrays=arrays,
    )
