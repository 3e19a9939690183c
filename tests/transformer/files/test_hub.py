"""Models from the hub: a local hub, the real client, and possible failures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.transformer.huggingface.models import make_folder
from tests.transformer.importers.hub_site import COMMIT, LARGE, NAME, Hub, serving
from tests.transformer.site import Site
from transformer.__main__ import main
from transformer.catalogue import inspect_entry
from transformer.errors import CheckpointError
from transformer.files import hub
from transformer.importers.registry import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

FILES = FORMATS["marian"].files


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    make_folder(folder, "separate vocabularies")
    found = {each.name: each.read_bytes() for each in folder.iterdir()}
    return found | {"README.md": b"# card", "tf_model.h5": b"x" * 50, "pytorch_model.bin": b"old"}


@pytest.fixture
def site(
    contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Hub]:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("no_proxy", "*")
    with serving(Hub(dict(contents))) as site:
        monkeypatch.setenv("HF_ENDPOINT", site.home)
        site.publish()
        yield site


def test_the_hub_is_asked_before_anything_is_fetched(site: Hub) -> None:
    model = hub.look_up(NAME, FILES)
    names = {each.name for each in model.files}
    assert {"config.json", "vocab.json", "source.spm", LARGE} <= names <= set(FILES)
    assert "pytorch_model.bin" not in names  # the safetensors hold the same
    assert model.size == sum(len(site.contents[name]) for name in names)
    assert model.revision == COMMIT
    assert not any("resolve" in path for path in site.asked)


def test_a_model_is_fetched_and_imported(
    site: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "root" / "ours"
    assert main(["import", "marian", NAME, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert inspect_entry(out).metrics["imported"]["source"] == NAME
    assert [each.name for each in out.parent.iterdir()] == ["ours"]
    assert not any(name in path for path in site.asked for name in ("h5", "README", ".bin"))


def test_how_far_it_is_is_said_in_bytes(site: Hub, tmp_path: Path) -> None:
    model, heard = hub.look_up(NAME, FILES), []
    with hub.fetched(model, tmp_path / "new", lambda *it: heard.append(it)) as folder:
        assert {each.name for each in folder.iterdir()} == {each.name for each in model.files}
        for each in model.files:
            assert (folder / each.name).read_bytes() == site.contents[each.name]
    assert heard == sorted(heard)
    assert heard[-1] == (model.size, model.size)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("kind", [Exception, BaseException])
def test_stopping_leaves_nothing(site: Hub, tmp_path: Path, kind: type[BaseException]) -> None:
    class Stopped(kind):  # type: ignore[valid-type, misc]
        pass

    def stop(received: int, total: int) -> None:
        if received > total // 3:
            raise Stopped

    with pytest.raises(Stopped), hub.fetched(hub.look_up(NAME, FILES), tmp_path / "new", stop):
        pass
    assert list((tmp_path / "new").iterdir()) == []


def test_a_download_that_breaks_off_resumes_after_the_last_whole_chunk(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 4096)  # 10 MiB otherwise
    data, ranges = site.contents[LARGE], []

    def falter(handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers["Range"]
        ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        handler.send_response(206 if asked else 200)
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        handler.wfile.write(data[start : start + len(data) // 2])
        handler.close_connection = True

    site.files[site.path_of(LARGE)] = falter
    with hub.fetched(hub.look_up(NAME, FILES), tmp_path) as folder:
        assert (folder / LARGE).read_bytes() == data
    assert ranges[0] is None
    starts = [int(each.removeprefix("bytes=").rstrip("-")) for each in ranges[1:]]
    assert 0 < starts[0] <= len(data) // 2 and starts == sorted(starts)


def test_a_server_that_cannot_go_on_starts_again(site: Hub, tmp_path: Path) -> None:
    data, count = site.contents[LARGE], []

    def once_broken(handler: BaseHTTPRequestHandler) -> None:
        count.append(1)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data if len(count) > 1 else data[:999])
        handler.close_connection = True

    site.files[site.path_of(LARGE)] = once_broken
    with hub.fetched(hub.look_up(NAME, FILES), tmp_path) as folder:
        assert (folder / LARGE).read_bytes() == data


def swap(name: str, change: Callable[[bytes], bytes]) -> Callable[[Hub], object]:
    def damage(site: Hub) -> None:
        site.files[site.path_of(name)] = change(site.contents[name])

    return damage


def status(code: int) -> Callable[[Hub], object]:
    def damage(site: Hub) -> None:
        site.files[site.path_of(LARGE)] = lambda handler: handler.send_error(code)

    return damage


#: The fault in the hub's answers, and the message.
DAMAGES: dict[str, tuple[Callable[[Hub], object], str]] = {
    "a flipped byte": (
        swap(LARGE, lambda data: data[:-1] + bytes([data[-1] ^ 1])), f"{LARGE}: wrong checksum",
    ),
    "a flipped byte in a small file": (
        swap("vocab.json", lambda data: data[:-3] + b"X" + data[-2:]),
        r"vocab\.json: wrong checksum",
    ),
    "cut short": (swap(LARGE, lambda data: data[:-100]), f"{LARGE}: broke off after"),
    "longer than announced": (swap(LARGE, lambda data: data + b"x"), f"{LARGE}: larger than the"),
    "gone": (status(404), f"{LARGE}: the hub answered 404"),
    "not allowed": (status(403), f"{LARGE}: the hub answered 403"),
    "a hub that fails": (status(503), f"{LARGE}: the hub answered 503"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_what_the_hub_does_wrong_is_one_line(name: str, site: Hub, tmp_path: Path) -> None:
    damage, reason = DAMAGES[name]
    damage(site)
    with pytest.raises(CheckpointError, match=reason) as caught:  # noqa: SIM117
        with hub.opened(NAME, FILES, tmp_path / "new"):
            pytest.fail("nothing should have come")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    "evil", ["../../config.json", "/etc/config.json", "a/config.json", ".config.json", "c\0.json"]
)
def test_names_from_the_hub_are_no_paths(site: Hub, tmp_path: Path, evil: str) -> None:
    site.listed["evil"] = {"rfilename": evil, "size": 3, "blobId": "0" * 40}
    site.publish()
    names = {each.name for each in hub.look_up(NAME, ("*",)).files}
    assert "config.json" in names
    assert not any(name.startswith((".", "/", "c\0")) or "/" in name for name in names)


def test_too_much_is_not_fetched(site: Hub, tmp_path: Path) -> None:
    site.listed[LARGE]["size"] = 10**13
    site.publish()
    with pytest.raises(CheckpointError, match=r"10,000,0.* at most 9,000,000,000 bytes"):
        hub.look_up(NAME, FILES)


def test_a_full_disk_is_found_out_before(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = hub.look_up(NAME, FILES)
    monkeypatch.setattr(
        "shutil.disk_usage", lambda path: type("Usage", (), {"free": model.size - 1})
    )
    with pytest.raises(CheckpointError, match="are free here"):
        hub.fetch(model, tmp_path)
    assert not any("resolve" in path for path in site.asked)


def test_a_model_that_is_not_there(site: Hub, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"^no/such: no such folder; the hub did not give"):  # noqa: SIM117
        with hub.opened("no/such", FILES, tmp_path):
            pytest.fail("there is none")


def test_a_model_of_another_kind(site: Hub) -> None:
    with pytest.raises(CheckpointError, match=r"holds none of weights\.npz"):
        hub.look_up(NAME, ("weights.npz",))


def test_only_the_hub_itself_learns_who_asks(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files are redirected to another server."""
    heard: list[tuple[str, str | None]] = []
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with serving(Site()) as other:

        def away(handler: BaseHTTPRequestHandler) -> None:
            heard.append(("hub", handler.headers["Authorization"]))
            handler.send_response(302)
            handler.send_header("Location", f"{other.home}/blob")
            handler.end_headers()

        def blob(handler: BaseHTTPRequestHandler) -> None:
            heard.append(("other", handler.headers["Authorization"]))
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(site.contents[LARGE])

        site.files[site.path_of(LARGE)] = away
        other.files["/blob"] = blob
        with hub.fetched(hub.look_up(NAME, FILES), tmp_path):
            pass
    assert heard == [("hub", "Bearer hf_secret"), ("other", None)]


