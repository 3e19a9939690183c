import ast
import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
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

from figures.exhibit import MOST_ROWS, Offline, to_csv, to_npz
from figures.paper import PRESETS
from tests.figures.exhibits import HOSTILE, exhibit, hostile_panel, panel
from tests.views import make_view
from tests.waiting import wait_until
from transformer.search.rules import Sampling
from transformer.worker.job import StoppedError, report
from ui.components.packing import COMPONENTS, pack, style
from ui.export import download, html
from ui.export.download import FORMATS, source_of
from ui.export.html import save, to_html
from ui.export.programs import header
from ui.platform import session
from ui.platform.session import Session
from ui.work import desk
from ui.work.results import LONG
from ui.work.visit import Budget, OverBudgetError

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
    assert [each.value for each in app.toggle] == [True] * 2
    app.toggle[1].set_value(False).run()  # so are its title and caption
    assert [each.value for each in app.toggle] == [False] * 2
    assert not app.exception


def test_a_picture_that_lacks_characters_says_so_after_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forms: list[download.Format] = []
    monkeypatch.setattr(download, "_button", lambda make, form, *_: forms.append(form))
    AppTest.from_string(SCRIPT.format(count=1), default_timeout=60).run()
    sent: list[ForwardMsg] = []
    page = SimpleNamespace(_enqueue_forward_msg=sent.append)
    holder = SimpleNamespace(get_app_session=lambda _: page)
    monkeypatch.setattr(session.runtime, "get_instance", lambda: holder)
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
    assert len(ast.parse(code).body) == 10  # imports, one function, assignments; nothing more


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
    monkeypatch.setattr(session.runtime, "get_instance", lambda: holder)
    mine = SimpleNamespace(
        session_id="mine", pages_manager=SimpleNamespace(main_script_hash="app"), fragment_id=None
    )

    def make() -> bytes:
        Session(mine).keep(b"1,2", "text/csv", "figure_csv", "a.csv")  # type: ignore[arg-type]
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
    def ask(
        visit: Budget, make: Callable[[], object], here: Sequence[str] = "m",
        say: Callable[[str], None] = pytest.fail,
    ) -> "Future[Any]":  # fmt: skip
        holder = SimpleNamespace(is_active_session=here.__contains__)
        monkeypatch.setattr(session.runtime, "get_instance", lambda: holder)
        visitor = Session(SimpleNamespace(session_id="m"))  # type: ignore[arg-type]

        return ThreadPoolExecutor(1).submit(download._made, make, True, visitor, visit, say)

    return ask


@pytest.mark.parametrize("leaves", [False, True])
def test_only_the_last_file_of_a_visitor_who_stays_is_made(
    leaves: bool, ask: Callable[..., "Future[None]"]
) -> None:
    schedule, visit, made, here = LONG, Budget(60), list[int](), ["m"]
    asked: list[Future[None]] = []
    with schedule.turn():  # another's file is being made
        for number in range(5):
            asked.append(ask(visit, partial(made.append, number), here))
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
        report(1, 2)  # as a trace does that the file needs
        visit.start_file(lambda: None)
        report(2, 2)

    assert isinstance(ask(visit, interrupted).exception(), StoppedError)
    monkeypatch.setattr(desk.time, "monotonic", lambda: now[0])
    ask(visit, lambda: now.__setitem__(0, 61.0)).result()
    assert isinstance(ask(visit, pytest.fail, say=said.append).exception(), OverBudgetError)
    assert said[0].startswith("Compute quota used up; try again in")


