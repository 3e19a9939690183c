import gzip
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transformer.conftest import Command
from tests.transformer.models.huggingface.models import Pair, make_folder
from tests.transformer.site import COMMIT, LARGE, NAME, Hub, Site, answer, hub_of, serving
from transformer.files import hub
from transformer.models.catalogue import inspect_entry
from transformer.models.huggingface.model import HuggingFaceModel
from transformer.models.importers.registry import FORMATS
from transformer.types import CheckpointError

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
    with hub_of(dict(contents), monkeypatch, tmp_path / "home") as site:
        yield site


def refused(opened: AbstractContextManager[Any], reason: str) -> None:
    """Check that nothing is downloaded, and that the reason is one line."""
    with pytest.raises(CheckpointError, match=reason) as caught, opened:
        pytest.fail("nothing should have come")
    assert "\n" not in str(caught.value)


def test_the_hub_is_asked_first_and_its_names_are_no_paths(site: Hub) -> None:
    model = hub.look_up(NAME, FILES)
    names = {each.name for each in model.files}
    assert {"config.json", "vocab.json", "source.spm", LARGE} <= names <= set(FILES)
    assert "pytorch_model.bin" not in names  # the safetensors hold the same
    assert model.size == sum(len(site.contents[name]) for name in names)
    assert model.revision == COMMIT
    assert not any("resolve" in path for path in site.asked)
    for evil in ("../../config.json", "/etc/config.json", "a/config.json", ".config.json", "c\0"):
        site.listed[evil] = {"rfilename": evil, "size": 3, "blobId": "0" * 40}
    site.publish()
    names = {each.name for each in hub.look_up(NAME, ("*",)).files}
    assert {path.partition("?")[0] for path in site.asked} == {f"/api/models/{NAME}"}
    assert "config.json" in names
    assert not any(name.startswith((".", "/", "c\0")) or "/" in name for name in names)


PACKED = gzip.compress(gzip.compress(bytes(10**8)))


@pytest.mark.parametrize(("head", "part", "count", "reason"), [
    (b"200 OK\r\n\r\n", b" ", 3_000, "no end|list in 0 s"),
    (b"200 OK\r\nX-Long: ", b"x", 3_000, "no end|list in 0 s"),
    (b"200 OK\r\n\r\n", b" " * 10**5, 3_000, "has no end"),
    (b"404 No\r\n\r\n", PACKED, 10**5, "the hub answered 404"),
    (b"200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\n", PACKED, 1, "invalid start byte"),
])  # fmt: skip
def test_lists_without_an_end_or_that_grow_in_memory_are_not_read(
    head: bytes, part: bytes, count: int, reason: str, site: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = threading.Event()

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 " + head)
        with suppress(OSError):  # until the client has left
            for _ in range(count):
                handler.wfile.write(part)
                left.wait(0.01 * (count == 3_000))
        left.set()

    monkeypatch.setattr(hub, "TIMEOUT", 0.2 if len(part) == 1 else 30.0)
    monkeypatch.setattr(hub, "MAX_LISTING", 10**6)
    site.files[f"/api/models/{NAME}?blobs=true"] = endless
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=reason):
        hub.look_up(NAME, FILES)
    assert (count == 3_000 or left.wait(30)) and tracemalloc.get_traced_memory()[1] < 2 * 10**7
    tracemalloc.stop()


