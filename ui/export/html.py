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
from functools import cache
from html import escape
from pathlib import Path

from figures import paper
from figures.exhibit import Exhibit, Offline, Panel, Series
from figures.labels import show_token
from figures.palette import CHROME, Theme
from figures.tables import decimals, n_numbers, table
from ui.components.files import COMPONENTS, script, style
from ui.platform.assets import font_file

__all__ = ["save", "to_html"]

#: Maximum count of numbers in a page's table.
MOST_IN_TABLE = 4_000

#: The page's second background colour, which is not in the palette.
_SECONDARY: dict[Theme, str] = {"light": "#f4f2ec", "dark": "#191816"}


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


def to_html(exhibit: Exhibit) -> bytes:
    """Return the page, with the exhibit's interactive views, or with the SVG if it has none.

    Raises: `ValueError` for a component that is not in `ui.components.files`.
    """
    views = exhibit.views
    names = tuple(dict.fromkeys(view.component for view in views))
    for name in names:
        if name not in COMPONENTS:
            raise ValueError(f"component {name!r} is not one of {', '.join(COMPONENTS)}")
    light, dark = _variables("light"), _variables("dark")
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{{dark}}} }}"
    theme = f"{font_face()}:root {{{light}}}\n{dark}\n"
    styles = [theme + _read("offline.css"), *map(style, names)]
    code = _script(names) if names else ""
    scripts = _hash(code) if code else "'none'"
    policy = (
        f"default-src 'none'; script-src {scripts}; "
        f"style-src {' '.join(map(_hash, styles))}; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title, caption = _text(exhibit.title), _text(exhibit.legend)
    body = [f"<h1>{title}</h1>", f'<p class="caption">{caption}</p>']
    if views:
        body += _views(views, dict(zip(names, styles[1:], strict=True)))
    else:
        # As an image: the policy allows no style attributes, which matplotlib writes.
        drawing = base64.b64encode(paper.to_svg(exhibit)).decode()
        body.append(f'<img alt="{title}" src="data:image/svg+xml;base64,{drawing}">')
    body.append(_numbers(exhibit))
    if exhibit.program:
        program = f"<pre><code>{escape(exhibit.program)}</code></pre>"
        body.append(f"<details><summary>The program</summary>{program}</details>")
    body.append("<footer>Made with Headlight</footer>")
    if code:
        body.append(f"<script>{code}</script>")
    head = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{styles[0]}</style></head>
<body>"""
    return "\n".join([head, *body, "</body></html>\n"]).encode("utf-8", errors="replace")


def save(exhibit: Exhibit, path: str | Path) -> Path:
    """Write a page (.html, .htm), or another format by `figures.paper.save`. Returns: the path."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        return paper.save(exhibit, path)
    path.write_bytes(to_html(exhibit))
    return path


def _views(views: Sequence[Offline], sheets: dict[str, str]) -> list[str]:
    # "<" is escaped, so no text can end the element.
    styles = json.dumps(sheets).replace("<", "\\u003c")
    lines = [f'<script type="application/json" id="styles">{styles}</script><div class="views">']
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


def _script(names: Sequence[str]) -> str:
    mounts = [f"{script(name)}mounts[{json.dumps(name)}] = view.default;" for name in names]
    start = ["'use strict';", "const IN_APP = false;", "const mounts = {};"]
    code = "\n".join([*start, *mounts, _read("offline.js")])
    if re.search(r"</script|<!--", code, re.IGNORECASE):
        raise ValueError("a component's script would end the element that holds it")
    return f"(() => {{\n{code}\n}})();"


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
