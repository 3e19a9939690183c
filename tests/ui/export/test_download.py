"""The popover computes nothing before a click, and its snippets cannot be made to run text."""

import ast
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.testing.v1 import AppTest

from figures.paper import PRESETS
from figures.tables import MOST_ROWS
from tests.figures.exhibits import exhibit
from tests.views import make_view
from tests.waiting import wait_until
from transformer.search.sampling import Sampling
from transformer.worker.job import StoppedError
from transformer.worker.scheduler import Scheduler
from ui.export import download
from ui.export.download import FORMATS, source_of
from ui.export.programs import header
from ui.work import budget
from ui.work.budget import Budget, OverBudgetError
from ui.work.progress import unreported

SCRIPT = """
import streamlit as st
from tests.figures.exhibits import exhibit
from ui.export.download import download_button

def make():
    raise AssertionError("computed before anyone asked")

@st.fragment
def figure():
    download_button(make, key="a", name="all-heads", n_numbers={count})
    download_button(make, key="b")

figure()
"""


def test_nothing_is_computed_before_a_click() -> None:
    app = AppTest.from_string(SCRIPT.format(count=MOST_ROWS + 1), default_timeout=60).run()
    buttons = app.get("download_button")
    assert [each.key for each in buttons] == [f"{key}_{f.ending}" for key in "ab" for f in FORMATS]
    assert {f.ending for f in FORMATS} == {"png", "svg", "pdf", "csv", "npz", "html", "py"}
    assert all(bool(each.proto.deferred_file_id) != each.disabled for each in buttons)
    assert all(each.proto.ignore_rerun for each in buttons)
    assert [each.key for each in buttons if each.disabled] == ["a_csv"]  # of too many numbers
    # A size is chosen once for all figures.
    sizes = app.get("button_group")
    assert [each.key for each in sizes] == ["a_figure_size", "b_figure_size"]
    assert [each.value for each in sizes] == ["two-columns"] * 2
    app.get("button_group")[0].set_value("slide").run()
    assert [each.value for each in app.get("button_group")] == ["slide"] * 2
    assert not app.exception


def test_a_picture_that_lacks_characters_says_so_after_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forms: list[download.Format] = []
    monkeypatch.setattr(download, "_button", lambda make, form, *_: forms.append(form))
    AppTest.from_string(SCRIPT.format(count=1), default_timeout=60).run()
    sent: list[ForwardMsg] = []
    session = SimpleNamespace(_enqueue_forward_msg=sent.append)
    holder = SimpleNamespace(get_app_session=lambda _: session)
    monkeypatch.setattr(download.runtime, "get_instance", lambda: holder)
    made = replace(exhibit(), title="\U00011f04")  # of the Kawi script, which no usual font has
    for form in forms[: len(FORMATS)]:
        sent.clear()
        thread = threading.Thread(target=form.write, args=(made,))
        thread.start()
        thread.join()
        said = [each.delta.new_element.markdown.body for each in sent]
        assert len(said) == (form.ending in ("png", "pdf")), form.ending
        assert all(form.ending.upper() in line and "11F04" in line for line in said)


def test_only_pictures_and_papers_have_a_size() -> None:
    made = exhibit()
    for form in FORMATS:
        sized = form.at(PRESETS["one-column"])
        assert form.sized == (form.ending in ("png", "svg", "pdf"))
        assert sized.size == ("-one-column" if form.sized else "")
        assert not form.sized or sized.write(made)
    svg = next(form for form in FORMATS if form.ending == "svg")
    assert b'width="960pt" height="540pt"' in svg.at(PRESETS["slide"]).write(made)