def test_a_model_is_fetched_and_imported(site: Hub, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "root" / "ours"
    assert command("import", "marian", NAME, "--out", out)[:2] == (0, f"{out}\n")
    assert inspect_entry(out).metrics["imported"]["source"] == NAME
    assert [each.name for each in out.parent.iterdir()] == ["ours"]
    assert not any(name in path for path in site.asked for name in ("h5", "README", ".bin"))


def test_a_model_of_the_library_is_fetched_loaded_and_gone(
    made: dict[str, Pair], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    contents = {each.name: each.read_bytes() for each in made["bart"].folder.iterdir()}
    contents |= {"modeling_evil.py": b"raise SystemExit", "pytorch_model.bin": b"old"}
    with hub_of(contents, monkeypatch, tmp_path / "home") as site:
        model = HuggingFaceModel.from_hub(NAME, "cpu", max_tokens=40)
        site.files[site.path_of(LARGE)] = contents[LARGE][:99]
        with pytest.raises(CheckpointError, match=rf"{LARGE}: "):
            HuggingFaceModel.from_hub(NAME, "cpu")
    assert (model.name, model.path, model.max_tokens) == (NAME, None, 40)
    assert list(room.iterdir()) == []
    fetched = {path.rpartition("/")[2] for path in site.asked if "resolve" in path}
    assert LARGE in fetched and not fetched & {"modeling_evil.py", "pytorch_model.bin"}
    assert HuggingFaceModel.from_hub(str(made["bart"].folder), "cpu").kinds == model.kinds
    before = made["bart"].ours.trace("A dog.", "Ein Hund.")
    after = model.trace("A dog.", "Ein Hund.")
    for kind in model.kinds:
        assert np.array_equal(before.attention(kind), after.attention(kind))


def test_progress_is_said_in_bytes(site: Hub, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("resumes", [True, False])
def test_a_download_that_breaks_off_goes_on_after_the_last_whole_chunk_or_begins_again(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumes: bool
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 4096)  # 10 MiB otherwise
    data, starts = site.contents[LARGE], list[int]()

    def falter(handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers["Range"] if resumes else None
        starts.append(int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0)
        rest = data[starts[-1] :]
        sent = rest if len(starts) > 1 and not resumes else rest[: len(data) // 2]
        answer(handler, sent, 206 if asked else 200, len(rest))

    site.files[site.path_of(LARGE)] = falter
    with hub.fetched(hub.look_up(NAME, FILES), tmp_path) as folder:
        assert (folder / LARGE).read_bytes() == data
    assert starts[0] == 0 and starts == sorted(starts) and (starts[1] > 0) == resumes


#: File, what the hub sends in its place (or the status of its answer), and the message.
DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes] | int, str]] = {
    "a flipped byte": (LARGE, lambda data: data[:-1] + bytes([data[-1] ^ 1]), "wrong checksum"),
    "a small file": ("vocab.json", lambda data: data[:-3] + b"X" + data[-2:], "wrong checksum"),
    "cut short": (LARGE, lambda data: data[:-100], "broke off after"),
    "longer than announced": (LARGE, lambda data: data + b"x", "larger than the"),
    **{f"status {code}": (LARGE, code, f"the hub answered {code}") for code in (404, 403, 503)},
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_faults_of_the_hub_are_one_line(name: str, site: Hub, tmp_path: Path) -> None:
    file, change, reason = DAMAGES[name]
    content = change(site.contents[file]) if callable(change) else None
    site.files[site.path_of(file)] = content or (lambda handler: handler.send_error(change))
    refused(hub.opened(NAME, FILES, tmp_path / "new"), f"{file}: {reason}")
    assert list((tmp_path / "new").iterdir()) == []


def test_too_much_is_refused(site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = hub.look_up(NAME, FILES)
    free = type("Usage", (), {"free": model.size - 1})
    monkeypatch.setattr("shutil.disk_usage", lambda path: free)
    with pytest.raises(CheckpointError, match="are free here"):
        hub.fetch(model, tmp_path)
    assert not any("resolve" in path for path in site.asked)
    site.listed[LARGE]["size"] = 10**13
    site.publish()
    with pytest.raises(CheckpointError, match=r"10,000,0.* at most 9,000,000,000 bytes"):
        hub.look_up(NAME, FILES)


def test_the_token_stays_home(site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub redirects large files to another server."""
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
            answer(handler, site.contents[LARGE])

        site.files[site.path_of(LARGE)] = away
        other.files["/blob"] = blob
        with hub.fetched(hub.look_up(NAME, FILES), tmp_path):
            pass
    assert heard == [("hub", "Bearer hf_secret"), ("other", None)]


def test_no_model_or_client(tmp_path: Path, site: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "../../nowhere", "a/../b", "/etc/x/y", "a/b/c", "a b/c", "x", "~/m", "a/b\n", "", "a/\0",
        "x" * 5_000, "a/" + "x" * 5_000,
    ):  # fmt: skip
        refused(hub.opened(name, FILES, tmp_path), r"no such folder$")
    assert not site.asked
    refused(hub.opened("no/such", FILES, tmp_path), r"^no/such: no such folder; the hub did not")
    with monkeypatch.context() as offline:
        offline.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        refused(hub.opened("no/such", FILES, tmp_path), "the hub is switched off by HF_HUB_OFFLINE")
    with pytest.raises(CheckpointError, match=r"holds none of weights\.npz"):
        hub.look_up(NAME, ("weights.npz",))
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(CheckpointError, match="not the address of a web server"):
        hub.look_up(NAME, FILES)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    refused(hub.opened("owner/name", FILES, tmp_path), "pip install huggingface_hub")