@pytest.mark.parametrize(
    "name",
    ["../../nowhere", "a/../b", "/etc/x/y", "a/b/c", "a b/c", "x", "~/m", "a/b\n", "", "a/\0",
     "x" * 5_000, "a/" + "x" * 5_000],
)  # fmt: skip
def test_names_that_are_no_models(name: str, tmp_path: Path, site: Hub) -> None:
    with pytest.raises(CheckpointError, match=r"no such folder$"):  # noqa: SIM117
        with hub.opened(name, FILES, tmp_path):
            pytest.fail("there is none")
    assert not site.asked


@pytest.mark.parametrize(
    ("offline", "said"),
    [(False, "the hub did not give it"), (True, "the hub is switched off by HF_HUB_OFFLINE")],
)
def test_a_hub_that_cannot_be_reached_is_one_line(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], offline: bool, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert main(["import", "marian", "owner/name", "--out", str(tmp_path / "ours")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"owner/name: no such folder; {said}" in error
    assert not (tmp_path / "ours").exists()


def test_an_endpoint_that_is_no_web_server(site: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(CheckpointError, match="not the address of a web server"):
        hub.look_up(NAME, FILES)


def test_without_the_hubs_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(CheckpointError, match="pip install huggingface_hub"):  # noqa: SIM117
        with hub.opened("owner/name", FILES, tmp_path):
            pytest.fail("there is none")
