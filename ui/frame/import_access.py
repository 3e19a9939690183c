"""Import rights: by default, only visitors with the server's token may import models.

`HEADLIGHT_IMPORT=on` lets every visitor import; `off` and `HEADLIGHT_PUBLIC=1` let nobody.
Otherwise the server prints a link with a token when it starts, as Jupyter does; a session that
opens the link, or types the token on the Models page, may import until it ends. Visitors' addresses
are not trusted: behind a proxy on the same machine, all visitors have the proxy's address.
"""

from __future__ import annotations

import functools
import hmac
import secrets

import streamlit as st

from ui.core import public, url_state
from ui.core.url_state import Param, text

VARIABLE = "HEADLIGHT_IMPORT"

#: The token in an opened link, removed from the URL at once.
TOKEN: Param[str] = Param("token", text(200), "")

_ADMITTED = "headlight_may_import"


@functools.cache
def token() -> str:
    """Return this server's token, 192 random bits, new at every start."""
    return secrets.token_urlsafe(24)


def invitation() -> str | None:
    """Return the line to print at start, or None if the token has no effect."""
    if _setting():
        return None
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    port = st.get_option("server.port")
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    path = "/".join(part for part in (base, "models") if part)
    return (
        "  To import models in the app, open this link (other visitors cannot import):\n"
        f"  {scheme}://localhost:{port}/{path}?{TOKEN.name}={token()}"
    )


def take_token() -> None:
    """Grant this session import rights for a token in its URL, and remove the token."""
    given = url_state.get(TOKEN)
    url_state.forget(TOKEN)
    if given:
        admit(given)


def admit(guess: str) -> bool:
    """Grant this session import rights if the token matches; return True if it does."""
    admitted = not _setting() and hmac.compare_digest(guess.strip().encode(), token().encode())
    if admitted:
        st.session_state[_ADMITTED] = True
    return admitted


def refusal(act: str = "import") -> str | None:
    """Return the reason why this session may not import (or another `act`), or None."""
    setting = _setting()
    if setting in public.ON or (not setting and st.session_state.get(_ADMITTED)):
        return None
    if setting:
        by = public.VARIABLE if public.is_public() else VARIABLE
        return public.refused_by(by, f"{act.capitalize()}ing from the app")
    return (
        f"To {act}, open the link that the server printed when it started, or type the token at "
        f"the end of that link on the Models page. To let every visitor {act}, start the app with "
        f"{VARIABLE}=on."
    )


def wants_token() -> bool:
    """Return True if only the token is missing to import."""
    return not _setting() and refusal() is not None


def _setting() -> str:
    return "off" if public.is_public() else public.setting(VARIABLE)
