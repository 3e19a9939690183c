"""The downloads of Compare's own sections: maps, the matching, and the numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from figures.compare import beside
from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.choice import AttentionChoice
from ui.attention.exhibits import attention_exhibit
from ui.attention.maps import KIND_TEXTS, maps_of
from ui.compare.choice import Setup, can_follow
from ui.compare.maps.matching import Matching, matching, sentences_for
from ui.compare.maps.numbers import agreements, cross, crossed_views
from ui.compare.maps.pairing import difference_map
from ui.compare.maps.views import Both
from ui.compare.programs import AGREEMENT, followed_call, matching_program, reading
from ui.compare.sides import LETTERS, Download, who_is_who
from ui.components.lens import still_lens
from ui.components.match import Likeness, head_name, still_matches
from ui.export.download import source_of, trace_for


@dataclass(frozen=True)
class Wanted:
    """What a download of maps shows; holds no arrays.

    Attributes:
        setup: the sides.  kind: of attention.  display: as on the page.
        choices: of left and right, units included.
    """

    setup: Setup
    kind: AttentionKind
    display: str
    choices: tuple[AttentionChoice, AttentionChoice]

    @property
    def stem(self) -> str:
        """The file's name."""
        words = ["words"] if self.choices[0].units == "words" else []
        return file_stem("compare", KIND_TEXTS[self.kind].name, self.display, *words)


def maps_download(both: Both, display: str) -> Download | None:
    """The download of the maps on screen; None if no head is chosen."""
    if display == "difference" and not both.fit.units:
        display = "matrix"
    if display == "lines" and not all(choice.heads for choice in both.choices):
        return None
    count = 0
    for maps, choice in zip(both.maps, both.choices, strict=True):
        n_layers, n_heads, n, m = maps.weights.shape
        count += n * m * {"grid": n_layers * n_heads, "lines": len(choice.heads)}.get(display, 1)
    # Not `both`: its traces would stay in memory as long as the page is open.
    wanted = Wanted(both.setup, both.kind, display, both.choices)
    return Download(partial(maps_exhibit, wanted), wanted.stem, count)


def maps_exhibit(wanted: Wanted) -> Exhibit:
    """Return the Attention page's figures of both sides as one, with their difference if shown.

    Needs no session.
    """
    views = wanted.setup.left, wanted.setup.right
    traces = [trace_for(view) for view in views]
    made = {
        letter: attention_exhibit(trace, choice, source_of(view))
        for letter, view, trace, choice in zip(LETTERS, views, traces, wanted.choices, strict=True)
    }
    name = KIND_TEXTS[wanted.kind].name
    both = beside(wanted.stem, f"{name}: A and B", caption_of(wanted), made)
    columns = max(each.columns for each in made.values()) or len(both.parts)
    if wanted.display != "difference":
        return replace(both, columns=columns)
    left, right = (
        maps_of(trace, wanted.kind, choice.units)
        for trace, choice in zip(traces, wanted.choices, strict=True)
    )
    shown = difference_map(left, right, wanted.choices)
    panel = Panel(
        shown.name, shown.weights, tuple(shown.query_tokens), tuple(shown.key_tokens),
        f"query: {shown.query_title}", f"key: {shown.key_title}", "diverging",
    )  # fmt: skip
    return replace(
        both,
        parts=(*both.parts, panel),
        arrays={**both.arrays, "difference": shown.weights},
        snippet=f"{both.snippet}difference = weights_a - weights_b\n",
        offline=(*both.views, Offline("lens", still_lens(shown))),
        columns=columns + 1,
    )


def likeness(setup: Setup, found: Matching, kind: AttentionKind) -> Likeness:
    """What the component shows."""
    names = tuple(
        f"{letter} {name}" if name != letter else letter
        for letter, name in zip("AB", setup.names, strict=True)
    )
    about = f", in {KIND_TEXTS[kind].name.lower()} over {found.sentences} sentences"
    return Likeness(found.values, found.shapes, found.pairs, (names[0], names[1]), about)


