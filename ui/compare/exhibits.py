"""Figures of both sides: maps and their difference, matched heads, and numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from figures.attention import LETTERS, beside
from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from figures.labels import KIND_NAMES
from transformer.measures.compare import HeadPair, Matching, head_agreements, match, total_log_prob
from transformer.measures.heads import EVENNESS_RULE, How, evenness
from transformer.measures.words import WORD_RULE, Units
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.types import AttentionKind, InputError, Reals
from ui.attention.exhibits import attention_exhibit, messages
from ui.attention.maps import AttentionChoice, maps_of
from ui.compare.pairing import difference_map, joined_choices, signed_sheet
from ui.components.grid import Cell, grid_component
from ui.components.lens import Map
from ui.components.match import Likeness, head_name
from ui.export.programs import Source, call, of_two

Traces = tuple[Trace, Trace]


@dataclass(frozen=True)
class Compared:
    """Descriptions of both sides for captions and programs."""

    about: str  # one or two sentences that describe A and B
    sources: tuple[Source, Source]  # sources of both traces

    def figure(
        self, exhibit: Exhibit, function: Callable[..., Exhibit], between: str = "", **choice: Any
    ) -> Exhibit:
        """Return a figure with a caption that describes A and B, and with its program.

        Args:
            function: a function of `headlight`; its required parameters come from the sources.
            between: program lines that define other variables.
            choice: its other arguments.
        """
        traced = "a" in signature(function).parameters
        program = of_two(self.sources, ("a", "b"), between, traced=traced)
        return replace(
            exhibit, caption=f"{self.about} {exhibit.caption}",
            snippet=program + call(exhibit, function, choice),
        )  # fmt: skip

    def of(self, function: Callable[..., Exhibit], traces: Traces, **choice: Any) -> Exhibit:
        """Return the figure from a function of two traces."""
        return self.figure(function(*traces, **choice), function, **choice)


@dataclass(frozen=True)
class MapsChoice:
    """The maps to draw on both sides, without arrays."""

    display: str  # one of `ui.compare.attention.DISPLAYS`, or "entropies"
    choices: tuple[AttentionChoice, AttentionChoice]  # for A and B, with equal kind and units

    @property
    def kind(self) -> AttentionKind:
        """The kind of attention."""
        return self.choices[0].kind

    @property
    def stem(self) -> str:
        """The file name without a suffix."""
        words = ["words"] if self.choices[0].units == "words" else []
        return file_stem("compare", KIND_NAMES[self.kind], self.display, *words)


def maps_exhibit(traces: Traces, chosen: MapsChoice, compared: Compared) -> Exhibit:
    """Return the figure of the maps on screen."""
    choice = chosen.choices[0]
    units = {"kind": choice.kind, "units": choice.units}
    if chosen.display == "entropies":
        return compared.of(attention_evenness, traces, **units)
    if chosen.display == "differences":
        layer, head = choice.cell
        where = {"layer": layer, "head": head, "how": choice.how, "dim": choice.dim}
        return compared.of(attention_differences, traces, **units, **where)
    sides = zip(LETTERS, traces, chosen.choices, compared.sources, strict=True)
    exhibits = {
        letter: attention_exhibit(trace, maps, source) for letter, trace, maps, source in sides
    }
    title = f"{KIND_NAMES[chosen.kind]}: A and B"
    both = beside(chosen.stem, title, f"{compared.about} {_caption(choice)}", exhibits)
    columns = max(exhibit.columns for exhibit in exhibits.values()) or len(both.parts)
    both = replace(both, columns=columns)
    if chosen.display != "difference":
        return both
    maps = [maps_of(trace, chosen.kind, choice.units) for trace in traces]
    apart = difference_map(maps[0], maps[1], chosen.choices)
    return difference_exhibit(both, apart.panel(), "weights", apart.lens().offline())


def difference_exhibit(both: Exhibit, panel: Panel, array: str, *views: Offline) -> Exhibit:
    """Add the difference between A's and B's arrays to the figure of both."""
    return replace(
        both, parts=(*both.parts, panel), arrays={**both.arrays, "difference": panel.values},
        snippet=f"{both.snippet}difference = {array}_a - {array}_b\n",
        offline=(*both.views, *views), columns=both.columns + 1,
    )  # fmt: skip


def attention_differences(
    a: Trace, b: Trace, kind: AttentionKind = "cross", layer: int | None = None,
    head: int | None = None, *, units: Units = "tokens", how: How = "mean", dim: bool = False,
) -> Exhibit:  # fmt: skip
    """Return A - B for all heads in both traces, as a figure.

    Args:
        layer, head: 0-based, under the lens; None combines all by `how`.
        units: "tokens" or "words".
        dim: cover special tokens.
    """
    maps = maps_of(a, kind, units), maps_of(b, kind, units)
    choice = AttentionChoice(kind, "grid", units, how, dim, (layer, head))
    choices = joined_choices(maps, (choice, choice))
    layers, heads = map(int, np.minimum(*(side.weights.shape[:2] for side in maps)))
    apart = np.subtract(*(side.weights[:layers, :heads] for side in maps))
    chosen = difference_map(*maps, choices)
    grid = grid_component(signed_sheet(maps, choices[0]), choices[0].cell)

    def of_cell(cell: Cell) -> Map:
        one, other = (replace(choice, cell=cell) for choice in choices)
        return difference_map(*maps, (one, other))

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
        offline=(grid.offline(), chosen.lens().offline(messages(apart, of_cell))),
        columns=heads,
    )


def attention_evenness(
    a: Trace, b: Trace, kind: AttentionKind = "cross", *, units: Units = "tokens"
) -> Exhibit:
    """Return the evenness of each head in both traces, as a figure."""
    choice = AttentionChoice(kind, "grid", units)
    parts, arrays = [], {}
    for letter, trace in zip(LETTERS, (a, b), strict=True):
        spread = evenness(maps_of(trace, kind, units).weights).astype("f4")
        parts.append(Panel.of_heads(letter, spread, quantity="evenness"))
        arrays[f"spread_{letter.lower()}"] = spread
    return Exhibit(
        name=MapsChoice("entropies", (choice, choice)).stem,
        title=f"{KIND_NAMES[kind]}: evenness of each head",
        caption=f"{_caption(choice)} {EVENNESS_RULE}", parts=tuple(parts), arrays=arrays, columns=2,
    )  # fmt: skip


def _caption(choice: AttentionChoice) -> str:
    words = f" {WORD_RULE}" if choice.units == "words" else ""
    return f"Rows are queries, columns are keys.{words}"


def likeness(matching: Matching, kind: AttentionKind, names: tuple[str, str]) -> Likeness:
    """Return the component's data; `names` are model names of A and B."""
    about = f", in {KIND_NAMES[kind].lower()} over {matching.sentences} sentences"
    one, other = (
        letter if name == letter else f"{letter} {name}"
        for letter, name in zip(LETTERS, names, strict=True)
    )
    return Likeness(matching.values, matching.shapes, matching.pairs, (one, other), about)


