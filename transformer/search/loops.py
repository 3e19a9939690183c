"""Loops: translations that repeat a text until they reach the length limit."""

from dataclasses import dataclass

#: Shorter repetitions, such as "no, no" and the zeros of a number, are not loops.
MIN_TIMES, MIN_CHARACTERS = 3, 20


@dataclass(frozen=True)
class Loop:
    """The repeated end of a text."""

    kept: str  # the text up to the end of the first occurrence
    repeated: str  # the repeated text, from the start of a word if it has one
    times: int  # number of full occurrences


def find_loop(text: str) -> Loop | None:
    """Return the longest repetition at the end of a text, or None.

    The last occurrence may be incomplete. Call it for incomplete translations: a finished one may
    repeat text on purpose.
    """
    length, period = _repeated_end(text)
    times = length // period if period else 0
    if times < MIN_TIMES or length < MIN_CHARACTERS:
        return None
    start = len(text) - length
    # Any of the first `period` places can count as the start.
    at = next((at for at in range(start, start + period) if not text[:at][-1:].strip()), start)
    return Loop(text[: at + period].rstrip(), text[at : at + period].strip(), times)


def _repeated_end(text: str) -> tuple[int, int]:
    """Return the lengths of the longest repeating end and of its period.

    An end of length n has period p if the reversed text, shifted by p, agrees with itself for n - p
    characters: Z(p) of the Z-function, in linear time.
    """
    backwards, best = text[::-1], (0, 0)
    z, left, right = [0] * len(text), 0, 0
    for p in range(1, len(text)):
        agree = min(right - p, z[p - left]) if p < right else 0
        while p + agree < len(text) and backwards[agree] == backwards[p + agree]:
            agree += 1
        z[p] = agree
        if p + agree > right:
            left, right = p, p + agree
        if agree >= (MIN_TIMES - 1) * p and p + agree > best[0]:
            best = p + agree, p
    return best
