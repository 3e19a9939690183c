import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from uvicorn import Config, Server
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

from tests.waiting import run, wait_until
from ui.hosting import gate, visitors
from ui.hosting.gate import Gate
from ui.hosting.visitors import MOST_BYTES, MOST_WIDGETS, Line, Visitors
from ui.work.visit import Pace


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear connections and messages, and stop the clock."""
    monkeypatch.setattr(visitors, "ARRIVALS", Pace(20.0, 20.0, latest=10.0, clock=lambda: 0.0))
    monkeypatch.setattr(visitors, "HEARD", Pace(5e5, 5e5, latest=1.0, clock=lambda: 0.0))


def test_places_are_counted() -> None:
    two, free = Visitors(2), Visitors(0)
    with two.place() as first, two.place() as second, free.place() as third:
        assert first and second and third and two.full and not free.full
        with two.place() as other:
            assert not other and two.now == 2
    assert two.now == 0


def message(**said: Any) -> bytes:
    return BackMsg(**said).SerializeToString()


def operation(**payload: Any) -> bytes:
    return message(backend_operation_request=payload)


RERUN = message(rerun_script=ClientState(query_string="a=1"))
BEAT = message(app_heartbeat=True)


class Ends:
    """Both ends of a line within a running loop."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Any] = asyncio.Queue()
        self.read: list[Any] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.visitors = Visitors(1)
        self.line = Line(self.visitors, self.said.get, self._send, "an address")

    async def _send(self, sent: Any) -> None:
        await self.reads.wait()
        self.read.append(sent)

    def say(self, *messages: bytes) -> None:
        for each in messages:
            self.said.put_nowait({"type": "websocket.receive", "bytes": each})


def on_a_line(scene: Callable[[Ends], Any]) -> None:
    async def play() -> None:
        await scene(Ends())

    run(play())


def test_only_what_the_app_answers_is_heard() -> None:
    async def scene(ends: Ends) -> None:
        ends.say(
            message(clear_cache=True), message(load_git_info=True), message(set_run_on_save=True),
            message(debug_shutdown_runtime=True), message(debug_disconnect_websocket=True),
            message(file_urls_request={"file_names": [""] * 1_000}), message(),
            operation(install_skills={}), operation(dismiss_skills_nudge={}),
            operation(dataframe_chunk={}),
        )  # fmt: skip
        heard = [BEAT, RERUN, message(stop_script=True), operation(deferred_file={"file_id": "x"})]
        ends.say(*heard)
        assert [(await ends.line.receive())["bytes"] for _ in heard] == heard
        assert not ends.read

    on_a_line(scene)


def widgets(*states: dict[str, Any]) -> bytes:
    return message(rerun_script={"widget_states": {"widgets": states}})


@pytest.mark.parametrize("bad", [
    {"text": "hello"}, {"bytes": b"\xff"}, {"bytes": widgets(*[{}] * (MOST_WIDGETS + 1))},
    {"bytes": widgets({}, {"json_value": "[]," * 7_000})},
    {"bytes": widgets({"json_trigger_value": "{}," * 7_000}, {})},
])  # fmt: skip
def test_a_bad_message_ends_the_line(bad: dict[str, Any]) -> None:
    async def scene(ends: Ends) -> None:
        ends.said.put_nowait({"type": "websocket.receive", **bad})
        assert (await ends.line.receive())["type"] == "websocket.disconnect"
        await ends.line.send({"type": "websocket.send", "bytes": b"too late"})
        assert [each["type"] for each in ends.read] == ["websocket.close"]
        assert visitors.ARRIVALS.take(1, "another") == 0
        assert visitors.ARRIVALS.take(1, "an address") > 0  # it comes back later

    on_a_line(scene)


def test_small_messages_of_an_address_wait_once_they_are_many() -> None:
    async def scene(ends: Ends) -> None:
        ends.say(*[BEAT] * 50)
        for _ in range(50):
            await ends.line.receive()
        assert visitors.HEARD.take(1, "another") == 0 < visitors.HEARD.take(1, "an address")

    on_a_line(scene)


def test_who_does_not_read_is_not_heard() -> None:
    async def scene(ends: Ends) -> None:
        ends.reads.clear()
        sending = asyncio.create_task(ends.line.send({"type": "websocket.send", "bytes": b"long"}))
        await asyncio.sleep(0)
        ends.say(RERUN)
        hearing = asyncio.create_task(ends.line.receive())
        done, _ = await asyncio.wait([hearing], timeout=0.2)
        assert not done and ends.said.empty()
        ends.reads.set()
        assert (await hearing)["bytes"] == RERUN
        await sending

    on_a_line(scene)


