"""Download the public corpora, only at the user's request.

Multi30k's texts are fixed, so they are verified by checksum. Tatoeba's archives are rebuilt every
few months: their content is checked, their checksum is saved beside the text, and `sha256` pins a
version. For GUM, dependencies and coreference of train and dev are fetched. Files are written
atomically, and existing files are not fetched again.

`requests` would save little: it follows redirects from https to http and reads bodies of any
length. `torch.hub` bounds neither size nor waiting time.
"""

import gzip
import hashlib
import http.client
import io
import logging
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from tqdm import tqdm

from transformer.files.folders import write_atomic
from transformer.training.data import MULTI30K_TESTS, DataError, corpus_folder, is_there

log = logging.getLogger(__name__)

#: Addresses of the corpora.
HOMES = {
    "multi30k": "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1",
    "tatoeba": "https://www.manythings.org/anki",
    "gum": "https://raw.githubusercontent.com/UniversalDependencies/UD_English-GUM/master",
}

#: Languages of Tatoeba's archives besides English, with their codes in file names.
TATOEBA_CODES = {"de": "deu", "es": "spa", "fr": "fra", "it": "ita", "nl": "nld", "pt": "por"}
MULTI30K_LANGUAGES = ("en", "de", "fr")

#: Seconds without data before a download fails.
TIMEOUT = 30.0
#: Largest Multi30k text, Tatoeba archive, and text in an archive, in bytes.
MAX_FILE, MAX_ARCHIVE, MAX_TEXT = 8 << 20, 64 << 20, 512 << 20
#: Archives with fewer pairs, and parts of GUM with fewer sentences, are refused.
MIN_PAIRS, MIN_SENTENCES = 1_000, 100
CHUNK = 1 << 16

#: SHA-256 of Multi30k's texts, unpacked.
_CHECKSUMS = Path(__file__).with_name("multi30k.tsv").read_text("utf-8")
MULTI30K = dict(line.split("\t") for line in _CHECKSUMS.splitlines())


class DownloadError(DataError):
    """A failed download or wrong content; the message suggests an alternative."""


def fetch(
    corpus: str, out: Path, *, tgt: str = "de", home: str | None = None,
    sha256: str | None = None, show_progress: bool = True, timeout: float = TIMEOUT,
) -> Path:  # fmt: skip
    """Download a corpus to `out`/NAME, where recipes look for it, and return the folder.

    Args:
        tgt: Tatoeba's language besides English; Multi30k is fetched in all of its languages.
        home: address of a mirror.  sha256: required checksum of Tatoeba's archive.
        timeout: seconds without data before giving up.

    Raises: `DownloadError`.
    """
    if corpus not in HOMES:
        raise DownloadError(f"unknown corpus {corpus!r}; known: {', '.join(HOMES)}")
    home = (home or HOMES[corpus]).rstrip("/")
    if not home.startswith(("https://", "http://")):
        raise DownloadError(f"{home!r} is not the address of a web server")
    folder = out / corpus
    # Further output starts on a new line.
    with tqdm(disable=not show_progress, leave=False) as bar:
        server = _Server(home, timeout, bar)
        if corpus == "multi30k":
            _multi30k(server, folder)
        elif corpus == "gum":
            _gum(server, folder)
        else:
            _tatoeba(server, folder, tgt, sha256)
    return folder


def fetch_missing(
    corpora: Sequence[str], folder: Path, src: str, tgt: str, *, show_progress: bool = True
) -> None:
    """Download the named corpora that `folder` lacks. Raises `DownloadError`."""
    for name in set(corpora) & {"multi30k", "tatoeba"}:
        place = corpus_folder(name, folder)
        if name == "multi30k":
            languages = {*MULTI30K_LANGUAGES}
            parts = ("train", "val", *MULTI30K_TESTS)
            choices = [[f"{part}.{language}"] for part in parts for language in (src, tgt)]
        else:
            languages = {"en", *TATOEBA_CODES}
            choices = [[f"{src}-{tgt}.tsv", f"{tgt}-{src}.tsv"]]
        if not all(any(is_there(place / file) for file in files) for files in choices):
            if not {src, tgt} <= languages or (name == "tatoeba" and "en" not in (src, tgt)):
                raise DownloadError(f"{name} is not available for {src}-{tgt}")
            fetch(name, folder, tgt=src if tgt == "en" else tgt, show_progress=show_progress)


def _multi30k(server: "_Server", folder: Path) -> None:
    server.bar.reset(len(MULTI30K))
    server.bar.unit = " files"
    for name, digest in MULTI30K.items():
        server.bar.set_description(name)
        path = folder / f"{name}.gz"
        if not path.exists():
            # The server has tokenised texts uncompressed, the others gzipped.
            plain = ".tok." in name
            url = f"tok/{name}" if plain else f"raw/{name}.gz"
            raw = server.get(url, MAX_FILE)
            stored = gzip.compress(raw, mtime=0) if plain else raw
            if _digest_of(io.BytesIO(stored)) != digest:
                raise DownloadError(
                    f"{server.home}/{url}: wrong checksum: not the published text, or "
                    "damaged in transit; nothing was written"
                )
            _write(path, stored)
        elif _digest_of(path) != digest:
            raise DownloadError(f"{path}: exists, but is not the published text; move it away")
        server.bar.update()


def _digest_of(file: Path | IO[bytes]) -> str | None:
    """Return the SHA-256 of a gzip file's content, or None if it is damaged or too long."""
    try:
        with gzip.open(file) as unpacked:
            text = unpacked.read(MAX_FILE + 1)
    except (OSError, EOFError, zlib.error):
        return None
    return hashlib.sha256(text).hexdigest() if len(text) <= MAX_FILE else None