def called(code: str) -> dict[str, object]:
    """Return the sentence and keyword arguments of `translator.trace`, as literals."""
    call = ast.parse(code).body[-1]
    assert isinstance(call, ast.Assign) and isinstance(call.value, ast.Call)
    found: dict[str, object] = {"sentence": ast.literal_eval(call.value.args[0])}
    for keyword in call.value.keywords:
        assert keyword.arg is not None
        try:
            found[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            found[keyword.arg] = ast.unparse(keyword.value)
    return found


@given(sentence=st.text(min_size=1, max_size=60), target=st.none() | st.text(min_size=1))
def test_typed_text_is_a_literal(tiny_checkpoint: Path, sentence: str, target: str | None) -> None:
    code = header(source_of(make_view(tiny_checkpoint, sentence, target=target)))
    arguments = called(code)
    assert arguments["sentence"] == sentence
    assert arguments.get("target") == target
    assert len(ast.parse(code).body) == 8  # imports, one function, assignments; nothing more


@pytest.mark.parametrize(("given", "expected"), [
    ({}, {"beam_size": 4}),
    ({"beam_size": 1, "alpha": 1.5}, {"beam_size": 1}),
    ({"prefix": (5, 6)}, {"prefix": [5, 6], "beam_size": 4}),
    ({"prefix": (5, 2)}, {"target": [5, 2], "beam_size": 1}),
    ({"target": "Ein Hund."}, {"target": "Ein Hund.", "beam_size": 1}),
    ({"beam_size": 1, "sampling": Sampling(0.5, 3, 0.9, 7)},
     {"beam_size": 1, "sampling": "Sampling(temperature=0.5, top_k=3, top_p=0.9, seed=7)"}),
])  # fmt: skip
def test_the_snippet_steers_as_the_view_does(
    tiny_checkpoint: Path, given: dict[str, object], expected: dict[str, object]
) -> None:
    code = header(source_of(make_view(tiny_checkpoint, "A dog.", **given)))
    assert called(code) == {"sentence": "A dog.", "alpha": 0.6, **expected}
    assert ("import Sampling" in code) == ("sampling" in given)
    assert str(tiny_checkpoint.parent) not in code, "no folder of the server"


def test_a_file_outlives_the_runs_of_other_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit drops unreferenced files whenever any session's script ends."""
    files = MediaFileManager(MemoryMediaFileStorage("/media"))
    holder = SimpleNamespace(media_file_mgr=files)
    monkeypatch.setattr(download.runtime, "get_instance", lambda: holder)
    mine = SimpleNamespace(
        session_id="mine", pages_manager=SimpleNamespace(main_script_hash="app"), fragment_id=None
    )

    def make() -> bytes:
        download._keep(mine, b"1,2", "text/csv", "figure_csv", "a.csv")  # type: ignore[arg-type]
        assert get_script_run_ctx(suppress_warning=True) is None, "the thread serves others next"
        return b"1,2"

    made: list[str] = []
    number = files.add_deferred(make, "text/csv", "0.1", file_name="a.csv")
    thread = threading.Thread(target=lambda: made.append(files.execute_deferred(number)))
    thread.start()
    thread.join()
    for _ in range(3):
        files.remove_orphaned_files()
    name = made[0].rsplit("/", 1)[1]
    assert files._storage.get_file(name).content == b"1,2"  # type: ignore[attr-defined]
    files.clear_session_refs("mine")
    for _ in range(3):
        files.remove_orphaned_files()
    assert not files._file_metadata


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., "Future[None]"]:
    """Asks for a file as a click does; returns its outcome."""

    def ask(
        schedule: Scheduler, visit: Budget, make: Callable[[], object], here: Sequence[str] = "m",
        say: Callable[[str], None] = pytest.fail,
    ) -> "Future[None]":  # fmt: skip
        holder = SimpleNamespace(is_active_session=here.__contains__)
        monkeypatch.setattr(download.runtime, "get_instance", lambda: holder)
        context: Any = SimpleNamespace(session_id="m")

        def data() -> None:
            with download._turn(schedule, context, visit, say):
                make()

        return ThreadPoolExecutor(1).submit(data)

    return ask


@pytest.mark.parametrize("leaves", [False, True])
def test_only_the_last_file_of_a_visitor_who_stays_is_made(
    leaves: bool, ask: Callable[..., "Future[None]"]
) -> None:
    schedule, visit, made, here = Scheduler(), Budget(60), list[int](), ["m"]
    asked: list[Future[None]] = []
    with schedule.turn():  # another's file is being made
        for number in range(5):
            asked.append(ask(schedule, visit, partial(made.append, number), here))
            assert wait_until(lambda: schedule.waiting == 1 and all(e.done() for e in asked[:-1]))
        del here[: int(leaves)]
        assert wait_until(lambda: asked[-1].done() == leaves)
    outcomes = [each.exception() for each in asked]
    assert made == [4][leaves:]
    assert [isinstance(each, StoppedError) for each in outcomes] == [True] * 4 + [leaves]


def test_a_file_counts_and_ends_with_the_budget_or_the_next_file(
    ask: Callable[..., "Future[None]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, said = [0.0], list[str]()
    visit = Budget(60, lambda: now[0])

    def interrupted() -> None:
        unreported(1, 2)  # as a trace does that the file needs
        visit.file()
        unreported(2, 2)

    assert isinstance(ask(Scheduler(), visit, interrupted).exception(), StoppedError)
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    ask(Scheduler(), visit, lambda: now.__setitem__(0, 61.0)).result()
    refused = ask(Scheduler(), visit, pytest.fail, say=said.append)
    assert isinstance(refused.exception(), OverBudgetError)
    assert said[0].startswith("Compute quota used up; try again in")
