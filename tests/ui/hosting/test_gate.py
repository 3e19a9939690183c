import asyncio
import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import run
from transformer.models.catalogue import inspect_entry
from ui.frame import serving
from ui.hosting import gate
from ui.hosting.gate import FRAMES, Gate, headers_of, policy_of
from ui.hosting.visitors import Visitors
from ui.platform.server import TRANSLATED
from ui.work import results
from ui.work.lru import Lru
from ui.work.visit import Pace

PAGE = b"<!DOCTYPE html><html><head><title>x</title></head></html>"


@pytest.fixture(autouse=True)
def visitors(monkeypatch: pytest.MonkeyPatch) -> Visitors:
    few = Visitors(2)
    monkeypatch.setattr(gate, "VISITORS", few)
    return few


def get(
    path: str, kind: bytes = b"text/html", packed: bool = False, method: str = "GET",
    attached: bool = False, whole: bytes = PAGE,
) -> tuple[int, dict[bytes, bytes], bytes]:  # fmt: skip
    """Return the gate's answer to a request, or PAGE in two parts from the app."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        # As for files: listened to, the server reads further requests before this one's answer.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.001)
        assert scope["method"] != "HEAD" and scope["headers"] == [(b"accept", b"*/*")]
        body = gzip.compress(whole) if packed else whole
        headers = [
            (b"content-type", kind), (b"etag", b"1"), (b"referrer-policy", b"unsafe-url"),
            (b"content-length", b"%d" % len(body)), (b"x-own", b"1"),
        ]  # fmt: skip
        headers += [(b"content-encoding", b"gzip")] * packed
        headers += [(b"content-disposition", b"attachment; filename=x.html")] * attached
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body[:9], "more_body": True})
        await send({"type": "http.response.body", "body": body[9:]})

    async def keep(message: Any) -> None:
        sent.append(message)

    async def body() -> Any:
        return {"type": "http.request"}

    asked = [(b"range", b"bytes=0-1,4-9"), (b"accept", b"*/*"), (b"if-none-match", b"*")]
    scope = {"type": "http", "method": method, "path": path, "headers": asked}
    run(Gate(app)(scope, body, keep))
    start, *bodies = sent
    assert all(len(each.get("body", b"")) <= 65_536 for each in bodies)
    assert [each.get("more_body", False) for each in bodies] == [*[True] * (len(bodies) - 1), False]
    headers = dict(start["headers"])
    assert len(headers) == len(start["headers"])
    return start["status"], headers, b"".join(each.get("body", b"") for each in bodies)


@pytest.mark.parametrize(("path", "base", "depth"), [
    ("/", "", 0), ("", "", 0), ("/attention", "", 1), ("/attention/", "", 1), ("/a/b", "", 2),
    ("/static/none.js", "", 2), ("/x.html", "", 1), ("/_stcore/none", "", 2),
    ("/app", "app", 0), ("/app/attention", "/app/", 1), ("/app/_x", "app", 1),
])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_a_page_at_any_address_has_its_base_and_policy(
    path: str, base: str, depth: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate.st, "get_option", {"server.baseUrlPath": base}.__getitem__)
    status, headers, body = get(path, packed=packed)
    assert get(path, packed=packed, method="HEAD")[1] == headers
    assert status == 200 and int(headers[b"content-length"]) == len(body)
    assert not {b"etag", b"content-encoding"} & headers.keys()  # of the file, which differs
    policy = headers[b"content-security-policy"]
    assert b"default-src 'none'" in policy and b"frame-ancestors 'self'" in policy
    parts = re.split(rb"<script>(.*?)</script>", body, flags=re.DOTALL)
    assert b"".join(parts[::2]) == PAGE and parts[0].endswith(b"<head>")
    *bases, translated = parts[1::2]
    assert translated == TRANSLATED.encode() and len(bases) == bool(depth)
    assert all(b"parts.length - %d" % depth in base and b"BACKEND" in base for base in bases)
    for script in parts[1::2]:
        assert b"'sha256-" + base64.b64encode(hashlib.sha256(script).digest()) + b"'" in policy


def test_everything_else_passes(visitors: Visitors) -> None:
    with visitors.place(), visitors.place():  # who has a place may take files home
        for kind, attached in ((b"text/plain", False), (b"text/html; charset=utf-8", True)):
            status, headers, body = get("/media/x", kind, attached=attached)
            assert status == 200 and body == PAGE and headers[b"etag"] == b"1"
            assert headers[b"referrer-policy"] == b"same-origin" and headers[b"x-own"] == b"1"
    for size in (65_536, 65_537 + 9, 300_000):  # who reads slowly keeps no more in memory
        whole = bytes(range(256)) * (size // 256) + b"end"[: size % 256]
        assert get("/media/x", b"text/csv", whole=whole)[2] == whole


@pytest.mark.parametrize("public", ["", "1"])
def test_insides_are_hidden(public: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_PUBLIC", public)
    for path in ("upload_file/a/b", "upload_file", "agent/mcp", "script-health-check"):
        assert get(f"/_stcore/{path}", b"text/plain")[0] == 404
        assert get(f"/_stcore/{path}/", b"text/plain", method="PUT")[0] == 404
    assert get("/_stcore/metrics", b"text/plain")[0] == (404 if public else 200)
    assert get("/_stcore/health", b"text/plain")[0] == 200


@pytest.mark.parametrize("kind", ["websocket", "http"])
def test_connections_and_requests_of_one_address_come_one_after_the_other(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "REQUESTS", Pace(20.0, 20.0, latest=10.0))
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async def nothing(*_: Any) -> None:
        pass

    monkeypatch.setattr(gate.asyncio, "sleep", wait)
    scope: dict[str, Any] = {"type": kind, "path": "/", "method": "GET", "headers": []}
    for address in [*["a school"] * 300, "a visitor"]:
        run(Gate(nothing)({**scope, "client": (address, 1)}, nothing, nothing))  # type: ignore[arg-type]
    assert not any(waits[:20]) and waits[-1] == 0
    assert 0 < waits[30] < waits[100] < waits[-2] <= 10  # before a browser gives up


def test_readiness_knows_libraries_and_a_public_model(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> tuple[int, dict[str, Any]]:
        status, _, text = get("/_headlight/ready")
        return status, json.loads(text)

    monkeypatch.setattr(gate, "libraries", type(gate.libraries)())
    status, told = found()
    assert status == 503 and told["why"] == "libraries are being loaded"
    gate.libraries.set()
    status, told = found()
    assert status == 200 and told["ready"] and told["most_visitors"] == 2
    monkeypatch.setenv("HEADLIGHT_PUBLIC", "1")
    monkeypatch.setattr(gate, "missing", [])
    monkeypatch.setattr(results, "entries", lambda: [inspect_entry(tiny_checkpoint)])
    monkeypatch.setattr(results, "load", lambda *_: (_ for _ in ()).throw(MemoryError))
    serving._load_first_model()
    assert found()[1]["why"] == "the first model cannot be loaded (MemoryError)"  # no names
    gate.missing.clear()
    monkeypatch.setattr(results, "MODELS", Lru(2**20))  # all models went to make room
    status, told = found()
    assert status == 200 and told["models"] == 0


def rules(page: bytes) -> dict[str, list[str]]:
    split = (rule.split() for rule in policy_of(page).split("; "))
    return {name: values for name, *values in split}


def test_scripts_of_the_page_run_and_no_others() -> None:
    page = (
        b'<script>a()\r\nb()</script><script src="x.js"></script><SCRIPT type="module">c</SCRIPT>'
    )
    wanted = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
        for text in (b"a()\nb()", b"c")
    ]
    scripts = rules(page)["script-src"]
    assert [each for each in scripts if each.startswith("'sha256")] == wanted
    assert "'unsafe-inline'" not in scripts and "'unsafe-eval'" not in scripts
    assert rules(b"")["default-src"] == ["'none'"]


def test_only_named_origins_may_frame_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rules(b"")["frame-ancestors"] == ["'self'"]
    monkeypatch.setenv(FRAMES, "https://huggingface.co  https://*.ex-ample.org:8443 http://a")
    named = rules(b"")["frame-ancestors"]
    assert named == ["'self'", "https://huggingface.co", "https://*.ex-ample.org:8443", "http://a"]
    wrong = (
        "example.org https://a.b/path * 'unsafe-inline' https://a.b;script-src https://... "
        "https://a..b https://.a.b https://a.b. https://-a.b https://a-.b https://*. https://* "
        "https:// https://a.*.b https://a.b: https://a.b:0 https://a.b:65536 https://a_b.c "
        "https://ä.b https://me@a.b https://a.b? https://[::1] ftp://a.b"
    )
    for none in wrong.split():
        monkeypatch.setenv(FRAMES, none)
        with pytest.raises(ValueError, match="must be origins"):
            policy_of(b"")


@pytest.mark.parametrize("public", ["", "1"])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_public_server_insists_on_encryption_where_it_has_it(
    public: str, encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_PUBLIC", public)
    names = headers_of(encrypted).keys()
    assert {"x-content-type-options", "referrer-policy"} <= names
    assert ("strict-transport-security" in names) == bool(public and encrypted)