def _tatoeba(server: "_Server", folder: Path, tgt: str, sha256: str | None) -> None:
    if tgt not in TATOEBA_CODES:
        raise DownloadError(f"no archive for {tgt!r}; available: {', '.join(TATOEBA_CODES)}")
    code = TATOEBA_CODES[tgt]
    path, about = folder / f"en-{tgt}.tsv.gz", folder / f"en-{tgt}.about.txt"
    if path.exists():
        origin = about.read_text(encoding="utf-8", errors="replace") if about.is_file() else ""
        if sha256 and f"sha256 {sha256.lower()}" not in origin.partition("\n")[0]:
            raise DownloadError(f"{path}: exists, but is not from the archive with that checksum")
        log.info("%s is there", path)
        return
    name = f"{code}-eng.zip"
    archive, url = server.get(name, MAX_ARCHIVE, on_bar=True), f"{server.home}/{name}"
    digest = hashlib.sha256(archive).hexdigest()
    if sha256 and digest != sha256.lower():
        raise DownloadError(f"{url}: wrong checksum {digest}; nothing was written")
    text, terms = _unpack(archive, f"{code}.txt", url), _unpack(archive, "_about.txt", url)
    _check_pairs(text, url)
    _write(about, f"{url}, sha256 {digest}\n\n".encode() + terms)
    _write(path, gzip.compress(text, mtime=0))
    log.info("%s: %d pairs, archive sha256 %s", path, text.count(b"\n"), digest)


def _gum(server: "_Server", folder: Path) -> None:
    for part in ("train", "dev"):
        path, name = folder / f"{part}.conllu.gz", f"en_gum-ud-{part}.conllu"
        if path.exists():
            log.info("%s is there", path)
            continue
        text = server.get(name, MAX_ARCHIVE, on_bar=True)
        if text.count(b"\n# sent_id") < MIN_SENTENCES or b"\tdet\t" not in text:
            raise DownloadError(f"{server.home}/{name}: not GUM's sentences in CoNLL-U")
        _write(path, gzip.compress(text, mtime=0))


def _write(path: Path, data: bytes) -> None:
    # Only created with content: an empty folder would be taken for the corpus.
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)


def _unpack(archive: bytes, member: str, url: str) -> bytes:
    """Read a member of a zip archive. Nothing is written, so member names are harmless."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as files, files.open(member) as file:
            text = file.read(MAX_TEXT + 1)
    except KeyError:
        raise DownloadError(f"{url}: the archive has no {member}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        raise DownloadError(f"{url}: not a complete zip archive ({error})") from None
    if len(text) > MAX_TEXT:
        raise DownloadError(f"{url}: {member} is larger than {MAX_TEXT >> 20} MiB")
    return text


def _check_pairs(text: bytes, url: str) -> None:
    try:
        lines = text.decode("utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DownloadError(f"{url}: not UTF-8 (byte {error.start})") from None
    for number, line in enumerate(lines, 1):
        if "\t" not in line:
            raise DownloadError(f"{url}: line {number} has no tab between its languages")
    if len(lines) < MIN_PAIRS:
        raise DownloadError(f"{url}: only {len(lines)} pairs")


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, *more: Any
    ) -> urllib.request.Request | None:
        """Follow a redirect, but never from https to another scheme."""
        if req.type == "https" and not more[-1].startswith("https://"):
            raise urllib.error.URLError(f"redirected to {more[-1]}, which is not https")
        return super().redirect_request(req, *more)


class _Server(NamedTuple):
    home: str
    timeout: float
    bar: "tqdm[Any]"

    def get(self, path: str, limit: int, *, on_bar: bool = False) -> bytes:
        """Download a file of at most `limit` bytes, counted by the bar if `on_bar`."""
        url = f"{self.home}/{path}"
        # Some servers refuse Python's default user agent.
        request = urllib.request.Request(url, headers={"User-Agent": "Mozilla/5.0 (Headlight)"})  # noqa: S310
        opener = urllib.request.build_opener(_NoDowngrade)
        try:
            with opener.open(request, timeout=self.timeout) as response:
                announced = response.headers.get("Content-Length", "")
                total = int(announced) if announced.isdecimal() else None
                if on_bar:
                    self.bar.set_description(path)
                    self.bar.unit, self.bar.unit_scale = "B", True
                    self.bar.reset(total)
                received = bytearray()
                while len(received) <= limit and (chunk := response.read(CHUNK)):
                    received += chunk
                    self.bar.update(len(chunk) * on_bar)
            if len(received) > limit:
                raise DownloadError(f"{url}: larger than {limit:,} bytes: not the expected file")
            if total in (None, len(received)):
                return bytes(received)
            reason = f"broke off after {len(received):,} of {total:,} bytes"
        except urllib.error.HTTPError as error:
            with error:
                reason = f"the server answered {error.code} {error.reason}"
        except urllib.error.URLError as error:
            reason = f"cannot be reached ({_short(error.reason)})"
        except TimeoutError:
            reason = f"no answer for {self.timeout:g} s"
        except (http.client.HTTPException, OSError) as error:
            reason = f"broke off ({_short(error)})"
        advice = "if you are offline, get the files elsewhere and name their folder with --data DIR"
        raise DownloadError(f"{url}: {reason}; {advice}") from None


def _short(reason: object) -> str:
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return " ".join(str(text).split())
