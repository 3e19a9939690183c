"""Requests answered by the gate or passed on, and eviction of idle visitors while others wait."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.waiting import run
from ui.hosting import gate, state
from ui.hosting.gate import Gate
from ui.hosting.visitors import Place, Visitors, acts
from ui.work import models
from ui.work.lru import Lru


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def visitors(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Visitors:
    few = Visitors(2, 600, clock)
    monkeypatch.setattr(gate, "VISITORS", few)
    monkeypatch.setattr(state, "VISITORS", few)
    return few


@pytest.fixture
def held(visitors: Visitors, clock: Clock) -> Iterator[list[Place]]:
    """Both places, the first taken a minute before the other."""
    with ExitStack() as stack:
        first = stack.enter_context(visitors.place())
        clock.now += 60
        second = stack.enter_context(visitors.place())
        assert first and second
        yield [first, second]


def test_only_the_idlest_gives_a_place_up_and_only_when_it_is_idle_enough(
    visitors: Visitors, held: list[Place], clock: Clock
) -> None:
    clock.now += 539
    assert visitors.make_room() is None and visitors.now == 2
    clock.now += 1
    assert visitors.make_room() is held[0] and held[0].evicted
    assert visitors.make_room() is None  # the other has a minute left
    clock.now += 59
    visitors.acts(held[1])
    clock.now += 599
    assert visitors.make_room() is None
    clock.now += 1
    assert visitors.make_room() is held[1] and (visitors.now, visitors.evictions) == (0, 2)
    patient = Visitors(1, 0, clock)  # without a limit of idle time
    with patient.place():
        clock.now += 1e9
        assert patient.make_room() is None and patient.full


def test_a_place_is_kept_half_a_minute(visitors: Visitors, held: list[Place], clock: Clock) -> None:
    clock.now += 540
    assert visitors.make_room() is held[0]
    assert visitors.full  # for other pages
    with visitors.place(returning=True) as place:
        assert place is None
    with visitors.place() as place:
        assert place and visitors.now == 2 and visitors.full
    assert not visitors.full  # who waited has come and gone
    with visitors.place(returning=True) as place:
        assert place
        clock.now += 60
        assert visitors.make_room() is held[1] and visitors.full
        clock.now += 30
        assert not visitors.full  # nobody came


@pytest.mark.parametrize(
    ("message", "counts"),
    [
        (BackMsg(rerun_script=ClientState(query_string="a=1")), True),
        (BackMsg(rerun_script=ClientState(fragment_id="f", is_auto_rerun=True)), False),
        (BackMsg(app_heartbeat=True), False),
        (BackMsg(stop_script=True), True),
        (BackMsg(), False),
    ],
)
def test_what_a_timer_sends_is_no_action(message: BackMsg, counts: bool) -> None:
    assert acts(message.SerializeToString()) is counts
    assert acts(b"\xff" + message.SerializeToString()) is False


def get(path: str, referrer: str = "") -> tuple[int, dict[bytes, bytes], str]:
    return run(_get(path, referrer))


async def _get(path: str, referrer: str = "") -> tuple[int, dict[bytes, bytes], str]:
    start, body = await answer(path, referrer)
    return start["status"], dict(start["headers"]), body["body"].decode()


async def answer(path: str, referrer: str = "") -> list[dict[str, Any]]:
    parts, sent = urlsplit(path), []
    scope = {
        "type": "http", "method": "GET", "path": parts.path, "query_string": parts.query.encode(),
        "headers": [(b"referer", referrer.encode())] if referrer else [],
    }  # fmt: skip

    async def keep(message: Any) -> None:
        sent.append(message)

    await Gate(app)(scope, None, keep)  # type: ignore[arg-type]
    return sent


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Stand-in for Streamlit that talks back, a word for each, until its visitor leaves."""
    if scope["type"] == "http":
        headers = [(b"Referrer-Policy", b"unsafe-url"), (b"x-own", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": scope["path"].encode()})
        return
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        await send({"type": "websocket.send", "bytes": b"heard"})


class Visit:
    """A websocket to the app behind the gate, within a running loop."""

    def __init__(self, protocols: bytes = b"streamlit") -> None:
        self.sent: list[Any] = []
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self._said.put_nowait({"type": "websocket.connect"})
        scope = {
            "type": "websocket", "path": "/_stcore/stream",
            "headers": [(b"sec-websocket-protocol", protocols)],
        }  # fmt: skip
        self.task = asyncio.create_task(Gate(app)(scope, self._said.get, self._keep))

    async def _keep(self, message: Any) -> None:
        self.sent.append(message)

    async def say(self, **message: Any) -> None:
        self._said.put_nowait(message)
        await settle()


async def settle() -> None:
    """Run all tasks that are ready."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_who_waits_gets_a_place_and_who_lost_it_is_told(visitors: Visitors, clock: Clock) -> None:
    async def scene() -> None:
        idle, busy = Visit(), Visit()
        await settle()
        clock.now += 599
        act = BackMsg(rerun_script=ClientState()).SerializeToString()
        timer = BackMsg(rerun_script=ClientState(is_auto_rerun=True)).SerializeToString()
        await idle.say(type="websocket.receive", bytes=timer)
        await busy.say(type="websocket.receive", bytes=act)
        assert (await _get("/attention"))[0] == 503
        clock.now += 1
        assert (await _get("/attention"))[0] == 200
        await settle()
        *_, told, closed = idle.sent
        assert len(idle.sent) == 4
        assert closed["type"] == "websocket.close" and len(busy.sent) == 2
        assert ForwardMsg.FromString(told["bytes"]).auth_redirect.url == "_headlight/place"
        again = Visit(b"streamlit, token, a-session")  # the client reconnects by itself
        await settle()
        assert again.sent == [{"type": "websocket.close", "code": 1013, "reason": "full"}]
        status, headers, text = await _get("/_headlight/place", "http://x/attention?head=2")
        assert status == 503 and "Your place went to someone waiting" in text
        assert "10 minutes" in text
        assert 'content="20; url=place?link=%2Fattention%3Fhead%3D2"' in text
        new = Visit()
        await idle.say(type="websocket.receive", bytes=timer)  # too late: nothing more is sent
        assert new.sent == [{"type": "websocket.accept"}] and len(idle.sent) == 4
        assert (await _get("/_headlight/place?link=%2Fattention%3Fhead%3D2"))[0] == 503
        await idle.say(type="websocket.disconnect")
        assert visitors.now == 2
        await new.say(type="websocket.disconnect")
        status, headers, _ = await _get("/_headlight/place?link=%2Fattention%3Fhead%3D2")
        assert (status, headers[b"location"]) == (303, b"/attention?head=2")
        await busy.say(type="websocket.disconnect")
        await asyncio.gather(idle.task, busy.task, again.task, new.task)

    run(scene())
    assert visitors.now == 0


@pytest.mark.parametrize(
    ("asked", "referrer", "link"),
    [
        ("", "https://a.example/base/head?s=%C3%A9&x=%22", "/base/head?s=%C3%A9&x=%22"),
        ("", "https://a.example/", "/"),
        ("", "", "../"),
        ("", "http://[", "../"),
        ("?link=%2Fhead", "https://a.example/beam", "/head"),
        ("?link=%2F%2Fevil.example", "", "../"),
        ("?link=%2F%5Cevil.example", "", "../"),
        ("?link=https%3A%2F%2Fevil.example", "", "../"),
        ("?link=%2Fa%0D%0ASet-Cookie%3A+b", "", "../"),
        ("?link=%2F%C3%A9", "", "../"),
    ],
)
def test_the_link_brings_the_view(asked: str, referrer: str, link: str, visitors: Visitors) -> None:
    status, headers, _ = get(f"/_headlight/place{asked}", referrer)
    assert (status, headers[b"location"].decode()) == (303, link)


def test_a_link_is_no_markup(visitors: Visitors, held: list[Place]) -> None:
    status, _, text = get("/_headlight/place?link=%2F%22%3E%3Cscript%3E")
    assert status == 503 and "script" in text and "<script" not in text.lower()
    visitors.idle = 0  # nobody is evicted, so nobody is told of it
    status, _, text = get("/_headlight/place?link=%2Fattention")
    assert status == 503 and "minutes" not in text


def test_each_answer_has_the_headers_once_and_keeps_its_own() -> None:
    for path in ("/", "/attention", "/static/x.js", "/_stcore/health"):
        start, body = run(answer(path))
        names = [name.lower() for name, _ in start["headers"]]
        found = dict(start["headers"])
        assert body["body"] == path.encode()
        assert found[b"referrer-policy"] == b"same-origin" and found[b"x-own"] == b"1"
        assert len(names) == len(set(names))


@pytest.mark.parametrize("path", ["/_stcore/metrics", "/_stcore/upload_file/a/b"])
def test_a_public_server_hides_its_insides(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert get(path)[0] == 200
    monkeypatch.setenv("HEADLIGHT_PUBLIC", "1")
    assert get(path)[0] == 404
    assert get("/_stcore/health")[0] == 200


def test_a_full_server_says_so_on_a_page_and_refuses_a_stream(visitors: Visitors) -> None:
    async def stream() -> list[Any]:
        visit = Visit()
        await visit.say(type="websocket.disconnect")
        await visit.task
        return visit.sent

    assert run(stream()) == [{"type": "websocket.accept"}]
    assert visitors.now == 0  # given back when the visitor left
    with visitors.place(), visitors.place():
        status, headers, text = get("/attention")
        assert status == 503 and b"retry-after" in headers and "Every place is taken" in text
        assert get("/static/x.js")[0] == 200
        assert run(stream())[0]["type"] == "websocket.close"
        with visitors.place() as given:
            assert not given
    assert get("/attention")[0] == 200
    assert (visitors.now, visitors.turned_away) == (0, 3)
    free = Visitors(0)  # without a limit
    with free.place() as one, free.place() as two:
        assert one and two and not free.full and free.now == 2


def test_readiness_knows_libraries_and_a_public_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found() -> tuple[int, dict[str, Any]]:
        status, _, text = get("/_headlight/ready")
        return status, json.loads(text)

    monkeypatch.setattr(state, "libraries", type(state.libraries)())
    status, told = found()
    assert status == 503 and told["why"] == "libraries are being loaded"
    state.libraries.set()
    status, told = found()
    assert status == 200 and told["ready"] and told["most_visitors"] == 2
    monkeypatch.setenv("HEADLIGHT_PUBLIC", "1")
    monkeypatch.setattr(state, "missing", ["alpha cannot be loaded"])
    assert found()[1]["why"] == "alpha cannot be loaded"
    state.missing.clear()
    monkeypatch.setattr(models, "MODELS", Lru(2**20))  # all models went to make room
    status, told = found()
    assert status == 200 and told["models"] == 0
