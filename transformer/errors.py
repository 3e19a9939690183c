"""The two errors that callers see; the message of each is one line that says what is wrong."""

from __future__ import annotations

#: Longest reason, in characters; what is longer loses its middle.
_LONGEST = 600


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: the message names the file and says what is wrong.

    It is one line whatever a file holds, and never longer than a screen.
    """

    def __init__(self, message: object) -> None:
        line = " ".join("".join(c if c.isprintable() else " " for c in str(message)).split(" "))
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST - 100]} … {line[-97:]}"
        super().__init__(line)


class InputError(ValueError):
    """Input that cannot be used; the message says what, which value, and what is allowed."""
