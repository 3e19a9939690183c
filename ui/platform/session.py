"""Sessions and runs: reported widgets, and output after the end of a run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from streamlit import runtime
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitInvalidLayoutContextError as OutsideFragmentError
from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.scriptrunner_utils.script_run_context_attr import (
    SCRIPT_RUN_CONTEXT_ATTR_NAME,
)
from streamlit.runtime.state.session_state_proxy import get_session_state

__all__ = [
    "OutsideFragmentError", "Session", "StreamlitPage", "current_session", "drop_nested_messages",
    "drop_unknown_widgets", "reports", "serve_every_address_by_the_app", "went_back",
]  # fmt: skip


def reports(key: str) -> bool:
    """Return True if the browser has reported the widget with this key in this run."""
    state = get_session_state()._state
    return state._key_id_mapper.get_id_from_key(key) in state._new_widget_state


def drop_unknown_widgets(most: int) -> None:
    """Drop widgets that belong to no page, which Streamlit keeps until a run ends.

    Args: most: limit in bytes below which they stay.
    """
    if (context := get_script_run_ctx(suppress_warning=True)) is not None:
        session = context.session_state
        with session._lock:
            new = session._state._new_widget_state
            unknown = new.states.keys() - new.widget_metadata.keys()
            size = sum(100 + new.states[name].value.ByteSize() for name in unknown)
            for name in unknown if size > most else ():
                del new.states[name]


def went_back() -> bool:
    """Return True if the browser came to this run's address by its Back or Forward button."""
    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and context.is_history_navigation


def serve_every_address_by_the_app() -> None:
    """Keep Streamlit from serving files in `pages/` before the first run."""
    PagesManager.uses_pages_directory = False


def drop_nested_messages() -> None:
    """Drop what nested fragments have drawn when a fragment runs again before it was sent.

    Streamlit drops the fragment's own messages alone, among them the blocks around nested ones, and
    a browser without these blocks stops with "Bad delta path".
    """
    clear = ForwardMsgQueue.clear

    def clear_nested(queue: ForwardMsgQueue, *args: Any, **options: Any) -> None:
        before = queue._queue
        clear(queue, *args, **options)
        kept = {id(message) for message in queue._queue}
        blocks = {
            tuple(message.metadata.delta_path) for message in before
            if id(message) not in kept and message.delta.WhichOneof("type") == "add_block"
        }  # fmt: skip
        queue._queue = [
            message
            for message in queue._queue
            if not any(tuple(message.metadata.delta_path[: len(path)]) == path for path in blocks)
        ]

    ForwardMsgQueue.clear = clear_nested  # type: ignore[assignment, method-assign]


@dataclass(frozen=True)
class Session:
    """A visitor's session, for threads outside its runs."""

    context: ScriptRunContext

    @property
    def active(self) -> bool:
        """True until the visitor leaves."""
        return bool(runtime.get_instance().is_active_session(self.context.session_id))

    def caption(self, place: DeltaGenerator, line: str) -> None:
        """Show a line on the page after its run has ended."""
        if session := runtime.get_instance().get_app_session(self.context.session_id):
            with _within(replace(self.context, _enqueue=session._enqueue_forward_msg)):
                place.caption(line)

    def keep(self, content: bytes, mime: str, place: str, name: str) -> None:
        """Keep a file until the session's next run.

        Streamlit deletes a file made on demand after two runs of any sessions, in a full classroom
        before the browser has fetched it.
        """
        with _within(self.context):
            runtime.get_instance().media_file_mgr.add(
                content, mime, place, file_name=name, is_for_static_download=True
            )


def current_session() -> Session | None:
    """Return this run's session, or None outside runs."""
    context = get_script_run_ctx(suppress_warning=True)
    return None if context is None else Session(context)


@contextmanager
def _within(context: ScriptRunContext) -> Iterator[None]:
    thread = threading.current_thread()
    add_script_run_ctx(thread, context)
    try:
        yield
    finally:
        delattr(thread, SCRIPT_RUN_CONTEXT_ATTR_NAME)
