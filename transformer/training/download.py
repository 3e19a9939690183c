"""Download the public corpora, only at the user's request.

    transformer data multi30k --out DIR      captions EN, DE, FR, into DIR/multi30k
    transformer data tatoeba --out DIR       everyday sentences, DIR/tatoeba/en-de.tsv.gz

Multi30k's texts are fixed, so each is checked against a checksum. Tatoeba's archives are rebuilt
every few months: their content is checked, their checksum is saved beside the text, and `sha256`
pins a version. Files are written atomically and existing ones are not fetched again, so an
interrupted download can simply be repeated.

The standard library fetches them: `requests` (2.34.2, in the lock) follows a redirect from https to
http and reads bodies of any length, so the code below would be needed on top of it just the same.
"""

from __future__ import annotations

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
from typing import IO, Any

from tqdm import tqdm

from transformer.files.atomic import write_atomic
from transformer.training.data import MULTI30K_TESTS, DataError, corpus_folder

log = logging.getLogger(__name__)

#: Addresses of the corpora.
HOMES = {
    "multi30k": "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1",
    "tatoeba": "https://www.manythings.org/anki",
}

#: Languages of Tatoeba's archives besides English, and their codes in file names.
TATOEBA_CODES = {
    "de": "deu", "es": "spa", "fr": "fra", "it": "ita", "nl": "nld", "pt": "por",
}  # fmt: skip
MULTI30K_LANGUAGES = ("en", "de", "fr")

#: Timeout in seconds without data.
TIMEOUT = 30.0
#: Largest text of Multi30k, largest archive of Tatoeba, and largest text in one, in bytes.
MAX_FILE, MAX_ARCHIVE, MAX_TEXT = 8 << 20, 64 << 20, 512 << 20
#: Archives with fewer pairs are refused.
MIN_PAIRS = 1_000
CHUNK = 1 << 16


#: SHA-256 of every text of Multi30k that is fetched, unpacked.
_CHECKSUMS = """
train.en 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
train.de 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
train.fr 5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d
val.en 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
val.de 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
val.fr 5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc
test_2016_flickr.en 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
test_2016_flickr.de 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
test_2016_flickr.fr cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6
test_2017_flickr.en ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98
test_2017_flickr.de c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081
test_2017_flickr.fr 6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6
test_2017_mscoco.en 43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2
test_2017_mscoco.de 58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22
test_2017_mscoco.fr 39cde3f43f32b0a6bf29ce4917a46329ff32e53070c2fac87506695a740ae0a0
test_2016_flickr.lc.norm.tok.en 5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2
test_2016_flickr.lc.norm.tok.de c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4
test_2016_flickr.lc.norm.tok.fr 1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836
test_2017_flickr.lc.norm.tok.en c9d1dfd7a26add989382e534af235af9f0f658b2a30e7eb0efdaf142496ee54f
test_2017_flickr.lc.norm.tok.de 02067e4a9402786a4fcb8c1b6f4307e4a5073ced64800abead5273b54f5f31f6
test_2017_flickr.lc.norm.tok.fr c0583117a47b31e8a6c6a97cfe8de153e462074668f4e994764fcc80b21d33b4
test_2017_mscoco.lc.norm.tok.en fe69ae004d71c42ead0301e70c57de5b1b6b5fb7f52210d42b22801e98e656f3
test_2017_mscoco.lc.norm.tok.de e2825990b8a4e5289d2cdba801d57c187810bab9b4f5d87a30c35800a0d871b6
test_2017_mscoco.lc.norm.tok.fr 0b6a4620f02b6b9acf7811fda23f90fed9c6baa0b96aa224db50a273078c84d1
"""
MULTI30K = dict(line.split() for line in _CHECKSUMS.split("\n") if line)


class DownloadError(DataError):
    """A download that failed or has the wrong content; the message suggests an alternative."""


