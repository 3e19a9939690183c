"""Whether this server is public: open to strangers, so nobody imports and everybody has limits.

`HEADLIGHT_PUBLIC=1` is the one switch; see docs/hosting.md for what follows from it.
"""

from __future__ import annotations

import os

VARIABLE = "HEADLIGHT_PUBLIC"

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


def refused_by(variable: str, what: str) -> str:
    """Return the sentence that says which variable switches something off."""
    shown = setting(variable)[:20]
    return f"{what} is switched off on this server ({variable}={shown})."
