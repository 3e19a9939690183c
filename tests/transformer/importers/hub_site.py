"""A hub on this machine, with one model."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TypeVar

from tests.transformer.site import Site

NAME, COMMIT = "Some-Owner/opus.tiny", "ab" * 20
LARGE = "model.safetensors"


class Hub(Site):
    """The hub's answers for one model."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        super().__init__()
        self.contents = contents
        self.listed: dict[str, dict[str, object]] = {}
        for name, data in contents.items():
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
            self.listed[name] = {"rfilename": name, "size": len(data), "blobId": blob.hexdigest()}
            self.files[self.path_of(name)] = data
        self.listed[LARGE] |= {
            "blobId": "0" * 40,  # of the pointer
            "lfs": {
                "sha256": hashlib.sha256(contents[LARGE]).hexdigest(),
                "size": len(contents[LARGE]),
                "pointerSize": 134,
            },
        }

    @staticmethod
    def path_of(name: str) -> str:
        return f"/{NAME}/resolve/{COMMIT}/{name}"

    def publish(self) -> None:
        """Publish the current list of files."""
        about = {"id": NAME, "sha": COMMIT, "siblings": list(self.listed.values())}

        def answer(handler: BaseHTTPRequestHandler) -> None:
            body = json.dumps(about).encode()
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        self.files[f"/api/models/{NAME}?blobs=true"] = answer


S = TypeVar("S", bound=Site)


@contextmanager
def serving(site: S) -> Iterator[S]:
    thread = threading.Thread(target=site.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        thread.join()
        site.server.server_close()