def fetch(
    corpus: str,
    out: Path,
    *,
    tgt: str = "de",
    home: str | None = None,
    sha256: str | None = None,
    show_progress: bool = True,
    timeout: float = TIMEOUT,
) -> Path:
    """Download a corpus to `out`/NAME, where recipes look for it.

    Args:
        corpus: a key of `HOMES`.
        tgt: Tatoeba's language besides English; Multi30k is fetched in all of its languages.
        home: address of a mirror.
        sha256: required checksum of Tatoeba's archive.
        timeout: seconds without data before giving up.

    Returns: the folder.

    Raises: `DownloadError`.
    """
    if corpus not in HOMES:
        raise DownloadError(f"unknown corpus {corpus!r}; known: {', '.join(HOMES)}")
    home = (home or HOMES[corpus]).rstrip("/")
    if not home.startswith(("https://", "http://")):
        raise DownloadError(f"{home!r} is not the address of a web server")
    folder = out / corpus
    source = _Source(home, timeout, show_progress)
    if corpus == "multi30k":
        _multi30k(source, folder)
    else:
        _tatoeba(source, folder, tgt, sha256)
    return folder


def fetch_missing(
    corpora: Sequence[str], folder: Path, src: str, tgt: str, *, show_progress: bool = True
) -> None:
    """Download the named corpora that `folder` lacks. Raises `DownloadError`."""
    for name in corpora:
        if name not in HOMES:
            continue
        place = corpus_folder(name, folder)
        if name == "multi30k":
            parts = ("train", "val", *MULTI30K_TESTS)
            choices = [[f"{part}.{language}"] for part in parts for language in (src, tgt)]
        else:
            choices = [[f"{src}-{tgt}.tsv", f"{tgt}-{src}.tsv"]]
        if not all(any(_is_there(place / file) for file in files) for files in choices):
            unknown = (
                {src, tgt}
                - {"en"}
                - set(MULTI30K_LANGUAGES if name == "multi30k" else TATOEBA_CODES)
            )
            if unknown or (name == "tatoeba" and "en" not in (src, tgt)):
                raise DownloadError(f"{name} is not available for {src}-{tgt}")
            fetch(name, folder, tgt=src if tgt == "en" else tgt, show_progress=show_progress)


def _is_there(path: Path) -> bool:
    return path.is_file() or path.with_name(path.name + ".gz").is_file()


def _multi30k(source: _Source, folder: Path) -> None:
    with source.bar(len(MULTI30K), " files") as bar:
        for name, digest in MULTI30K.items():
            bar.set_description(name)
            path = folder / f"{name}.gz"
            if not path.exists():
                # The server has tokenised texts uncompressed, the others gzipped.
                plain = ".tok." in name
                url = f"tok/{name}" if plain else f"raw/{name}.gz"
                raw = source.get(url, limit=MAX_FILE)
                stored = gzip.compress(raw, mtime=0) if plain else raw
                if _digest_of(io.BytesIO(stored)) != digest:
                    raise DownloadError(
                        f"{source.home}/{url}: wrong checksum: not the published text, or "
                        "damaged in transit; nothing was written"
                    )
                _write(path, stored)
            elif _digest_of(path) != digest:
                raise DownloadError(
                    f"{path}: exists, but is not the published text; move it away first"
                )
            bar.update()


def _digest_of(file: Path | IO[bytes]) -> str | None:
    """Return the SHA-256 of a gzip file's content, or None if it is damaged or too long."""
    try:
        with gzip.open(file) as unpacked:
            text = unpacked.read(MAX_FILE + 1)
    except (OSError, EOFError, zlib.error):
        return None
    return hashlib.sha256(text).hexdigest() if len(text) <= MAX_FILE else None