def heads_exhibit(setup: Setup, kind: AttentionKind, chosen: tuple[int, int]) -> Exhibit:
    """The similarities of all heads and the pairing. Needs no session."""
    found = matching(setup, kind)
    if found is None:
        raise ValueError("no sentence has the same words in both models")
    shown = likeness(setup, found, kind)
    pairs = np.array(found.pairs, dtype=np.int64)
    rows, columns = (
        tuple(head_name(at, shape) for at in range(count))
        for shape, count in zip(found.shapes, found.values.shape, strict=True)
    )
    values = found.values.astype(np.float32)
    return Exhibit(
        name=file_stem("heads matched", KIND_TEXTS[kind].name),
        title=f"{KIND_TEXTS[kind].name}: how alike the heads of two models are",
        caption="Similarity of every pair of heads, layer.head: 1 minus the mean Jensen-Shannon "
        f"divergence of rows in bits, over whole words of {found.sentences} sentences. The pairs "
        "in the NPZ are the assignment with the largest sum.",
        parts=(Panel("Similarity", values, rows, columns, *shown.names),),
        arrays={"values": values, "pairs": pairs},
        snippet=reading(setup) + matching_program(
            kind, (setup.left, setup.right), sentences_for(setup), follow=can_follow(setup.right)
        ),
        offline=Offline("match", still_matches(shown, chosen)),
    )  # fmt: skip


def numbers_exhibit(setup: Setup) -> Exhibit:
    """Log-probabilities of both translations by both sides, and agreement. Needs no session."""
    left, right = trace_for(setup.left), trace_for(setup.right)
    views = crossed_views(setup, left, right)
    texts = right.text, left.text
    followed: list[Trace | None] = [
        trace_for(view) if text.strip() and can_follow(view) else None
        for view, text in zip(views, texts, strict=True)
    ]
    crossed = cross(left, right, followed[0], followed[1])
    by_place = setup.pairing == "sentences"
    agreed = agreements(left, followed[1] or right, by_place=by_place)
    log_p = np.array(crossed.totals)
    parts: list[Series | Panel] = [
        Series(
            "log P of each translation", ("A's translation", "B's translation"),
            {f"by {name}": log_p[:, at] for at, name in enumerate("AB")},
            y_title="log P (nats)", mark="bar",
        )
    ]  # fmt: skip
    arrays = {"log_p": log_p}
    if agreed:
        arrays["agreement"] = np.array([[each.mean, each.matched] for each in agreed])
        parts.append(
            Panel(
                "Agreement of attention", arrays["agreement"],
                tuple(KIND_TEXTS[each.kind].name for each in agreed),
                ("mean of all heads", "heads, matched"),
            )
        )  # fmt: skip
    program = reading(setup) + (
        f"\nb_by_a = {_followed(setup, 0, followed[0])}\n"
        f"a_by_b = {_followed(setup, 1, followed[1])}\n"
        "\n\ndef log_p_of(trace):\n"
        "    if trace is None or len(trace.log_probs) != len(trace.predicted_tokens):\n"
        "        return np.nan\n"
        '    return trace.log_probs.sum(dtype="f8")\n\n\n'
        "log_p = np.array([[log_p_of(a), log_p_of(a_by_b)], [log_p_of(b_by_a), log_p_of(b)]])\n"
    )
    if agreed:
        kinds = [each.kind for each in agreed]
        program += AGREEMENT.format(kinds=kinds)
    return Exhibit(
        name=file_stem("compare numbers"),
        title="Each other's translation, and how alike the attention is",
        caption="log P in nats, </s> included, of each side's translation read by both sides; "
        "agreement is 1 minus the mean Jensen-Shannon divergence of rows in bits, over whole "
        "words, B following A's translation.",
        parts=tuple(parts),
        arrays=arrays,
        snippet=program,
    )


def _followed(setup: Setup, side: int, found: Trace | None) -> str:
    """The call that makes a side follow the other one's text."""
    if found is None:
        return "None"
    return followed_call((setup.left, setup.right), side)


def start_of_program(wanted: Wanted, *imports: str) -> str:
    """The program up to `maps_a` and `maps_b`, [layers, heads, queries, keys]."""
    words = wanted.choices[0].units == "words"
    if words:
        imports = (*imports, "from transformer.measures.words import maps_by_words")
    program = reading(wanted.setup, *imports) + "\n"
    for letter in "ab":
        maps = f"{letter}.attention({wanted.kind!r})"
        if words:
            maps = f"maps_by_words({letter}, {wanted.kind!r}).weights"
        program += f"maps_{letter} = {maps}\n"
    return program


def caption_of(wanted: Wanted) -> str:
    """What A and B are, and what a map is."""
    words = f" {WORD_RULE}" if wanted.choices[0].units == "words" else ""
    return f"{who_is_who(wanted.setup)} Rows are queries, columns are keys.{words}"
