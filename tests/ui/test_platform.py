"""Private parts of Streamlit and uvicorn that the app relies on.

A failure names the part changed by a new version, and its use.
"""

import ast
import threading
import tomllib
from importlib.metadata import version

import altair as alt
import pytest
import streamlit as st
from google.protobuf.message import DecodeError
from packaging.specifiers import SpecifierSet
from streamlit import net_util
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest

from tests.forks import ROOT
from tests.house import Module, modules
from ui.platform import assets, server, session

#: Modules of these libraries with documented names; everything else of theirs is private.
LIBRARIES = {"streamlit", "uvicorn", "starlette", "google", "websockets"}
PUBLIC = {
    "streamlit", "streamlit.delta_generator", "streamlit.components.v2", "streamlit.testing.v1",
    "starlette.datastructures", "starlette.middleware", "starlette.responses", "starlette.types",
}  # fmt: skip


def couplings(module: Module) -> list[str]:
    """Return private modules and underscored names that a module uses."""
    lines = []
    for node in ast.walk(ast.parse(module.text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "streamlit":
                names = [f"streamlit.{alias.name}" for alias in node.names]
        for name in names:
            if name.partition(".")[0] in LIBRARIES and name not in PUBLIC:
                lines.append(f"{module.path}:{node.lineno} imports {name}")
        if isinstance(node, ast.Attribute) and node.attr[0] == "_" and node.attr[1] != "_":
            base = node.value
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id in ("st", "runtime", "config"):
                lines.append(f"{module.path}:{node.lineno} reads {node.attr}")
    return lines


def test_only_the_platform_reaches_behind_public_interfaces() -> None:
    house = modules()
    app = [name for name in house if name.partition(".")[0] in ("app", "pages", "ui", "headlight")]
    private = {name: lines for name in app if (lines := couplings(house[name]))}
    assert len(app) > 100
    assert {name for name in private if not name.startswith("ui.platform")} == set(), private
    assert {"ui.platform.session", "ui.platform.server", "ui.platform.assets"} == private.keys()


def test_no_other_file_knows_the_elements_of_streamlits_page() -> None:
    parts = ("app.py", "pages/*.py", "headlight/*.py", "ui/**/*.py", "ui/**/*.js", "ui/**/*.css")
    files = [file for part in parts for file in ROOT.glob(part)]
    known = ("data-testid", ".stElement", ".stEmpty")
    naming = {
        file.relative_to(ROOT).parts[1]
        for file in files
        if "bundles" not in file.parts and any(name in file.read_text("utf-8") for name in known)
    }
    assert len(files) > 200 and naming == {"platform"}


def test_the_installed_versions_are_those_that_were_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (pin,) = (line for line in project["dependencies"] if line.startswith("streamlit"))
    assert pin.startswith("streamlit~=")
    assert version("streamlit") in SpecifierSet(pin.removeprefix("streamlit"))


def test_a_chart_is_written_out_once_with_its_data_in_arrow() -> None:
    """`ui.core.layout.ReadyChart` caches it for all sessions."""
    chart = alt.Chart(alt.Data(values=[{"a": 1}])).mark_point().encode(x="a:Q")
    assert assets.vega_lite_of(chart)["mark"]


def test_the_font_is_where_offline_pages_take_it() -> None:
    path = assets.font_file()
    assert path is not None and path.read_bytes()[:4] == b"wOF2"


def test_a_browsers_message_has_a_kind_and_widgets() -> None:
    """`ui.hosting.visitors.Line` bounds a visitor's messages."""
    message = BackMsg()
    message.rerun_script.widget_states.widgets.add(id="a").json_value = "12345"
    kind, read = server.kind_of(message.SerializeToString())
    count, reports = server.widgets_in(read)
    assert (kind, count, [*reports]) == ("rerun_script", 1, [5])
    deferred = BackMsg()
    deferred.backend_operation_request.deferred_file.file_id = "f"
    assert server.kind_of(deferred.SerializeToString())[0] == "deferred_file"
    with pytest.raises(DecodeError):
        server.kind_of(b"\xff")


def test_a_browser_can_be_asked_to_open_its_address_again() -> None:
    message = ForwardMsg.FromString(server.message_to_open_again())
    assert message.WhichOneof("type") == "auth_redirect"


def test_uvicorn_takes_the_class_of_its_websockets_from_the_lifespan() -> None:
    from uvicorn import Config
    from uvicorn.lifespan.on import LifespanOn

    lifespan = LifespanOn(Config(app=lambda *_: None))
    server.serve_websockets_by(server.Connection, lifespan.receive)
    assert lifespan.config.ws_protocol_class is server.Connection


def test_uvicorns_websockets_have_the_methods_that_are_bounded() -> None:
    base = server.Connection.__mro__[1]
    own = {name for name in vars(server.Connection) if not name.startswith("__")}
    assert own - {"most_bytes", "admits"} <= {*dir(base)}


def test_streamlit_asks_no_server_for_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_util, "get_external_ip", net_util.get_external_ip)
    server.contact_no_server()
    assert net_util.get_external_ip() is None


def test_files_in_pages_are_no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PagesManager, "uses_pages_directory", None)
    session.serve_every_address_by_the_app()
    assert PagesManager.uses_pages_directory is False


def test_a_fragments_blocks_are_dropped_with_all_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(fragment: str, *path: int, block: bool = False) -> ForwardMsg:
        message = ForwardMsg()
        message.metadata.delta_path.extend(path)
        message.delta.fragment_id = fragment
        getattr(message.delta, "add_block" if block else "new_element").SetInParent()
        return message

    outer, around = drawn("outer", 0, 1, block=True), drawn("outer", 0, 1, 0, block=True)
    nested, beside = drawn("nested", 0, 1, 0, 0, block=True), drawn("beside", 0, 2)
    monkeypatch.setattr(ForwardMsgQueue, "clear", ForwardMsgQueue.clear)
    kept = []
    for adapt in (lambda: None, session.drop_nested_messages):
        adapt()
        queue = ForwardMsgQueue()
        [queue.enqueue(message) for message in (outer, around, nested, beside)]
        queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=["outer"])
        kept.append(queue.flush())
    assert kept == [[nested, beside], [beside]]  # by Streamlit alone, and here


def _script() -> None:
    import streamlit as st

    from ui.platform.session import current_session, drop_unknown_widgets, reports

    st.session_state["log"] = (reports("a"), current_session() is not None)
    st.text_input("A", key="a")
    drop_unknown_widgets(0)


def test_a_run_knows_its_session_and_what_the_browser_reported() -> None:
    app = AppTest.from_function(_script).run()
    assert app.session_state["log"] == (False, True)
    app.text_input(key="a").set_value("x").run()
    assert app.session_state["log"] == (True, True)


def test_outside_of_runs_there_is_no_session() -> None:
    assert session.current_session() is None
    sessions: list[object] = []
    thread = threading.Thread(target=lambda: sessions.append(session.current_session()))
    thread.start()
    thread.join()
    assert sessions == [None]


def test_a_page_is_what_streamlit_makes_of_one() -> None:
    assert isinstance(st.Page(lambda: None, title="A", url_path="a"), session.StreamlitPage)
