"""Lectures of one's own: untrusted text with links of this app."""

import zlib
from base64 import urlsafe_b64encode
from contextlib import suppress
from hashlib import sha512

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.labels import plain
from transformer.types import InputError
from ui.frame.page import all_pages
from ui.tours.guide import LECTURES, TOURS, lecture_of, stop_in
from ui.tours.own import MOST_CHARACTERS, MOST_LINK, MOST_SCENES, SIGN, link_of, read_text

OWN = """# My *lecture*

http://host:8501/base/attention?kind=cross&layer=4&present=on  <b>Layer 4</b>
? Which [head](http://evil)?
! The second.
/?lecture=attention&scene=3
https://host/?tour=heads&stop=2 Position
"""


def packed(content: bytes) -> str:
    return SIGN + urlsafe_b64encode(content).decode().rstrip("=")


def test_scenes_come_from_links_in_the_teachers_order() -> None:
    tour = read_text(OWN, stop_in)
    own, scene, stop = tour.stops
    assert tour.lecture and tour.title == plain("My *lecture*")
    assert (own.page, own.settings) == ("attention", {"kind": "cross", "layer": "4"})
    assert own.title == plain("<b>Layer 4</b>"), "text is no markup"
    asked = own.asked(None)
    assert (asked.ask, asked.because) == (plain("Which [head](http://evil)?"), r"The second\.")
    assert scene == LECTURES["attention"].stops[2]
    assert stop.facts is TOURS[1].stops[1].facts and stop.title == "Position"


def test_a_link_brings_the_same_lecture_without_the_servers_address() -> None:
    setting = link_of(OWN, stop_in)
    assert len(setting) < MOST_LINK
    there, here = lecture_of(setting), read_text(OWN, stop_in)
    assert there.name == setting
    assert there.stops == here.stops and there.title == here.title
    many = "\n".join(f"/?sentence={sha512(bytes([at])).hexdigest()}" for at in range(MOST_SCENES))
    with pytest.raises(InputError, match="hand out the file"):
        link_of(many, stop_in)


@pytest.mark.parametrize(("line", "wrong"), [
    ("javascript:alert(1)", "is not a link"),
    ("//evil.example/attention", "is not a link|no page"),
    ("ftp://host/attention", "is not a link"),
    ("/nowhere?layer=1", "no page “nowhere”"),
    ("/attention?colour=1", "no page has a setting “colour”"),
    ("http://[host/", ""),
    ("/attention " + "x" * 301, "sentence of more than 300"),
    ("? " + "x" * 301, "more than 300"),
    ("?", "before the first link|"),
    ("hello", "is not a link"),
    ("/?" + "&".join(["layer=1"] * 41), ""),
])  # fmt: skip
def test_an_error_names_the_line(line: str, wrong: str) -> None:
    if line.startswith("//evil"):  # only page and settings are taken, never the host
        assert read_text(line, stop_in).stops[0].page == "attention"
        return
    with pytest.raises(InputError, match=f"^line 2: .*({wrong})"):
        read_text(f"# title\n{line}", stop_in)


def test_a_scene_with_a_question_takes_no_other() -> None:
    with pytest.raises(InputError, match=r"^line 2: this scene already has its own question"):
        read_text("/?lecture=attention&scene=1\n? Mine", stop_in)
    with pytest.raises(InputError, match="no line has a link"):
        read_text("# only a title", stop_in)
    with pytest.raises(InputError, match=f"line {MOST_SCENES + 1}: more than"):
        read_text("/attention\n" * (MOST_SCENES + 1), stop_in)
    with pytest.raises(InputError, match="characters; at most"):
        read_text("x" * (MOST_CHARACTERS + 1), stop_in)


def test_a_link_is_limited_before_it_is_unpacked() -> None:
    bomb = zlib.compress(b"#" * 10**8, 9)[:1400]
    for setting, wrong in (
        (SIGN + "A" * MOST_LINK, "more than"), (packed(bomb), "damaged"),
        (packed(zlib.compress(b"/attention")[:-2]), "damaged"), (packed(b"x"), "damaged"),
        (packed(zlib.compress(b"\xff/attention")), "damaged"), (SIGN + "\u0663", "damaged"),
        (packed(zlib.compress(b"/attention?bad=1")), "line 1"), ("nothing", "no lecture"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=wrong):
            lecture_of(setting)


@given(st.text(max_size=200), st.sampled_from([page.path for page in all_pages()]))
def test_any_text_is_read_or_refused(text: str, path: str) -> None:
    for given_text in (text, f"/{path}?sentence=a {text}"):
        with suppress(InputError):
            stops = read_text(given_text, stop_in).stops
            assert {stop.page for stop in stops} <= {page.path for page in all_pages()}
