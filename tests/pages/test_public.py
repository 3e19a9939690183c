import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.exceptions import InvalidStatus

from tests.pages.session import Session
from tests.servers import APP, children, readiness, serving, wait_for_empty
from tests.waiting import wait_until
from ui.frame import import_access
from ui.hosting.start import MOST


def ask(url: str, method: str = "GET") -> tuple[int, str, str]:
    asked = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"}, method=method)
    try:
        answer = urllib.request.urlopen(asked)
    except urllib.error.HTTPError as refused:
        answer = refused
    with answer:
        policy = answer.headers.get("content-security-policy", "")
        return answer.status, answer.read().decode(), policy


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("public") / "log.txt"


@pytest.fixture(scope="module")
def shared(random_checkpoints: Path, log: Path) -> Iterator[str]:
    environment = {
        "HEADLIGHT_PUBLIC": "1", "HEADLIGHT_SESSIONS": "2", "HEADLIGHT_BUDGET_SECONDS": "1",
        "HEADLIGHT_IMPORT": "",
    }  # fmt: skip
    command = [*APP, "--server.allowedHosts", "127.0.0.1"]
    started = serving(log, command, checkpoints=random_checkpoints, environment=environment)
    with started as (address, pid):
        assert wait_until(lambda: readiness(address)["ready"])
        assert wait_until(lambda: children(pid))  # one traces sentences before they wait
        assert "uvloop" in Path(f"/proc/{pid}/maps").read_text()
        yield address


@pytest.fixture
def public(shared: str) -> str:
    wait_for_empty(shared)
    return shared


def test_who_asks_by_another_name_gets_no_session(public: str) -> None:
    with (
        pytest.raises(InvalidStatus, match="403"),
        Session(public.replace("127.0.0.1", "localhost")),
    ):
        pass


#: Addresses at which Streamlit answers with its page.
ADDRESSES = (
    "", "attention", "attention/", "a/b/c", "index.html", "x.html", "x.js?y=1", "static/none.js",
    "_stcore/none", "_STCORE/upload_file/a/b", "%61ttention", "a%2Fb", ".hidden", "a.b/_c",
)  # fmt: skip


def test_the_third_visitor_reads_that_the_server_is_full_at_any_address(public: str) -> None:
    with Session(public) as one, Session(public) as two:
        one.open("glossary")
        two.open("glossary")
        for path in ADDRESSES:
            for method in ("GET", "HEAD"):
                status, text, policy = ask(f"{public}/{path}", method)
                assert status == 503 and "frame-ancestors" in policy, path
                assert method == "HEAD" or "Every place is taken" in text
        with pytest.raises(InvalidStatus, match="403"), Session(public):
            pass
    assert wait_until(lambda: ask(f"{public}/attention")[0] == 200)
    assert "frame-ancestors" in ask(f"{public}/attention")[2]
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "POST"):
        assert ask(f"{public}/%5Fstcore/upload_file/a/b", method)[0] == 404


def test_no_request_floods_the_log(public: str, log: Path) -> None:
    with Session(public) as visitor:
        visitor.open("glossary")
        for number in range(40):
            for session in (visitor.name, f"{number}"):
                asked = BackMsg(backend_operation_request={"session_id": session})
                asked.backend_operation_request.deferred_file.file_id = f"{number}" * 9999
                visitor.say(asked)
        visitor.open("attention")
        for _ in range(9):
            with suppress(AssertionError):  # the run ends in an error
                visitor.rerun(WidgetState(id=visitor.ids["Sentence"], bool_value=True))
    said = ("Error executing deferred callable", "session ID mismatch", "'bool' object is not")
    assert wait_until(lambda: all(each in log.read_text() for each in said))
    assert max(log.read_text().count(each) for each in said) <= MOST
    assert log.stat().st_size < 100_000


def test_a_visit_has_its_budget_and_no_right_to_import_or_train(public: str) -> None:
    with Session(public, Origin=public) as visitor:  # this machine's browser has none, either
        said = ""
        for number in range(100):
            visitor.open("attention", sentence=f"{'A dog runs. ' * (number + 1)}", beam="1")
            said = " ".join(each.alert.body for each in visitor.elements)
            if "Compute quota used up" in said:
                break
        assert "Compute quota used up" in said
        visitor.open("attention", checkpoint="beta")  # to load it is work, too
        assert "Compute quota used up" in " ".join(each.alert.body for each in visitor.elements)
        visitor.open("models")
        shown = " ".join(str(each) for each in visitor.elements)
        assert "Importing from the app is switched off" in shown
        visitor.open("training")
        assert "Training in the app is switched off" in " ".join(str(e) for e in visitor.elements)


def may_import(session: Session) -> bool:
    shown = " ".join(str(element) for element in session.elements)
    assert ("New checkpoint name" in shown) != ("the link that the server printed" in shown)
    return "New checkpoint name" in shown


def test_this_machines_browser_or_the_token_counts(
    tmp_path: Path, random_checkpoints: Path
) -> None:
    """A local address alone does not, since a local proxy gives its own to every visitor."""
    log, closed = tmp_path / "log", {"HEADLIGHT_IMPORT": ""}
    with serving(log, checkpoints=random_checkpoints, environment=closed) as (address, _):
        (token,) = re.findall(r"/models\?token=([\w-]{32})\n", log.read_text())
        with Session(address) as visitor:
            for given, right in (("x" * 32, False), (token, True), ("", True)):
                visitor.open("models", token=given)  # once given, for as long as it lasts
                assert may_import(visitor) == right
                assert not given or given.encode() not in visitor.received
        here, named = {"Origin": address}, address.replace("127.0.0.1", "localhost")
        for at, headers, right in (
            (address, here, True),
            (named, {"Origin": named}, True),
            (address, {"Origin": named}, False),
            (address, {"Origin": "http://127.0.0.1:1"}, False),
            *((address, here | {name: "127.0.0.1"}, False) for name in RELAYED),
        ):
            with Session(at, **headers) as visitor:
                visitor.open("models")
                assert may_import(visitor) == right, headers


#: Headers by which proxies say that a request is another's.
RELAYED = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")


def test_a_setting_decides_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("on", "ON", "1"):
        monkeypatch.setenv("HEADLIGHT_IMPORT", setting)
        assert import_access.refusal() is None
        assert import_access.invitation() is None
    for setting in ("off", "0", "no", "whatever"):
        monkeypatch.setenv("HEADLIGHT_IMPORT", setting)
        assert "switched off" in str(import_access.refusal())
        assert import_access.invitation() is None
        assert not import_access.admit(import_access.token())