class Reader(HTMLParser):
    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(data.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def policy(self) -> dict[str, list[str]]:
        content = next(
            attrs["content"] or ""
            for tag, attrs in self.elements
            if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
        )
        return {part.split()[0]: part.split()[1:] for part in content.split("; ")}


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def lens_page() -> bytes:
    views = (Offline("grid", pack({"a": 1}, b"")), Offline("lens", b"\x01\x02", {"[0,1]": b"\x03"}))
    return to_html(exhibit(hostile_panel(), offline=views))


def test_only_our_own_script_and_styles_are_allowed() -> None:
    page = Reader(lens_page())
    policy = page.policy()
    assert (policy["default-src"], policy["img-src"]) == (["'none'"], ["data:"])
    assert policy["base-uri"] == policy["form-action"] == ["'none'"]
    assert policy["script-src"] == [digest(page.texts["script"][-1])]
    (text,) = re.findall(r"^const styles = (.*);$", page.texts["script"][-1], re.MULTILINE)
    styles = json.loads(text)
    inside = [digest(each) for each in styles.values()]
    assert policy["style-src"] == [digest(page.texts["style"][0]), *inside]
    assert not any("unsafe" in each for values in policy.values() for each in values)


def test_the_font_of_the_app_is_in_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (lens_page(), to_html(exhibit(panel(3, 4)))):
        page = Reader(data)
        css = page.texts["style"][0]
        (face,) = re.findall(r"@font-face {([^}]*)}", css)
        address = re.search(r'src: url\("data:font/woff2;base64,([^"]*)"\)', face)
        assert address is not None and base64.b64decode(address[1]).startswith(b"wOF2")
        assert page.policy()["font-src"] == ["data:"]
        assert re.findall(r"url\((?!\"data:)|@import|https?://", css) == []
        assert 'font-family: "Source Sans"' in face and '--st-font: "Source Sans",' in css
    monkeypatch.setattr(html, "font_file", lambda: None)
    monkeypatch.setattr(html, "font_face", html.font_face.__wrapped__)
    assert b"@font-face" not in lens_page()


def test_nothing_is_asked_of_a_network_and_no_text_is_markup() -> None:
    page = Reader(lens_page())
    assert {tag for tag, _ in page.elements} <= {
        "html", "head", "meta", "title", "style", "body", "main", "h1", "p", "div", "script",
        "noscript", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td",
        "bdi", "pre", "code", "footer",
    }  # fmt: skip
    for tag, attributes in page.elements:
        assert not attributes.keys() & {"src", "href", "srcset", "style"}, tag
        assert not any(name.startswith("on") for name in attributes), tag
    assert page.texts["title"] == ['Cross-attention <i>of</i> "all"']
    shown = [each.strip("\u2068\u2069") for each in page.texts["bdi"]]
    assert {HOSTILE[1], "=HYPERLINK(1)", "l" * 200, "two↵lines␍↵"} <= set(shown)
    assert len(shown) == 2 * len(HOSTILE)
    assert "".join(page.texts["code"]) == exhibit().program


def test_messages_come_back_byte_by_byte() -> None:
    page = Reader(lens_page())
    ids = [attributes["id"] for tag, attributes in page.elements if attributes.get("id")]
    assert ids == ["data-0", "data-1", "data-1-0"]
    held = [base64.b64decode(text) for text in page.texts["script"][:3]]
    assert held == [pack({"a": 1}, b""), b"\x01\x02", b"\x03"]
    follows = [json.loads(a["data-follows"] or "") for _, a in page.elements if "data-follows" in a]
    assert follows == [{}, {"[0,1]": "data-1-0"}]


def test_without_a_view_the_page_holds_the_drawing_and_no_script() -> None:
    page = Reader(to_html(exhibit(panel(3, 4))))
    assert page.policy()["script-src"] == ["'none'"]
    assert "script" not in page.texts
    (image,) = (attributes for tag, attributes in page.elements if tag == "img")
    assert image["alt"] == 'Cross-attention <i>of</i> "all"'
    svg = base64.b64decode((image["src"] or "").removeprefix("data:image/svg+xml;base64,"))
    assert svg.startswith(b"<svg") and b"_query0" in svg
    numbers = [float(each) for each in page.texts["td"]]
    assert numbers == pytest.approx(panel(3, 4).values.ravel().tolist())


def test_long_tables_are_left_to_the_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MOST_IN_TABLE", 11)
    page = Reader(to_html(exhibit(panel(3, 4), offline=Offline("lens", b"\x00"))))
    assert "td" not in page.texts
    assert any("12 numbers: download" in each for each in page.texts["p"])


def test_an_unknown_component_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'lense' is not one of cut, grid"):
        to_html(exhibit(offline=Offline("lense", b"")))


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_component_fits_into_a_page(name: str) -> None:
    code = html._script((name,))
    assert code.count(f'mounts["{name}"] = view.default;') == 1
    used = set(re.findall(r"--(?:st|hl)-[a-z-]+", code + style(name)))
    assert used <= set(re.findall(r"(--[a-z-]+):", html._variables("light"))), "undefined"


def test_save_goes_by_the_ending(tmp_path: Path) -> None:
    made = exhibit(offline=Offline("lens", b"\x00"))
    assert save(made, tmp_path / "a.HTML").read_bytes() == to_html(made)
    assert save(made, str(tmp_path / "a.py")).read_text() == made.program
    assert save(made, tmp_path / "a.CSV").read_bytes() == to_csv(made)
    assert save(made, tmp_path / "a.npz").read_bytes() == to_npz(made)
    assert save(made, tmp_path / "a.svg").read_bytes().startswith(b"<svg")
    with pytest.raises(ValueError, match=r"'\.gif'.*\.png, \.svg, \.pdf, \.csv, \.npz, \.py"):
        save(made, tmp_path / "a.gif")
