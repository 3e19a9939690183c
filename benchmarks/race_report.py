"""Report of the race in `views.py`: a table and ratios."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

CONTESTANTS = ("bertviz", "headlight")


@dataclass(frozen=True)
class Result:
    """One contestant at one length.

    Attributes:
        sent: bytes.  prepared, first, change: seconds; None if it did not get that far.
        failed: the reason of a failure, or "".
        waited: time limit in seconds of a drawing that exceeded it.
    """

    sent: int | None = None
    prepared: float | None = None
    first: float | None = None
    change: float | None = None
    failed: str = ""
    waited: float | None = None


def ratio(one: float | None, other: float | None) -> float | None:
    """Return a ratio to three digits."""
    return float(f"{one / other:.3g}") if one is not None and other else None


def summary(results: dict[int, dict[str, Result]]) -> dict[str, Any]:
    """Return the JSON output: BertViz divided by Headlight, by number of tokens.

    If BertViz exceeded the time limit, the limit stands in for its time, which is longer.
    """
    ratios: dict[str, dict[str, float | None]] = {
        "bytes_ratio": {}, "first_ratio": {}, "change_ratio": {}
    }  # fmt: skip
    for tokens, by_name in results.items():
        bertviz, ours = by_name["bertviz"], by_name["headlight"]
        ratios["bytes_ratio"][str(tokens)] = ratio(bertviz.sent, ours.sent)
        for name in ("first", "change"):
            theirs = getattr(bertviz, name) or bertviz.waited
            ratios[f"{name}_ratio"][str(tokens)] = ratio(theirs, getattr(ours, name))
    works = {
        who: max((n for n, by_name in results.items() if not by_name[who].failed), default=0)
        for who in CONTESTANTS
    }
    measured = {
        str(tokens): {who: asdict(result) for who, result in by_name.items()}
        for tokens, by_name in results.items()
    }
    return {**ratios, "largest_length": works, "measured": measured}


def table(results: dict[int, dict[str, Result]]) -> str:
    """Return the results as a Markdown table."""
    ratios = summary(results)
    lines = [
        "| tokens | | sent for all maps | first picture | change of view |",
        "|---:|---|---:|---:|---:|",
    ]
    for tokens, by_name in results.items():
        for who, label in (("bertviz", "BertViz"), ("headlight", "Headlight")):
            result = by_name[who]
            sent = "-" if result.sent is None else f"{result.sent / 1e6:,.2f} MB"
            first, change = (
                result.failed or "-" if seconds is None else f"{seconds:.2f} s"
                for seconds in (result.first, result.change)
            )
            lines.append(f"| {tokens if who == 'bertviz' else ''} | {label} | {sent} | {first} | "
                         f"{change} |")  # fmt: skip
        times = []
        for name in ("bytes", "first", "change"):
            value = ratios[f"{name}_ratio"][str(tokens)]
            least = ">" if name != "bytes" and by_name["bertviz"].failed else ""
            times.append("" if value is None else f"**{least}{value:g} x**")
        lines.append(f"| | | {' | '.join(times)} |")
    works = ratios["largest_length"]
    lines.append("")
    lines.append(
        f"Largest length that works: BertViz {works['bertviz']}, Headlight {works['headlight']}."
    )
    return "\n".join(lines)
