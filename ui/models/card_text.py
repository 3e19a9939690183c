"""Sanitised Markdown of untrusted model cards.

Headings, lists, tables, emphasis and code are kept. Pictures and links would make a visitor's
browser call other servers, and HTML, formulas and Streamlit's directives are unsafe: their text is
shown literally, the address of a link as code, and a bare address as text without a link.
"""

from __future__ import annotations

import re

from figures.markdown import JOINER, code, plain

#: Longer cards are cut off, in characters.
MOST_CHARACTERS = 40_000

_BLOCK = re.compile(
    r"(?P<indent> {0,8})(?:(?P<heading>#{1,6})\s+|(?P<mark>[-*+]|\d{1,6}[.)])\s+|(?P<quote>>)\s?)"
)
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_RULE = re.compile(r"\s*(-{3,}|\*{3,}|_{3,}|={3,})\s*")
_TABLE_RULE = re.compile(r":?-{1,60}:?")
_INLINE = re.compile(
    r"(?P<ticks>`{1,3})(?P<code>[^`]{1,2000})(?P=ticks)"
    r"|!?\[(?P<text>[^\[\]]{0,500})\]\((?P<address>[^()\s]{1,500})\)"
    r"|\*\*(?P<strong>[^*]{1,1000})\*\*"
    r"|(?<!\w)[*_](?P<em>[^*_\s](?:[^*_]{0,500}[^*_\s])?)[*_](?!\w)"
)


def safe_card(text: str) -> str:
    """Return a model card as safe Markdown for Streamlit."""
    cut = len(text) > MOST_CHARACTERS
    lines = text[:MOST_CHARACTERS].replace("\r\n", "\n").split("\n")
    if lines[0].strip() == "---":  # YAML front matter
        end = next((i for i, line in enumerate(lines) if i and line.strip() == "---"), None)
        lines = lines[end + 1 :] if end is not None else lines
    shown: list[str] = []
    fenced: list[str] | None = None
    fence = ""
    for line in lines:
        opened = _FENCE.match(line)
        if fenced is not None:
            if opened and opened[1].startswith(fence):
                shown += [_fenced(fenced), ""]
                fenced = None
            else:
                fenced.append(line)
        elif opened:
            fenced, fence = [], opened[1]
        else:
            shown.append(_line(line))
    if fenced is not None:
        shown.append(_fenced(fenced))
    return "\n".join(shown) + ("\n\n…" if cut else "")


def _fenced(lines: list[str]) -> str:
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def _line(line: str) -> str:
    if _RULE.fullmatch(line) or not line.strip():
        return ""
    if line.lstrip().startswith("|"):
        cells = line.strip().strip("|").split("|")
        if all(_TABLE_RULE.fullmatch(cell.strip()) for cell in cells):
            return line.strip()
        # In a table, a bar ends even a code span, so its text is split into two cells anyway.
        return "| " + " | ".join(_inline(cell) for cell in cells) + " |"
    block = _BLOCK.match(line)
    if block is None:
        return _inline(line)
    rest = _inline(line[block.end() :])
    if block["heading"]:
        # Below the page's own headings.
        return f"{'#' * min(6, 3 + len(block['heading']))} {rest}"
    return f"{block['indent']}{block['mark'] or block['quote']} {rest}"


def _inline(text: str) -> str:
    shown, position = [], 0
    for match in _INLINE.finditer(text):
        # A joiner separates the text before, which could end in part of an address or a backtick.
        before = text[position : match.start()]
        joiner = JOINER if before[-1:].strip() else ""
        shown += [_spaced(before), joiner, _element(match)]
        position = match.end()
    return "".join([*shown, _spaced(text[position:])]).strip()


def _element(match: re.Match[str]) -> str:
    if match["code"] is not None:
        return code(match["code"], limit=500)
    if match["address"] is not None:
        return f"{plain(match['text'])} ({code(match['address'], limit=200)})"
    mark, inside = ("**", match["strong"]) if match["strong"] is not None else ("*", match["em"])
    shown = plain(inside)
    return f"{mark}{shown}{mark}" if shown else ""


def _spaced(text: str) -> str:
    """Return `plain` with a space kept at either end."""
    before, after = text[:1].isspace(), text[-1:].isspace()
    shown = plain(text)
    return f"{' ' if before else ''}{shown}{' ' if after and shown else ''}"
