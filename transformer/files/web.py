"""Requests to servers elsewhere."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import IO


class NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to anything else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Refuse to leave https."""
        if req.type == "https" and not newurl.startswith("https://"):
            raise urllib.error.URLError(f"redirected to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
