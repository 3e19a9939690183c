"""Settings of a public server, open to strangers: no imports, and limits for everybody.

`HEADLIGHT_PUBLIC=1` is the one switch; see docs/hosting.md for what follows from it.
"""

from __future__ import annotations

import os

VARIABLE = "HEADLIGHT_PUBLIC"

#: Whether visitors may start jobs of minutes: train toy models, measure layers.
TRAIN = "HEADLIGHT_TRAIN"

ON = ("1", "on", "true", "yes")
OFF = ("", "0", "off", "false", "no")


def setting(variable: str) -> str:
    """Return an environment variable's value, in lower case and without spaces around it."""
    return os.environ.get(variable, "").strip().lower()


def is_public() -> bool:
    """Return whether this server is public. A value that is not known counts as yes."""
    return setting(VARIABLE) not in OFF


def whole_number(variable: str, default: int, public_default: int) -> int:
    """Return the whole number in a variable; if it is empty, the default of this kind of server.

    Raises: `ValueError`, one line, if it holds anything else.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        return public_default if is_public() else default
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{variable}={text[:20]}: must be a whole number, 0 for no limit")
    return int(text)


def job_refusal(what: str) -> str | None:
    """Return why this server runs no long jobs of its visitors, or None.

    Args: what: the job, to begin a sentence with.
    """
    allowed = setting(TRAIN)
    if allowed in ON or (not allowed and not is_public()):
        return None
    return refused_by(TRAIN if allowed else VARIABLE, what)


def refused_by(variable: str, what: str) -> str:
    """Return the sentence that says which variable switches something off."""
    shown = setting(variable)[:20]
    return f"{what} is switched off on this server ({variable}={shown})."
