"""Rules of the headers, and the app's base path, which pages state; all else passes unchanged."""

import base64
import hashlib
from typing import Any

import pytest

from tests.waiting import run
from ui.frame.serving import KnownBase, depth_of
from ui.hosting import gate
from ui.hosting.headers import FRAMES, headers_of, policy_of


def rules(page: bytes) -> dict[str, list[str]]:
    split = (rule.split() for rule in policy_of(page).decode().split("; "))
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
    monkeypatch.setenv(FRAMES, "https://huggingface.co  https://*.example.org:8443")
    named = rules(b"")["frame-ancestors"]
    assert named == ["'self'", "https://huggingface.co", "https://*.example.org:8443"]
    wrong = "example.org https://a.b/path * 'unsafe-inline' https://a.b;script-src"
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
    names = {name for name, _ in headers_of(encrypted)}
    assert {b"x-content-type-options", b"referrer-policy"} <= names
    assert (b"strict-transport-security" in names) == bool(public and encrypted)


PAGE = b"<!DOCTYPE html><html><head><title>x</title></head></html>"


@pytest.mark.parametrize(("path", "base", "depth"), [
    ("/", "", 0), ("", "", 0), ("/attention", "", 1), ("/attention/", "", 1), ("/a/b", "", 2),
    ("/static/js/x.js", "", 0), ("/favicon.png", "", 0), ("/_stcore/health", "", 0),
    ("/app", "app", 0), ("/app/attention", "/app/", 1), ("/app/_stcore/health", "app", 0),
])  # fmt: skip
def test_depth_of_a_page(path: str, base: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate.config, "get_option", {"server.baseUrlPath": base}.__getitem__)
    assert depth_of(path) == depth


def ask(path: str, kind: bytes = b"text/html", method: str = "GET") -> tuple[dict[str, Any], bytes]:
    """Return the response's start and body for one request, sent by the server in two pieces."""
    sent: list[Any] = []

    async def server(scope: Any, receive: Any, send: Any) -> None:
        asked = dict(scope["headers"])
        headers = [(b"content-type", kind), (b"etag", b"1"), (b"content-length", b"%d" % len(PAGE))]
        if b"accept-encoding" in asked:
            headers.append((b"content-encoding", b"gzip"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": PAGE[:9], "more_body": True})
        await send({"type": "http.response.body", "body": PAGE[9:]})

    async def keep(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path,
        "headers": [(b"accept-encoding", b"gzip"), (b"host", b"x")],
    }  # fmt: skip
    called = KnownBase(server)(scope, None, keep)  # type: ignore[arg-type]
    run(called)
    return sent[0], b"".join(message.get("body", b"") for message in sent[1:])


def test_a_page_is_told_its_base() -> None:
    start, body = ask("/attention")
    headers = dict(start["headers"])
    assert b"parts.length - 1" in body
    assert body.index(b"BACKEND_BASE_URL") < body.index(b"<title>")
    assert int(headers[b"content-length"]) == len(body)
    assert b"etag" not in headers  # of the file, which differs
    assert b"content-encoding" not in headers
    script = body.partition(b"<script>")[2].partition(b"</script>")[0]
    allowed = base64.b64encode(hashlib.sha256(script).digest())
    assert b"'sha256-" + allowed + b"'" in headers[b"content-security-policy"]


def test_the_root_is_its_own_base_and_has_a_policy() -> None:
    start, body = ask("/")
    assert body == PAGE
    assert b"default-src 'none'" in dict(start["headers"])[b"content-security-policy"]


@pytest.mark.parametrize(("path", "kind", "method"), [
    ("/_stcore/health", b"text/plain", "GET"),
 ("/attention", b"text/html", "HEAD"), ("/attention", b"application/json", "GET"),
])  # fmt: skip
def test_everything_else_passes(path: str, kind: bytes, method: str) -> None:
    _, body = ask(path, kind, method)
    assert body == PAGE
