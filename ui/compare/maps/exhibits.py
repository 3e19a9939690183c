"""The figures of what only Compare shows: the matching of heads, and the numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from transformer.measures.agreement import Matching, head_agreements, total_log_prob
from transformer.measures.compare import Reals
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.maps import KIND_TEXTS
from ui.compare.programs import Compared, following_call, matching_program, reading
from ui.components.match import Likeness, head_name, still_matches
from ui.export.programs import Source


def likeness(found: Matching, kind: AttentionKind, names: tuple[str, str]) -> Likeness:
    """What the component shows; `names` are those of A and B."""
    about = f", in {KIND_TEXTS[kind].name.lower()} over {found.sentences} sentences"
    one, other = (
        letter if name == letter else f"{letter} {name}"
        for letter, name in zip("AB", names, strict=True)
    )
    return Likeness(found.values, found.shapes, found.pairs, (one, other), about)


def heads_exhibit(
    found: Matching,
    shown: Likeness,
    kind: AttentionKind,
    chosen: tuple[int, int],
    compared: Compared,
    greedy: tuple[Sequence[Source], Sequence[Source]],
    *,
    follow: bool,
) -> Exhibit:
    """The similarities of all heads and the pairing.

    Args:
        chosen: the pair outlined.
        greedy, follow: as in `matching_program`.
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
        snippet=matching_program(compared, kind, greedy, follow=follow),
        offline=Offline("match", still_matches(shown, chosen)),
    )


def crossed(left: Trace, right: Trace, b_by_a: Trace | None, a_by_b: Trace | None) -> Reals:
    """Return log P of each side's translation under each side's model, in nats.

    Returns: [text of A, text of B] x [A, B]; NaN if a side cannot follow a text.
    """
    totals = [total_log_prob(each) for each in (left, a_by_b, b_by_a, right)]
    return np.array(totals).reshape(2, 2)


def numbers_exhibit(
    traces: tuple[Trace, Trace],
    followed: tuple[Trace | None, Trace | None],
    compared: Compared,
    *,
    by_place: bool,
) -> Exhibit:
    """Log-probabilities of both translations under both models, and agreement of attention.

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
            {f"by {name}": log_p[:, at] for at, name in enumerate("AB")},
            y_title="log P (nats)", mark="bar",
        )
    ]  # fmt: skip
    arrays = {"log_p": log_p}
    program = _crossed_program(compared, followed)
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


def _crossed_program(compared: Compared, followed: tuple[Trace | None, Trace | None]) -> str:
    imports = "from transformer.measures.agreement import head_agreements, total_log_prob"
    calls = [
        "None" if trace is None else following_call(compared.sources, side)
        for side, trace in enumerate(followed)
    ]
    return reading(compared.sources, imports) + (
        f"\nb_by_a = {calls[0]}\n"
        f"a_by_b = {calls[1]}\n"
        "totals = [total_log_prob(each) for each in (a, a_by_b, b_by_a, b)]\n"
        "log_p = np.array(totals).reshape(2, 2)\n"
    )
