"""An exhibit as one HTML file that opens offline, with the app's view.

The file holds the components' scripts and styles, and the messages that Streamlit would pass to
them. Data are base64, text is escaped, and the content security policy allows no network and only
the file's own scripts and styles, by their hashes. This module needs no Streamlit, so scripts can
write pages too.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from figures import paper
from figures.exhibit import Exhibit, Offline, Panel, Series, decimals, n_numbers, table
from figures.labels import show_token
from figures.palette import CHROME, Theme
from ui.components.packing import COMPONENTS, attention_look, script, style
from ui.platform.assets import font_file

__all__ = ["Shared", "save", "shared_files", "to_html", "worker_script"]

#: Maximum count of numbers in a page's table.
MOST_IN_TABLE = 4_000

#: The page's second background colour, which is not in the palette.
_SECONDARY: dict[Theme, str] = {"light": "#f4f2ec", "dark": "#191816"}


#: Scripts of the box on a site's pages, and of its worker.
_BOX = ("live/messages.js", "live/box.js")
_WORKER = tuple(f"live/{name}.js" for name in ("text", "model", "search", "record", "worker"))

#: Views of a site's pages.
_SITE = ("player", "grid", "lens", "lines", "stages", "tree", "plan", "parts")


@dataclass(frozen=True)
class Shared:
    """A page's own parts where pages of a site share scripts, styles and font."""

    before: str  # HTML above the views
    after: str  # HTML below them


@cache
def font_face() -> str:
    """Return the CSS that embeds Source Sans (Adobe, SIL Open Font License 1.1) in all weights.

    The font is not subset: a page's letters are unknown until its views draw them. Without
    Streamlit's font file the CSS is empty, and the page uses system fonts.
    """
    if (path := font_file()) is None:
        return ""
    data = base64.b64encode(path.read_bytes()).decode()
    return (
        '@font-face { font-family: "Source Sans"; font-style: normal; font-weight: 200 900; '
        f'src: url("data:font/woff2;base64,{data}") format("woff2"); }}\n'
    )


def to_html(exhibit: Exhibit, shared: Shared | None = None) -> bytes:
    """Return the page, with the exhibit's interactive views, or with the SVG if it has none.

    Args: shared: the page's parts if it lies beside `shared_files`, which it then names.

    Raises: `ValueError` for a component that is not in `ui.components.packing`.
    """
    views = exhibit.views
    names = tuple(dict.fromkeys(view.component for view in views))
    for name in names:
        if name not in COMPONENTS:
            raise ValueError(f"component {name!r} is not one of {', '.join(COMPONENTS)}")
    title, caption = _text(exhibit.title), _text(exhibit.legend)
    body = ["<main>", f"<h1>{title}</h1>", f'<p class="caption">{caption}</p>']
    body += [shared.before] if shared else []
    if views:
        body += _views(views)
    else:
        # As an image: the policy allows no style attributes, which matplotlib writes.
        drawing = base64.b64encode(paper.to_svg(exhibit)).decode()
        body.append(f'<img alt="{title}" src="data:image/svg+xml;base64,{drawing}">')
    body += [shared.after] if shared else []
    body.append(_numbers(exhibit))
    if exhibit.program:
        program = f"<pre><code>{escape(exhibit.program)}</code></pre>"
        body.append(f"<details><summary>The program</summary>{program}</details>")
    body.append("</main><footer>Made with Headlight</footer>")
    if shared:
        body.append('<script src="files/views.js"></script>')
        return _site_page(title, body)
    sheet = font_face() + theme() + _read("offline.css")
    code = _script(names) if names else ""
    if code:
        body.append(f"<script>{code}</script>")
    scripts = _hash(code) if code else "'none'"
    allowed = f"script-src {scripts}; style-src {' '.join(map(_hash, (sheet, *map(style, names))))}"
    return _document(title, body, f"{allowed}; font-src data:", f"<style>{sheet}</style>")


def _site_page(title: str, body: Sequence[str]) -> bytes:
    """Return a page of a site; `title` and `body` are HTML.

    Policies know files from elsewhere by address only: "self" for a server, "file:" for a folder.
    """
    styles = " ".join(_hash(style(name)) for name in _SITE)
    allowed = (
        f"script-src 'self' file:; style-src 'self' file: {styles}; font-src 'self' file:; "
        "worker-src blob:"
    )
    return _document(title, body, allowed, '<link rel="stylesheet" href="files/site.css">')


