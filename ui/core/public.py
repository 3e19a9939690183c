"""Settings of a public server: no imports, and limits for visitors.

`HEADLIGHT_PUBLIC=1` switches them all on; see docs/hosting.md.
"""

import os

VARIABLE = "HEADLIGHT_PUBLIC"

#: Allows visitors to start jobs that take minutes: train toy models, measure layers.
TRAIN = "HEADLIGHT_TRAIN"

#: Compute quota of a session for sentences, model loading, computations and files, with the
#: default of a public server in seconds. A sentence of 10 tokens takes 0.1 s.
QUOTA, SECONDS = "HEADLIGHT_BUDGET_SECONDS", 60

ON = ("1", "on", "true", "yes")
OFF = ("", "0", "off", "false", "no")


def setting(variable: str) -> str:
    """Return an environment variable, stripped and in lower case."""
    return os.environ.get(variable, "").strip().lower()


def is_public() -> bool:
    """Return True if this server is public; unknown values count as yes."""
    return setting(VARIABLE) not in OFF


def whole_number(variable: str, default: int, public_default: int) -> int:
    """Return a variable's whole number, or the default for this kind of server if it is empty.

    Raises: `ValueError` for any other text.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        return public_default if is_public() else default
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{variable}={text[:20]}: must be a whole number, 0 for no limit")
    return int(text)


def job_refusal(what: str) -> str | None:
    """Return why visitors may not start long jobs, or None.

    Args: what: subject of the sentence, the job.
    """
    allowed = setting(TRAIN)
    if allowed in ON or (not allowed and not is_public()):
        return None
    return refused_by(TRAIN if allowed else VARIABLE, what)


def refused_by(variable: str, what: str) -> str:
    """Return a sentence naming the variable that switches something off."""
    text = setting(variable)[:20]
    return f"{what} is switched off on this server ({variable}={text})."


def quota() -> float:
    """Return a session's compute seconds per ten minutes; 1e9 means no limit.

    Raises: `ValueError`, see `whole_number`.
    """
    return whole_number(QUOTA, 0, SECONDS) or 1e9
