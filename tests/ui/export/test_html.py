"""Offline pages: one file, nothing loaded from outside, no scripts but our own."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from figures.exhibit import Offline
from figures.tables import to_csv, to_npz
from tests.figures.exhibits import HOSTILE, exhibit, hostile_panel, panel
from ui.components.files import COMPONENTS, style
from ui.components.packing import pack
from ui.export import html
from ui.export.html import save, to_html


class Reader(HTMLParser):
    """A page's elements, and the text outside scripts."""

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
    code = page.texts["script"][-1]
    assert policy["script-src"] == [digest(code)]
    styles = json.loads(page.texts["script"][0])
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
    monkeypatch.setattr(html, "find_spec", lambda name: None)
    monkeypatch.setattr(html, "font_face", html.font_face.__wrapped__)
    assert b"@font-face" not in lens_page()


def test_nothing_is_asked_of_a_network_and_no_text_is_markup() -> None:
    page = Reader(lens_page())
    assert {tag for tag, _ in page.elements} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "p", "div", "script", "noscript",
        "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "pre",
        "code", "footer",
    }  # fmt: skip
    for tag, attributes in page.elements:
        assert not attributes.keys() & {"src", "href", "srcset", "style"}, tag
        assert not any(name.startswith("on") for name in attributes), tag
    assert page.texts["title"] == ['Cross-attention <i>of</i> "all"']
    shown = [each.strip("\u2068\u2069") for each in page.texts["bdi"]]
    assert {HOSTILE[1], "=HYPERLINK(1)", "l" * 200, "two↵lines␍↵"} <= set(shown)
    assert len(shown) == 2 * len(HOSTILE)
    assert "".join(page.texts["code"]) == exhibit().snippet


def test_messages_come_back_byte_by_byte() -> None:
    page = Reader(lens_page())
    ids = [attributes["id"] for tag, attributes in page.elements if attributes.get("id")]
    assert ids == ["styles", "data-0", "data-1", "data-1-0"]
    held = [base64.b64decode(text) for text in page.texts["script"][1:4]]
    assert held == [pack({"a": 1}, b""), b"\x01\x02", b"\x03"]
    follows = [json.loads(a["data-follows"] or "") for _, a in page.elements if "data-follows" in a]
    assert follows == [{}, {"[0,1]": "data-1-0"}]


def test_without_a_view_the_page_holds_the_drawing_and_no_script() -> None:
    data = to_html(exhibit(panel(3, 4)))
    page = Reader(data)
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
    assert any("12 numbers; the CSV and the NPZ" in each for each in page.texts["p"])


def test_an_unknown_component_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'lense' is not one of player, grid, lens"):
        to_html(exhibit(offline=Offline("lense", b"")))


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_component_fits_into_a_page(name: str) -> None:
    code = html._script((name,))
    assert code.count(f'mounts["{name}"] = mountThisView;') == 1
    used = set(re.findall(r"--(?:st|hl)-[a-z-]+", code + style(name)))
    given = set(re.findall(r"(--[a-z-]+):", html._theme()))
    assert used <= given, "the page gives no value to these"


def test_save_goes_by_the_ending(tmp_path: Path) -> None:
    made = exhibit(offline=Offline("lens", b"\x00"))
    assert save(made, tmp_path / "a.HTML").read_bytes() == to_html(made)
    assert save(made, str(tmp_path / "a.py")).read_text() == made.snippet
    assert save(made, tmp_path / "a.CSV").read_bytes() == to_csv(made)
    assert save(made, tmp_path / "a.npz").read_bytes() == to_npz(made)
    assert save(made, tmp_path / "a.svg").read_bytes().startswith(b"<svg")
    with pytest.raises(ValueError, match=r"'\.gif'.*\.png, \.svg, \.pdf, \.csv, \.npz, \.py"):
        save(made, tmp_path / "a.gif")
