import contextlib
import gzip
import hashlib
import io
import socket
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.transformer.conftest import Command
from tests.transformer.site import Answer, Site, serving
from tests.transformer.training.runs import recipe
from transformer.training import download
from transformer.training.data import MULTI30K_TESTS, multi30k, read_lines, tatoeba
from transformer.training.download import DownloadError, fetch, fetch_missing


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    with serving(Site()) as site:
        yield site


PARTS = ("train", "val", *MULTI30K_TESTS)


@pytest.fixture
def captions(site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Serve a small Multi30k and return its texts by name."""
    texts = {f"{part}.{end}": f"{part} {end}\n" for part in PARTS for end in ("en", "de", "fr")}
    site.files |= {f"/raw/{name}.gz": gzip.compress(text.encode()) for name, text in texts.items()}
    cut = {f"{part}.lc.norm.tok.de": f"{part} tok\n" for part in MULTI30K_TESTS}
    site.files |= {f"/tok/{name}": text.encode() for name, text in cut.items()}
    texts |= cut
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    monkeypatch.setattr(download, "MULTI30K", sums)
    return texts


def get(corpus: str, out: Path, home: str, **options: object) -> Path:
    return fetch(corpus, out, home=home, show_progress=False, **options)  # type: ignore[arg-type]


def failure(corpus: str, out: Path, home: str, **options: object) -> str:
    with pytest.raises(DownloadError) as caught:
        get(corpus, out, home, **options)
    assert "\n" not in str(caught.value)
    assert not [file for file in out.rglob("*") if file.is_file() and "train" not in file.name]
    return str(caught.value)


def test_multi30k_fetches_the_missing(site: Site, captions: dict[str, str], tmp_path: Path) -> None:
    whole = site.files.pop("/raw/val.de.gz")
    with pytest.raises(DownloadError, match="404"):
        get("multi30k", tmp_path, site.home)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "multi30k").iterdir()}
    site.files["/raw/val.de.gz"] = whole
    site.asked.clear()
    folder = get("multi30k", tmp_path, site.home)
    assert folder == tmp_path / "multi30k" and "Python-urllib" not in str(site.agents)
    assert "/raw/val.de.gz" in site.asked and len(site.asked) == len(captions) - len(before)
    assert all(file.stat().st_mtime_ns == modified for file, modified in before.items())
    assert len(list(folder.iterdir())) == len(captions)
    for name, text in captions.items():
        assert read_lines(folder / f"{name}.gz") == [text.rstrip("\n")]
    corpus = multi30k(folder, "fr", "en")
    assert (corpus.train, corpus.val) == ((("train fr", "train en"),), (("val fr", "val en"),))
    assert list(corpus.tests) == list(MULTI30K_TESTS)


def test_another_text_is_refused_a_bomb_not_unpacked_and_a_file_of_ones_own_left_alone(
    site: Site, captions: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_FILE", 10_000)
    other = gzip.compress(b"train em\n", mtime=0)
    for content in (other, other[:-3], b"<html>", b"", gzip.compress(bytes(1_000_000))):
        site.files["/raw/train.en.gz"] = content
        line = failure("multi30k", tmp_path, site.home)
        assert f"{site.home}/raw/train.en.gz: wrong checksum" in line
        assert not list(tmp_path.iterdir())
    path = tmp_path / "multi30k" / "train.en.gz"
    path.parent.mkdir()
    path.write_bytes(other)
    assert "not the published text; move it away" in failure("multi30k", tmp_path, site.home)
    assert path.read_bytes() == other


def beginning(request: BaseHTTPRequestHandler, length: int | None = 1000) -> None:
    request.send_response(200)
    if length:
        request.send_header("Content-Length", str(length))
    request.end_headers()
    request.wfile.write(bytes(400))
    request.wfile.flush()


def endless(request: BaseHTTPRequestHandler) -> None:
    beginning(request, None)
    with contextlib.suppress(OSError):
        while True:
            request.wfile.write(bytes(10_000))


def silent(request: BaseHTTPRequestHandler) -> None:
    request.rfile.read(1)  # until the other side hangs up


def slow(request: BaseHTTPRequestHandler) -> None:
    beginning(request)
    silent(request)


@pytest.mark.parametrize(("answer", "reason"), [
    (beginning, "broke off after 400 of 1,000 bytes"),
    (slow, "no answer for 0.2 s"),
    (silent, "no answer for 0.2 s"),
    (endless, "larger than 100,000 bytes"),
    (lambda request: request.send_error(503), "the server answered 503 Service Unavailable"),
    (lambda request: request.wfile.write(b"no http at all\r\n\r\n"), "broke off"),
    (None, "the server answered 404 Not Found"),
], ids=["truncated", "slow", "silent", "endless", "503", "garbage", "404"])  # fmt: skip
@pytest.mark.parametrize(
    ("corpus", "file"), [("multi30k", "/raw/train.en.gz"), ("tatoeba", "/deu-eng.zip")]
)
def test_a_server_that_fails_is_named(
    site: Site, captions: dict[str, str], tmp_path: Path, answer: Answer | None, reason: str,
    corpus: str, file: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for limit in ("MAX_FILE", "MAX_ARCHIVE"):
        monkeypatch.setattr(download, limit, 100_000)
    site.files.pop(file, None)
    if answer is not None:
        site.files[file] = answer
    line = failure(corpus, tmp_path, site.home, timeout=0.2 if "0.2" in reason else 30)
    assert line.startswith(f"{site.home}{file}: ") and reason in line
    assert "--data DIR" in line or answer is endless


def moved(to: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", to)
        request.end_headers()

    return answer


def test_web_servers_that_answer_and_known_corpora(site: Site, tmp_path: Path) -> None:
    site.files |= {
        "/moved/deu-eng.zip": moved("/deu-eng.zip"), "/deu-eng.zip": archive(),
        "/bad/deu-eng.zip": moved("file:///etc/passwd"),
    }  # fmt: skip
    assert "the server answered 302" in failure("tatoeba", tmp_path, f"{site.home}/bad")
    get("tatoeba", tmp_path / "a", f"{site.home}/moved")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        home = f"http://127.0.0.1:{free.getsockname()[1]}"
    line = failure("tatoeba", tmp_path / "b", home)
    assert "Connection refused" in line and "offline" in line and "--data DIR" in line
    for home in ("file:///etc", "ftp://x", "passwd"):
        assert "is not the address of a web server" in failure("tatoeba", tmp_path / "b", home)
    with pytest.raises(DownloadError, match="'wmt'; known: multi30k, tatoeba, gum"):
        fetch("wmt", tmp_path)


ROWS = "".join(f"Sentence {n}.\tSatz {n}.\tCC-BY 2.0 (France) #{n}\n" for n in range(1_200))


def archive(rows: str | bytes = ROWS, name: str = "deu.txt", about: str | None = "terms") -> bytes:
    members = {"../../evil.txt": "out", "/tmp/evil.txt": "out", name: rows}
    if about is not None:
        members["_about.txt"] = about
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as files:
        for member, content in members.items():
            # A ZipInfo has a fixed date, so the archive is the same whenever it is made.
            files.writestr(zipfile.ZipInfo(member), content, zipfile.ZIP_DEFLATED)
    return written.getvalue()


def test_tatoeba_lands_where_the_loader_reads(site: Site, tmp_path: Path) -> None:
    site.files["/deu-eng.zip"] = archive()
    folder = get("tatoeba", tmp_path / "data", site.home)
    corpus = tatoeba(folder, "en", "de")
    assert len(corpus.train) + len(corpus.val) + len(corpus.tests["tatoeba_test"]) == 1_200
    assert sorted(file.name for file in folder.iterdir()) == ["en-de.about.txt", "en-de.tsv.gz"]
    about = (folder / "en-de.about.txt").read_text()
    digest = hashlib.sha256(archive()).hexdigest()
    assert about == f"{site.home}/deu-eng.zip, sha256 {digest}\n\nterms"
    # Member names are never used as paths.
    assert not list(tmp_path.rglob("evil.txt"))
    site.files.clear()
    assert get("tatoeba", tmp_path / "data", site.home) == folder


def test_checksums_of_tatoeba_and_of_the_published_texts(site: Site, tmp_path: Path) -> None:
    site.files["/fra-eng.zip"] = archive(name="fra.txt")
    digest = hashlib.sha256(archive(name="fra.txt")).hexdigest()
    line = failure("tatoeba", tmp_path, site.home, tgt="fr", sha256="0" * 64)
    assert f"wrong checksum {digest}" in line
    for right in (digest.upper(), digest):
        get("tatoeba", tmp_path, site.home, tgt="fr", sha256=right)
    with pytest.raises(DownloadError, match="not from the archive with that checksum"):
        get("tatoeba", tmp_path, site.home, tgt="fr", sha256="0" * 64)
    names = {f"{part}.{end}" for part in PARTS for end in ("en", "de", "fr")}
    names |= {f"{part}.lc.norm.tok.{end}" for part in MULTI30K_TESTS for end in ("en", "de", "fr")}
    assert set(download.MULTI30K) == names
    assert {len(bytes.fromhex(digest)) for digest in download.MULTI30K.values()} == {32}


DAMAGED = (b"", b"<html>", archive()[:-200], archive()[:200] + bytes(50) + archive()[250:])


@pytest.mark.parametrize(("content", "reason"), [
    *((content, "not a complete zip archive") for content in DAMAGED),
    (archive(name="fra.txt"), "has no deu.txt"), (archive(about=None), "has no _about.txt"),
    (archive(b"\xff\xfe"), "not UTF-8"), (archive(ROWS + "no tab\n"), "line 1201 has no tab"),
    (archive(ROWS[:2_000].rpartition("\n")[0]), "pairs"), (archive(""), "has no tab"),
    (archive(bytes(5 << 20)), "deu.txt is larger than 1 MiB"),
])  # fmt: skip
def test_an_archive_that_is_wrong_or_a_bomb_is_named(
    site: Site, tmp_path: Path, content: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_TEXT", 1 << 20)
    site.files["/deu-eng.zip"] = content
    line = failure("tatoeba", tmp_path, site.home)
    assert line.startswith(f"{site.home}/deu-eng.zip: ") and reason in line


def test_gum_lands_where_studies_read(site: Site, tmp_path: Path) -> None:
    text = "# newdoc id = GUM_a\n" + "".join(
        f"# sent_id = GUM_a-{n}\n1\tA\ta\tDET\tDT\t_\t2\tdet\t_\t_\n"
        "2\tdog\tdog\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
        for n in range(120)
    )
    site.files |= {f"/en_gum-ud-{part}.conllu": text.encode() for part in ("train", "dev")}
    folder = get("gum", tmp_path / "data", site.home)
    assert folder == tmp_path / "data" / "gum"
    assert {file.name for file in folder.iterdir()} == {"dev.conllu.gz", "train.conllu.gz"}
    assert gzip.decompress((folder / "dev.conllu.gz").read_bytes()) == text.encode()
    site.files.clear()
    assert get("gum", tmp_path / "data", site.home) == folder, "nothing is fetched twice"
    site.files["/en_gum-ud-train.conllu"] = b"<html>" * 1_000
    assert "not GUM's sentences" in failure("gum", tmp_path / "other", site.home)


def test_missing_corpora_are_fetched_and_present_ones_are_not(
    site: Site, captions: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "HOMES", dict.fromkeys(("multi30k", "tatoeba"), site.home))
    site.files["/deu-eng.zip"] = archive()
    corpora = ("multi30k", "tatoeba", "reversal", "my.tsv")
    fetch_missing(corpora, tmp_path, "de", "en", show_progress=False)
    assert (tmp_path / "multi30k" / "train.fr.gz").exists()
    assert (tmp_path / "tatoeba" / "en-de.tsv.gz").exists()
    site.asked.clear()
    fetch_missing(corpora, tmp_path, "en", "de", show_progress=False)
    fetch_missing(("tatoeba",), tmp_path / "tatoeba", "en", "de", show_progress=False)
    assert not site.asked
    for name, src, tgt in (("multi30k", "en", "cs"), ("tatoeba", "de", "fr")):
        with pytest.raises(DownloadError, match=f"{name} is not available for {src}-{tgt}"):
            fetch_missing((name,), tmp_path, src, tgt, show_progress=False)


def test_cli(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    site.files["/deu-eng.zip"] = archive()
    fetching = ["data", "tatoeba", "--home", site.home, "--quiet", "--out"]
    assert command(*fetching, tmp_path / "a")[:2] == (0, f"{tmp_path / 'a' / 'tatoeba'}\n")
    line = command(*fetching, tmp_path / "b", "--tgt", "fr").refused
    assert line.startswith("python -m transformer data: http://127")
    # `train` fetches only on request.
    monkeypatch.setattr(download, "HOMES", {"tatoeba": site.home})
    site.asked.clear()
    path = recipe(tmp_path, "max_updates = 1", epochs=1, corpora=["tatoeba"], vocab_size=60)
    training = ["train", path, "--data", tmp_path / "c", "--out", tmp_path / "out", "--quiet",
                "--device", "cpu"]  # fmt: skip
    assert "--download to fetch tatoeba" in command(*training).refused and not site.asked
    assert command(*training, "--download").status == 0 and site.asked == ["/deu-eng.zip"]