@pytest.mark.parametrize("error", [OSError, RuntimeError])  # gone; closed while this waited
def test_who_has_left_gets_nothing_more(error: type[Exception]) -> None:
    async def scene(ends: Ends) -> None:
        async def fail(sent: Any) -> None:
            ends.read.append(sent)
            raise error

        line = Line(ends.visitors, ends.said.get, fail)
        for _ in range(2):
            await line.send({"type": "websocket.send", "bytes": b"too late"})
        assert len(ends.read) == 1

    on_a_line(scene)


def test_an_idle_line_ends_and_its_browser_waits_like_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitors, "IDLE", 0.001)
    monkeypatch.setattr(visitors, "_KEPT", 0.5)

    async def scene(ends: Ends) -> None:
        assert (await ends.line.receive())["type"] == "websocket.disconnect"
        assert [each["type"] for each in ends.read] == ["websocket.close"]
        assert visitors.ARRIVALS.take(1, "an address") == 0

    async def scene_on_a_full_server(ends: Ends) -> None:
        with ends.visitors.place():
            ending = asyncio.create_task(ends.line.receive())
            while not ends.read:
                await asyncio.sleep(0)
            done, _ = await asyncio.wait([ending], timeout=0.2)
            assert not done  # the place is taken when the browser asks
            assert (await ending)["type"] == "websocket.disconnect"
        again, closed = ends.read
        assert ForwardMsg.FromString(again["bytes"]).WhichOneof("type") == "auth_redirect"
        assert closed["type"] == "websocket.close"

    on_a_line(scene)
    on_a_line(scene_on_a_full_server)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[int, list[bytes]]]:
    """A server's port, and the messages that reach the app behind the gate."""
    heard: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (said := await receive())["type"] != "websocket.disconnect":
                heard.append(said["bytes"])

    running = Server(Config(Gate(app), port=0, ws="websockets-sansio", log_config=None))
    thread = threading.Thread(target=running.run)
    thread.start()
    assert wait_until(lambda: running.started)
    yield running.servers[0].sockets[0].getsockname()[1], heard
    running.should_exit = True
    thread.join()


def frames(count: int, size: int, kind: Opcode = Opcode.BINARY, fin: bool = False) -> bytes:
    rest = Opcode.CONT if kind is Opcode.BINARY and not fin else kind
    first = Frame(kind, bytes(size), fin).serialize(mask=True)
    return first + Frame(rest, bytes(size), fin).serialize(mask=True) * (count - 1)


@pytest.mark.parametrize("sent", [
    frames(1, MOST_BYTES + 1, fin=True),
    frames(7, MOST_BYTES // 6),
    frames(1_000, 0),
    frames(1_000, 0, Opcode.PING, fin=True),
    frames(1_000, 125, Opcode.PONG, fin=True),
    Frame(Opcode.BINARY, BEAT).serialize(mask=True) * 1_000,
], ids=["long", "long in parts", "in empty parts", "pings", "pongs", "heartbeats"])  # fmt: skip
def test_a_connection_ends_when_it_sends_too_much(
    sent: bytes, server: tuple[int, list[bytes]]
) -> None:
    port, heard = server
    with connected(port) as bystander:
        with connected(port) as socket:
            with suppress(OSError):
                socket.socket.sendall(sent)
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=30)
        heard.clear()
        bystander.send(RERUN)
        assert wait_until(lambda: heard == [RERUN])


@pytest.mark.parametrize(("header", "answer"), [
    ("Cookie: a=" + 20_000 * "b", b"HTTP/1.1 431 "),
    ("".join(f"X-{number}: 1\r\n" for number in range(300))[:-2], b"HTTP/1.1 431 "),
    ("Content-Length: 10", b""), ("Transfer-Encoding: chunked", b""),
], ids=["cookie", "headers", "body", "chunks"])  # fmt: skip
def test_a_request_that_is_no_handshake_ends(
    header: str, answer: bytes, server: tuple[int, list[bytes]]
) -> None:
    asked = (
        "GET /_stcore/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{header}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server[0]), timeout=30) as plain:
        plain.sendall(asked.encode())
        with plain.makefile("rb") as answered:
            assert answered.read()[: len(answer) or None] == answer


def connected(port: int, path: str = "_stcore/stream", **options: Any) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{port}/{path}", **options)


@pytest.mark.parametrize("asked", [
    {"path": "stream"}, {"origin": "http://["}, {"origin": "//[::"}, {"origin": "http://a]b"},
])  # fmt: skip
def test_another_address_and_an_origin_that_is_none_have_no_stream(
    asked: dict[str, Any], server: tuple[int, list[bytes]]
) -> None:
    with pytest.raises(Exception, match="403"), connected(server[0], **asked):
        pass
    assert wait_until(lambda: gate.VISITORS.now == 0)
