"""Errors that callers handle; their messages have one line."""

#: Maximum length of a message in characters; longer messages lose their middle.
_LONGEST = 600


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file and the error.

    Whatever the file contains, the message is one line of bounded length.
    """

    def __init__(self, message: object) -> None:
        line = " ".join("".join(c if c.isprintable() else " " for c in str(message)).split(" "))
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST - 100]} … {line[-97:]}"
        super().__init__(line)


class InputError(ValueError):
    """Input that cannot be used; the message names it, its value, and allowed values."""
