"""Requests answered by the gate and requests passed on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.coroutines import run
from transformer.checkpoint.reference import ModelRef
from ui.hosting import gate, state
from ui.hosting.gate import Gate
from ui.hosting.visitors import Visitors


@pytest.fixture(autouse=True)
def visitors(monkeypatch: pytest.MonkeyPatch) -> Visitors:
    few = Visitors(2)
    monkeypatch.setattr(gate, "VISITORS", few)
    monkeypatch.setattr(state, "VISITORS", few)
    return few


async def streamlit(scope: Any, receive: Any, send: Any) -> None:
    """Stand-in that answers a request by its path, and accepts a websocket."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    headers = [(b"Referrer-Policy", b"unsafe-url"), (b"x-own", b"1")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def ask(
    path: str, kind: str = "http", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> list[dict[str, Any]]:
    """Return the messages with which a request is answered."""
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def keep(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "method": "GET", "path": path, "headers": list(headers)}
    run(Gate(streamlit)(scope, receive, keep))  # type: ignore[arg-type]
    return sent


def test_each_answer_has_the_headers_once_and_keeps_its_own() -> None:
    for path in ("/", "/attention", "/static/x.js", "/_stcore/health"):
        start, body = ask(path)
        names = [name.lower() for name, _ in start["headers"]]
        found = dict(start["headers"])
        assert body["body"] == path.encode()
        assert found[b"referrer-policy"] == b"same-origin" and found[b"x-own"] == b"1"
        assert len(names) == len(set(names))


@pytest.mark.parametrize("path", ["/_stcore/metrics", "/_stcore/upload_file/a/b"])
def test_a_public_server_hides_what_strangers_do_not_need(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(path)[0]["status"] == 200
    monkeypatch.setenv("HEADLIGHT_PUBLIC", "1")
    assert ask(path)[0]["status"] == 404
    assert ask("/_stcore/health")[0]["status"] == 200


def test_a_full_server_says_so_on_a_page_and_refuses_a_stream(visitors: Visitors) -> None:
    assert ask("/_stcore/stream", "websocket") == [{"type": "websocket.accept"}]
    assert visitors.now == 0  # given back when the visitor left
    with visitors.place(), visitors.place():
        start, body = ask("/attention")
        assert start["status"] == 503 and b"retry-after" in dict(start["headers"])
        assert b"Every place is taken" in body["body"]
        assert ask("/static/x.js")[0]["status"] == 200
        assert ask("/_stcore/stream", "websocket")[0]["type"] == "websocket.close"
        with visitors.place() as given:
            assert not given
    assert ask("/attention")[0]["status"] == 200
    assert (visitors.now, visitors.turned_away) == (0, 3)
    free = Visitors(0)  # without a limit
    with free.place() as one, free.place() as two:
        assert one and two and not free.full and free.now == 2


def test_readiness_knows_the_libraries_and_a_public_servers_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found() -> tuple[int, dict[str, Any]]:
        start, body = ask("/_headlight/ready")
        return start["status"], json.loads(body["body"])

    monkeypatch.setattr(state, "libraries", type(state.libraries)())
    status, told = found()
    assert status == 503 and told["why"] == "libraries are being loaded"
    state.libraries.set()
    status, told = found()
    assert status == 200 and told["ready"] and told["most_visitors"] == 2
    monkeypatch.setenv("HEADLIGHT_PUBLIC", "1")
    from ui.work import models
    from ui.work.lru import Lru

    monkeypatch.setattr(models, "MODELS", Lru(2**20, lambda model: 0))
    monkeypatch.setattr(state, "broken", ["alpha cannot be loaded"])
    assert found()[1]["why"] == "alpha cannot be loaded"
    models.MODELS.put((ModelRef(Path("/roots/alpha")), "cpu"), object())
    status, told = found()
    assert status == 200 and told["models"] == ["alpha"]