def _tatoeba(source: _Source, folder: Path, tgt: str, sha256: str | None) -> None:
    if tgt not in TATOEBA_CODES:
        raise DownloadError(f"no archive for {tgt!r}; available: {', '.join(TATOEBA_CODES)}")
    code = TATOEBA_CODES[tgt]
    path, about = folder / f"en-{tgt}.tsv.gz", folder / f"en-{tgt}.about.txt"
    if path.exists():
        if sha256 and f"sha256 {sha256.lower()}" not in _first_line(about):
            raise DownloadError(f"{path}: exists, but is not from the archive with that checksum")
        log.info("%s is there", path)
        return
    name = f"{code}-eng.zip"
    with source.bar(None, "B") as bar:
        bar.set_description(name)
        archive = source.get(name, limit=MAX_ARCHIVE, bar=bar)
    digest, url = hashlib.sha256(archive).hexdigest(), f"{source.home}/{name}"
    if sha256 and digest != sha256.lower():
        raise DownloadError(f"{url}: wrong checksum {digest}; nothing was written")
    text, terms = _unpack(archive, f"{code}.txt", url), _unpack(archive, "_about.txt", url)
    _check_pairs(text, url)
    first = f"{url}, sha256 {digest}\n\n".encode()
    _write(about, first + terms)
    _write(path, gzip.compress(text, mtime=0))
    log.info("%s: %d pairs, archive sha256 %s", path, text.count(b"\n"), digest)


def _write(path: Path, data: bytes) -> None:
    # Only created with content: an empty folder would be taken for the corpus.
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    except OSError:
        return ""


def _unpack(archive: bytes, member: str, url: str) -> bytes:
    """Read one member of a zip archive. Nothing is written, so member names are harmless."""
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
        if line.count("\t") < 1:
            raise DownloadError(f"{url}: line {number} has no tab between its languages")
    if len(lines) < MIN_PAIRS:
        raise DownloadError(f"{url}: only {len(lines)} pairs")


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but never from https to another scheme."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Refuse to leave https."""
        if req.type == "https" and not newurl.startswith("https://"):
            raise urllib.error.URLError(f"redirected to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Source:
    """A web server to download from: address, timeout, and whether to show progress bars."""

    def __init__(self, home: str, timeout: float, show_progress: bool) -> None:
        self.home, self.timeout, self.show_progress = home, timeout, show_progress
        self._opener = urllib.request.build_opener(_NoDowngrade)

    def bar(self, total: int | None, unit: str) -> tqdm[Any]:
        """Create a progress bar."""
        return tqdm(
            total=total,
            unit=unit,
            unit_scale=unit == "B",
            disable=not self.show_progress,
            leave=False,  # further output starts on its own line
        )

    def get(self, path: str, *, limit: int, bar: tqdm[Any] | None = None) -> bytes:
        """Download a file of at most `limit` bytes. Raises `DownloadError`."""
        url = f"{self.home}/{path}"
        # Some servers refuse Python's default user agent.
        request = urllib.request.Request(url, headers={"User-Agent": "Mozilla/5.0 (Headlight)"})  # noqa: S310
        try:
            with self._opener.open(request, timeout=self.timeout) as response:
                return _read(response, url, limit, bar)
        except urllib.error.HTTPError as error:
            with error:
                reason = f"the server answered {error.code} {error.reason}"
        except urllib.error.URLError as error:
            reason = f"cannot be reached ({_short(error.reason)})"
        except TimeoutError:
            reason = f"no answer for {self.timeout:g} s"
        except (http.client.HTTPException, OSError) as error:
            reason = f"broke off ({_short(error)})"
        raise DownloadError(f"{url}: {reason}; {ADVICE}") from None


#: Advice for failed downloads.
ADVICE = "if you are offline, get the files elsewhere and name their folder with --data DIR"


def _read(response: http.client.HTTPResponse, url: str, limit: int, bar: tqdm[Any] | None) -> bytes:
    announced = response.headers.get("Content-Length", "")
    total = int(announced) if announced.isdecimal() else None
    if bar is not None:
        bar.total = total
    received = bytearray()
    while chunk := response.read(CHUNK):
        received += chunk
        if bar is not None:
            bar.update(len(chunk))
        if len(received) > limit:
            raise DownloadError(f"{url}: larger than {limit:,} bytes, so not the expected file")
    if total is not None and len(received) != total:
        raise DownloadError(
            f"{url}: broke off after {len(received):,} of {total:,} bytes; try again"
        )
    return bytes(received)


def _short(reason: object) -> str:
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return " ".join(str(text).split())
