"""A teacher's own lecture: lines of text with links of this app, and the lecture as a link.

    # Where heads look
    http://server/attention?kind=cross&layer=4  Layer 4 looks at the source.
    ? Which head looks at the verb?
    ! Head 2.

A title, then scenes: a link with one sentence, and below it a question and an answer. The text is
untrusted, even in a link: it has limits, and none of it becomes markup or an address.
"""

import binascii
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from urllib.parse import parse_qsl, urlencode, urlsplit

from figures.labels import plain, shorten
from transformer.types import InputError
from ui.core import url_state
from ui.frame.page import all_pages
from ui.tours.stops import Settings, Stop, Tour

MOST_CHARACTERS, MOST_SCENES = 20_000, 50
MOST_LINK = 2_000  # characters of the setting in a link
_MOST_SENTENCE = 300  # characters of a sentence, question or answer
_MOST_SETTINGS = 40
SIGN = "~"  # begins a custom lecture's setting; alone, it means the text in the session
TEXT = "headlight_own_lecture"  # session key: the text

#: Settings of positions that a page creates for a model.
_OF_MODELS = {"d", "layout", "dims"}
#: Settings of the frame that a scene leaves to the lecture.
_OF_FRAME = {"present", "opening", "guess"}

#: Returns the stop that settings name, or None.
Find = Callable[[Mapping[str, str]], Stop | None]


def read_text(text: str, find: Find, name: str = SIGN) -> Tour:
    """Return the lecture that a text describes.

    Args: name: of the lecture in a link.

    Raises: `InputError` that names the line.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"the text has {len(text):,} characters; at most {MOST_CHARACTERS:,}")
    title, stops = "A lecture of your own", list[Stop]()
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        sign, rest = line[:1], line[1:].strip()
        if len(rest) > _MOST_SENTENCE and sign in "#?!":
            raise InputError(f"line {number}: more than {_MOST_SENTENCE} characters")
        if sign == "#":
            title = rest or title
        elif sign and sign in "?!":
            if not stops:
                raise InputError(f"line {number}: a question or answer before the first link")
            if stops[-1].facts is not None:
                raise InputError(f"line {number}: this scene already has its own question")
            key = "ask" if sign == "?" else "because"
            stops[-1] = replace(stops[-1], texts={**stops[-1].texts, key: plain(rest)})
        elif line:
            try:
                stops.append(_scene(*line.partition(" ")[::2], find))
            except ValueError as error:
                raise InputError(f"line {number}: {error}") from None
            if len(stops) > MOST_SCENES:
                raise InputError(f"line {number}: more than {MOST_SCENES} scenes")
    if not stops:
        raise InputError("no line has a link")
    return Tour(name, plain(title), "", "", ":material/co_present:", tuple(stops), lecture=True)


def _scene(link: str, words: str, find: Find) -> Stop:
    """Return the scene of a link. Raises: `ValueError` for a link that leads elsewhere."""
    words = words.strip()
    if len(words) > _MOST_SENTENCE:
        raise ValueError(f"a sentence of more than {_MOST_SENTENCE} characters")
    path, settings = read_address(link)
    if (stop := find(settings)) is not None:
        return replace(stop, title=plain(words) or stop.title)
    page = next(page for page in all_pages() if page.path == path)
    return Stop(plain(words) or page.title, "", "", path, None, {}, settings)


def read_address(link: str) -> tuple[str, Settings]:
    """Return page and settings of a link of this app.

    Raises: `ValueError` for another address, an unknown page or an unknown setting.
    """
    parts = urlsplit(link)
    if parts.scheme not in ("", "http", "https") or not link.startswith(("/", "?", "http")):
        raise ValueError(f"“{shorten(link, 40)}” is not a link of this app")
    path = parts.path.rpartition("/")[2]
    paths = {page.path: page.path for page in all_pages()} | {"": all_pages()[0].path}
    if path not in paths:
        raise ValueError(f"this app has no page “{shorten(path, 40)}”")
    pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=_MOST_SETTINGS)
    for name, _ in pairs:
        if name not in url_state.NAMES | _OF_MODELS:
            raise ValueError(f"no page has a setting “{shorten(name, 40)}”")
    return paths[path], {name: value for name, value in pairs if name not in _OF_FRAME}


def link_of(text: str, find: Find) -> str:
    """Return a lecture's text as the setting of a link.

    Raises: `InputError` for a text that `read_text` refuses, or that is too long for a link.
    """
    read_text(text, find)
    lines = []
    for line in text.splitlines():
        if line.strip() and line.strip()[0] not in "#?!":  # without the server's address
            link, _, words = line.strip().partition(" ")
            path, settings = read_address(link)
            line = f"/{path}?{urlencode(settings)} {words.strip()}"
        lines.append(line.strip())
    packed = zlib.compress("\n".join(filter(None, lines)).encode(), 9)
    setting = SIGN + urlsafe_b64encode(packed).decode().rstrip("=")
    if len(setting) > MOST_LINK:
        raise InputError(
            f"the link would have {len(setting):,} characters; at most {MOST_LINK:,} are allowed; "
            "hand out the file instead"
        )
    return setting


@lru_cache(maxsize=64)
def read_link(setting: str, find: Find) -> Tour:
    """Return the lecture in a link. Raises: `InputError`."""
    if not setting.startswith(SIGN):
        raise InputError(f"there is no lecture “{shorten(setting, 40)}”")
    if len(setting) > MOST_LINK:
        raise InputError(f"the lecture in this link has more than {MOST_LINK:,} characters")
    try:
        packed = urlsafe_b64decode(setting[1:] + "=" * (-len(setting[1:]) % 4))
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, 4 * MOST_CHARACTERS)  # bytes at most
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ValueError
        return read_text(text.decode(), find, setting)
    except (ValueError, zlib.error, binascii.Error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("the lecture in this link is damaged") from None
