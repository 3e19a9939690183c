"""Rights to write checkpoints and studies: this machine's browser, and visitors with the token.

`HEADLIGHT_IMPORT=on` lets every visitor import; `off` and `HEADLIGHT_PUBLIC=1` allow nobody.
Otherwise a browser on this machine may, and the server prints a link with a token for others when
it starts; a session that opens the link, or types the token on the Models page, may import until it
ends. An address alone is not trusted: a proxy on this machine gives its own to all visitors.
"""

import functools
import hmac
import secrets
from urllib.parse import urlsplit

import streamlit as st

from ui.core import public, url_state
from ui.core.url_state import Param, text

VARIABLE = "HEADLIGHT_IMPORT"

#: The token in an opened link, removed from the URL at once.
TOKEN: Param[str] = Param("token", text(200), "")

_ADMITTED = "headlight_may_import"

#: This machine's names in a browser's address, and beginnings of the headers that proxies add.
_HERE, _RELAYED = ("localhost", "127.0.0.1", "::1"), ("forwarded", "via", "x-forwarded", "x-real")


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
        "  On this machine, the app can import and keep models. From another machine, open this\n"
        "  link with this machine's name in place of localhost:\n"
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
    """Return why this session may not import (or another `act`), or None."""
    setting = _setting()
    if setting in public.ON:
        return None
    if not setting and (st.session_state.get(_ADMITTED) or _is_local()):
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
    """Return True if only the token is missing for an import."""
    return not _setting() and refusal() is not None


def _is_local() -> bool:
    """Return True if a browser on this machine shows a page of this server, without a proxy.

    The socket must come from this machine, and Host and Origin must name it alike: browsers write
    both as their address says, whatever a page or a proxy asks for.
    """
    headers = {name.lower(): value for name, value in st.context.headers.items()}
    try:
        origin = urlsplit(headers.get("origin", ""))
        here = origin.hostname in _HERE and origin.netloc.lower() == headers.get("host", "").lower()
    except ValueError:
        return False
    relayed = any(name.startswith(_RELAYED) for name in headers)
    return here and not relayed and st.context.ip_address is None


def _setting() -> str:
    return "off" if public.is_public() else public.setting(VARIABLE)
