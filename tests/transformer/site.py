"""Local web servers for download tests: any site, and a hub with one model."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

import pytest

Answer = bytes | Callable[[BaseHTTPRequestHandler], None]

NAME, COMMIT = "Some-Owner/opus.tiny", "ab" * 20
LARGE = "model.safetensors"


def answer(
    handler: BaseHTTPRequestHandler, data: bytes, status: int = 200, length: int | None = None
) -> None:
    """Send data announced as `length` bytes; close the connection if they differ."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data) if length is None else length))
    handler.end_headers()
    handler.wfile.write(data)
    handler.close_connection = length is not None


class Site:
    """A web server with an answer for each path, and a list of requested paths."""

    def __init__(self) -> None:
        self.files: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                site.agents.add(self.headers["User-Agent"])
                given = site.files.get(self.path)
                if given is None:
                    self.send_error(404)
                elif callable(given):
                    given(self)
                else:
                    answer(self, given)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.home = f"http://127.0.0.1:{self.server.server_port}"


class Hub(Site):
    def __init__(self, contents: dict[str, bytes]) -> None:
        super().__init__()
        self.contents = contents
        self.listed: dict[str, dict[str, object]] = {}
        for name, data in contents.items():
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
            self.listed[name] = {"rfilename": name, "size": len(data), "blobId": blob.hexdigest()}
            self.files[self.path_of(name)] = data
        digest = hashlib.sha256(contents[LARGE]).hexdigest()
        lfs = {"sha256": digest, "size": len(contents[LARGE]), "pointerSize": 134}
        self.listed[LARGE] |= {"blobId": "0" * 40, "lfs": lfs}  # the id of the pointer

    @staticmethod
    def path_of(name: str) -> str:
        return f"/{NAME}/resolve/{COMMIT}/{name}"

    def publish(self) -> None:
        about = {"id": NAME, "sha": COMMIT, "siblings": list(self.listed.values())}
        self.files[f"/api/models/{NAME}?blobs=true"] = json.dumps(about).encode()


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


@contextmanager
def hub_of(
    contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, home: Path
) -> Iterator[Hub]:
    """Serve a model as the only hub, with the client's cache in `home`."""
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    monkeypatch.setenv("no_proxy", "*")
    with serving(Hub(contents)) as site:
        monkeypatch.setenv("HF_ENDPOINT", site.home)
        site.publish()
        yield site