def _document(title: str, body: Sequence[str], allowed: str, sheet: str) -> bytes:
    policy = f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; form-action 'none'"
    head = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
{sheet}</head>
<body>"""
    return "\n".join([head, *body, "</body></html>\n"]).encode("utf-8", errors="replace")


def shared_files() -> dict[str, bytes]:
    """Return the files that pages of a site share, by name: script, styles, and font if known."""
    font = '@font-face {{ font-family: "Source Sans"; font-weight: 200 900; src: url("{}"); }}\n'
    path = font_file()
    face = font.format("font.woff2") if path else ""
    names = ("offline.css", "live/site.css")
    files = {
        "views.js": _script(_SITE, look=attention_look(), worker=worker_script()).encode(),
        "site.css": "\n".join([face + theme(), *map(_read, names)]).encode(),
    }
    return files | ({"font.woff2": path.read_bytes()} if path else {})


def worker_script() -> str:
    """Return the script of the worker that translates in the browser."""
    return "\n".join(map(_read, _WORKER))


def theme() -> str:
    """Return the CSS with the colours of both themes."""
    light, dark = _variables("light"), _variables("dark")
    return f":root {{{light}}}\n@media (prefers-color-scheme: dark) {{ :root {{{dark}}} }}\n"


def save(exhibit: Exhibit, path: str | Path) -> Path:
    """Write a page (.html, .htm), or another format by `figures.paper.save`. Returns: the path."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        return paper.save(exhibit, path)
    path.write_bytes(to_html(exhibit))
    return path


def _views(views: Sequence[Offline]) -> list[str]:
    lines = ['<div class="views">']
    for index, view in enumerate(views):
        if view.title:
            lines.append(f"<h2>{_text(view.title)}</h2>")
        follows = {chosen: f"data-{index}-{n}" for n, chosen in enumerate(view.follows)}
        lines.append(
            f'<div class="view" data-component="{view.component}" data-message="data-{index}" '
            f'data-follows="{escape(json.dumps(follows))}"></div>'
        )
        messages = [(f"data-{index}", view.message)]
        messages += [(name, view.follows[chosen]) for chosen, name in follows.items()]
        for name, message in messages:
            text = base64.b64encode(message).decode()
            lines.append(f'<script type="application/octet-stream" id="{name}">{text}</script>')
    lines.append("</div><noscript>This view needs JavaScript.</noscript>")
    return lines


def _numbers(exhibit: Exhibit) -> str:
    count = n_numbers(exhibit)
    if count > MOST_IN_TABLE:
        return f"<p>{count:,} numbers: download this figure's CSV or NPZ to read them.</p>"
    tables = "".join(map(_table, exhibit.parts))
    return f'<details><summary>The numbers</summary><div class="table">{tables}</div></details>'


def _table(part: Panel | Series) -> str:
    values, rows, columns = table(part)
    names = columns if isinstance(columns, tuple) else tuple(decimals(columns))
    head = "".join(f'<th scope="col"><bdi>{_token(name)}</bdi></th>' for name in names)
    lines = [
        f'<tr><th scope="row"><bdi>{_token(row)}</bdi></th>'
        + "".join(f"<td>{value}</td>" for value in decimals(line))
        + "</tr>"
        for row, line in zip(rows, values, strict=True)
    ]
    return (
        f"<table><caption>{_text(part.title)}</caption><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _text(words: str) -> str:
    return _token(words) if words else ""


def _token(token: str) -> str:
    return escape(show_token(token, limit=2_000))


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _script(names: Sequence[str], **site: Any) -> str:
    """Return the script of a page with these components, or of all pages of a site."""
    mounts = [f"{script(name)}mounts[{json.dumps(name)}] = view.default;" for name in names]
    start = ["'use strict';", "const IN_APP = false;", "const mounts = {};"]
    given = {"styles": {name: style(name) for name in names}} | {
        name.upper(): value for name, value in site.items()
    }
    # "<" is escaped, so no text can end the element.
    start += [f"const {name} = {_json(value)};" for name, value in given.items()]
    code = "\n".join([*start, *mounts, *map(_read, ("offline.js", *(_BOX if site else ())))])
    if re.search(r"</script|<!--", code, re.IGNORECASE):
        raise ValueError("a component's script would end the element that holds it")
    return f"(() => {{\n{code}\n}})();"


def _json(value: Any) -> str:
    return json.dumps(value).replace("<", "\\u003c")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _variables(theme: Theme) -> str:
    chrome = CHROME[theme]
    values = {
        "--st-background-color": chrome.surface,
        "--st-secondary-background-color": _SECONDARY[theme],
        "--st-text-color": chrome.ink,
        "--st-primary-color": chrome.accent,
        "--st-link-color": chrome.accent,
        "--st-border-color": chrome.rule,
        # In quotes: a name that contains a number invalidates the list.
        "--st-font": '"Source Sans", "Source Sans 3", "Source Sans Pro", "Segoe UI", Roboto, '
        '"Helvetica Neue", Arial, "Liberation Sans", sans-serif',
        "--st-code-font": "ui-monospace, Source Code Pro, Menlo, Consolas, monospace",
        "--st-base-radius": "0.25rem",
        "--hl-scale": "1",
        "--hl-frame": "2px",
    }
    return " ".join(f"{name}: {value};" for name, value in values.items())
