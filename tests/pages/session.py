"""A session with a running app over a websocket, without a browser."""

from typing import Any
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.messages import inflate, unpack

#: Seconds between two messages of a run; generous, since many sessions wait for one machine.
PATIENCE = 240


class Session:
    def __init__(self, address: str, source: str = "", **headers: str) -> None:
        """Args: address: the app's URL, `http://host:port`.  source: the visitor's address."""
        url = f"ws{address.removeprefix('http')}/_stcore/stream"
        self._connecting = connect(
            url, subprotocols=[Subprotocol("streamlit")], max_size=None, open_timeout=PATIENCE,
            source_address=(source, 0), additional_headers=headers,
        )  # fmt: skip
        self.name = self._page = self._query = self._hash = self._fragment = ""
        self._held: dict[str, WidgetState] = {}
        self.ids: dict[str, str] = {}
        self._fragments: dict[str, str] = {}  # by label
        #: Output of the last run: elements in order, and all bytes.
        self.elements: list[Element] = []
        self.received = b""

    def __enter__(self) -> "Session":
        self.socket = self._connecting.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._connecting.__exit__(*error)

    def open(self, page: str = "", **query: str) -> None:
        """Open a page by address, as a link or the back button does."""
        self.begin(page, **query)
        self._read_to_the_end()

    def begin(self, page: str = "", **query: str) -> None:
        self._page, self._query, self._hash = page, urlencode(query), ""
        self._send()

    def wait_for(self, text: str) -> None:
        """Read until a progress bar says `text`; fail if the run ends first."""
        while not any(text in element.progress.text for element in self.elements):
            assert not self._read_one(), f"the run ended without {text!r}"

    def wait_for_next(self, text: str) -> None:
        """Discard messages read so far, then wait for a progress bar that says `text`."""
        self.elements = []
        self.wait_for(text)

    def press(self, button: str, to_the_end: bool = True) -> None:
        """Press a button, even during a run, and wait for the next run."""
        self._fragment = self._fragments[button]
        self._send(WidgetState(id=self.ids[button], trigger_value=True))
        if to_the_end:
            self._read_to_the_end()

    def type(self, label: str, text: str, button: str) -> None:
        name = self.ids[label]
        self._held[name] = WidgetState(id=name, string_value=text)
        self.rerun(WidgetState(id=self.ids[button], trigger_value=True))

    def rerun(self, *triggers: WidgetState) -> None:
        """Run the script to its end with the current widgets; fail on a page error."""
        self._send(*triggers)
        self._read_to_the_end()

    def _send(self, *triggers: WidgetState) -> None:
        asked = BackMsg()
        state = asked.rerun_script
        state.query_string, state.page_name = self._query, self._page
        state.page_script_hash, state.fragment_id = self._hash, self._fragment
        state.widget_states.widgets.extend([*self._held.values(), *triggers])
        self.say(asked)
        self.elements, self.received, self._fragment = [], b"", ""

    def say(self, message: BackMsg) -> None:
        self.socket.send(message.SerializeToString())

    def _read_to_the_end(self) -> None:
        while not self._read_one():
            pass

    def _read_one(self) -> bool:
        """Read one message and return True if it ends a run that was not superseded."""
        data = self.socket.recv(timeout=PATIENCE)
        assert isinstance(data, bytes)
        self.received += data
        message = ForwardMsg()
        message.ParseFromString(data)
        match message.WhichOneof("type"):
            case "new_session":
                self.name = message.new_session.initialize.session_id
            case "navigation":
                self._hash = message.navigation.page_script_hash
            case "page_info_changed":
                self._query = message.page_info_changed.query_string
            case "delta" if message.delta.WhichOneof("type") == "new_element":
                self._take(message)
            case "script_finished":
                return message.script_finished in (
                    ForwardMsg.FINISHED_SUCCESSFULLY,
                    ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
                )
        return False

    def _take(self, message: ForwardMsg) -> None:
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        assert kind != "exception", element.exception.message
        self.elements.append(element)
        if kind == "progress":
            self.progress_at = [*message.metadata.delta_path]
        shown = getattr(element, str(kind))
        label = shown.component_name if kind == "bidi_component" else getattr(shown, "label", "")
        if label and hasattr(shown, "id"):
            self.ids[label], self._fragments[label] = shown.id, message.delta.fragment_id

    def message_to(self, component: str) -> tuple[dict[str, Any], bytes]:
        (data,) = [
            element.bidi_component.bytes
            for element in self.elements
            if element.WhichOneof("type") == "bidi_component"
            and element.bidi_component.component_name == component
        ]
        return unpack(data)

    def grid(self) -> dict[str, Any]:
        header, body = self.message_to("headlight.grid")
        for name, *_, size in header["kinds"]:
            if name == header["choice"][3]:
                return inflate(body[:size])[0]
            body = body[size:]
        raise AssertionError("the grid shows a kind that it does not have")