def matched_heads(
    model_a: Tracer, model_b: Tracer, kind: AttentionKind = "encoder_self", *,
    sentences: Sequence[tuple[str, str]],
    arguments: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}), follow: bool = True,
    names: tuple[str, str] = ("A", "B"), chosen: HeadPair = (0, 0),
) -> Exhibit:  # fmt: skip
    """Return the similarity of two models' heads and their matching, as a figure.

    Args:
        sentences: (for A, for B); sentences that a model rejects are left out.
        arguments: arguments of `Tracer.trace` for A and B.
        follow: B follows A's translations.
        names: names of A and B.
        chosen: the pair to outline.

    Raises: `ValueError` if the models have the same words in no sentence.
    """
    agreements = []
    for one, other in sentences:
        try:
            a = model_a.trace(one, **arguments[0])
            target = a.text if follow and a.text.strip() else None
            b = model_b.trace(other, target=target, **arguments[1])
        except InputError:
            continue
        agreements.append(head_agreements(a, b).get(kind))
    return matching_exhibit(match(agreements), kind, names, chosen)


def matching_exhibit(
    matching: Matching | None, kind: AttentionKind, names: tuple[str, str], chosen: HeadPair
) -> Exhibit:
    """Return the figure of `matched_heads` for a matching."""
    if matching is None:
        raise ValueError("no sentence has the same words in both models")
    rows, columns = (
        tuple(head_name(at, shape) for at in range(count))
        for shape, count in zip(matching.shapes, matching.values.shape, strict=True)
    )
    values, data = matching.values.astype(np.float32), likeness(matching, kind, names)
    return Exhibit(
        name=file_stem("heads matched", KIND_NAMES[kind]),
        title=f"{KIND_NAMES[kind]}: similarity of two models' heads",
        caption="Similarity of each pair of heads, layer.head: 1 minus the mean "
        f"Jensen-Shannon divergence of rows in bits, over whole words of {matching.sentences} "
        "sentences. The pairs in the NPZ are the assignment with the largest sum.",
        parts=(Panel("Similarity", values, rows, columns, *data.names, quantity="similarity"),),
        arrays={"values": values, "pairs": np.array(matching.pairs, dtype=np.int64)},
        offline=data.component(chosen).offline(),
    )


def crossed(left: Trace, right: Trace, b_by_a: Trace | None, a_by_b: Trace | None) -> Reals:
    """Return log p of each translation under each model in nats, or NaN if it cannot follow it.

    Returns: [text of A, text of B] x [A, B].
    """
    totals = [total_log_prob(trace) for trace in (left, a_by_b, b_by_a, right)]
    return np.array(totals).reshape(2, 2)


def compared_numbers(
    a: Trace, b: Trace, b_by_a: Trace | None, a_by_b: Trace | None, *, by_place: bool = False
) -> Exhibit:
    """Return log p of both translations under both models, and attention similarity, as a figure.

    Args:
        b_by_a, a_by_b: A following B's translation, and B following A's, or None if impossible.
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
        arrays["agreement"] = np.array([[kind.mean, kind.matched] for kind in agreed.values()])
        parts.append(
            Panel(
                "Agreement of attention", arrays["agreement"],
                tuple(KIND_NAMES[kind] for kind in agreed),
                ("mean of all heads", "heads, matched"), quantity="agreement",
            )
        )  # fmt: skip
    return Exhibit(
        name=file_stem("compare numbers"),
        title="Scores of both translations under both models, and similarity of attention",
        caption="log p in nats, including </s>, of each translation read by both sides; "
        "agreement is 1 minus the mean Jensen-Shannon divergence of rows in bits, over whole "
        "words, with B following A's translation.",
        parts=tuple(parts),
        arrays=arrays,
    )
