"""The list of checkpoints with their tasks, sizes, scores and cards."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import streamlit as st

from figures.labels import JOINER, code, in_bytes, parameters, plain, shorten
from transformer.config import ModelConfig
from transformer.evaluation.card import meanings
from transformer.evaluation.records import PARSING, PREDICTIONS, TESTS, mapping, records
from transformer.files.safe import read_small
from transformer.models.catalogue import Entry
from transformer.types import CheckpointError
from ui.core import url_state
from ui.core.examples import by_title, examples_for, group_of, purpose_of
from ui.core.glossary import linked
from ui.core.url_state import Param
from ui.core.widgets import bound, sets
from ui.work.roots import within_roots, without_root

#: Maximum number of files whose sizes are added.
_MOST_FILES = 500

#: Measures by kind of record.
_KEYS = {TESTS: ("bleu", "chrf"), PREDICTIONS: ("perplexity", "right"), PARSING: ("f1",)}

#: The open card; in long lists, the page from 1 and the search text.
CARD: Param[str] = Param("card", url_state.text(255), "")
PART: Param[int] = Param("part", url_state.whole(1, 99_999), 1)
NAMED: Param[str] = Param("named", url_state.text(255), "")

#: Rows per page; a browser is slow with hundreds.
MOST_ROWS = 30


def draw_rows(
    entries: Sequence[Entry],
    in_use: str,
    use: Callable[[str], None],
    bring: Callable[[Entry], None],
) -> None:
    """Draw the usable checkpoints by task, then the unusable ones with the reason.

    Args: use: called with the chosen name.  bring: called with an entry to import.
    """
    url_state.show(CARD)
    usable = {entry.name: entry for entry in entries if entry.ok}
    titles = by_title(usable.values())
    imported = {mapping(entry.metrics.get("imported")).get("source") for entry in usable.values()}
    others = [
        entry for entry in entries
        if not (entry.ok or (entry.kind == "foreign" and entry.path.name in imported))
    ]  # fmt: skip
    ordered = [*(usable[name] for name in titles), *others]
    if len(ordered) > MOST_ROWS:
        ordered = _draw_part(ordered, titles)
    group = ""
    for index, entry in enumerate(ordered):
        last, group = group, group_of(entry) if entry.ok else "Not usable"
        if group != last:
            st.markdown(f"#### {group}")
        with st.container(key=f"model_{'row' if entry.ok else 'broken'}_{index}"):
            if entry.ok:
                _draw_row(entry, titles[entry.name], entry.name == in_use, use)
            else:
                _draw_broken(entry, bring)


def _draw_part(entries: list[Entry], titles: Mapping[str, str]) -> list[Entry]:
    url_state.show(PART, NAMED)
    search, pages = st.columns([2, 5], vertical_alignment="bottom")
    search.text_input("Find", max_chars=255, placeholder="part of a name", **bound(NAMED))
    text = url_state.get(NAMED).strip().casefold()
    matches = [
        entry for entry in entries
        if text in f"{entry.name} {titles.get(entry.name, '')}".casefold()
    ]  # fmt: skip
    n_pages = max(1, -(-len(matches) // MOST_ROWS))
    page = min(url_state.get(PART), n_pages)
    with pages.container(horizontal=True, horizontal_alignment="right"):
        if n_pages > 1:
            st.pagination(n_pages, **bound(PART, value=page))
    first = (page - 1) * MOST_ROWS
    part = matches[first : first + MOST_ROWS]
    range_text = f"{first + 1}-{first + len(part)} of {len(matches):,}"
    st.caption(f"{range_text if part else 'No matching name'}; unusable models come last.")
    return part


def _draw_broken(entry: Entry, bring: Callable[[Entry], None]) -> None:
    name = f"**{plain(shorten(entry.name, 60))}**"
    if entry.kind == "foreign":
        words, button = st.columns([10, 3], vertical_alignment="center")
        words.markdown(f":material/input: {name} · another library's model, not imported yet")
        with button, st.container(horizontal=True, horizontal_alignment="right"):
            st.button("Import", key=f"bring_{entry.name}", on_click=bring, args=(entry,))
        return
    reason = without_root(str(entry.error)).removeprefix(entry.name).lstrip("/: ")
    st.markdown(f":material/block: {name} · cannot be used")
    st.caption(plain(f"{reason}."))


def _draw_row(entry: Entry, title: str, chosen: bool, use: Callable[[str], None]) -> None:
    words, figures, buttons = st.columns([8, 3, 3], vertical_alignment="center")
    words.markdown(f"**{plain(shorten(title, 80))}**")
    own = "" if title == entry.name else f"{code(entry.name, 60)} · "
    shape = own + plain(" · ".join(shape_of(entry)))
    purpose = purpose_of(entry)
    words.caption(purpose or shape, help=shape if purpose else None)
    letters = examples_for(entry.name, entry.metrics).kind == "letters"
    measured = figures_of(entry.metrics, letters=letters)
    help = "\n\n".join([*measured, *meanings(entry.metrics)])
    figures.caption(measured[0].partition(" · ")[0], help=help)
    card = card_path(entry)
    opened = url_state.get(CARD) == entry.name
    with buttons, st.container(horizontal=True, horizontal_alignment="right"):
        if card is not None:
            st.button(
                "Close card" if opened else "Card", key=f"card_{entry.name}", type="tertiary",
                icon=":material/description:", **sets(CARD, None if opened else entry.name),
            )  # fmt: skip
        if chosen:
            st.button("In use", icon=":material/check:", disabled=True, key=f"use_{entry.name}")
        else:
            st.button("Use", key=f"use_{entry.name}", on_click=use, args=(entry.name,))
    if opened and card is not None:
        _draw_card(card, entry, title)


def _draw_card(path: Path, entry: Entry, title: str) -> None:
    try:
        text = read_small(path).decode("utf-8", "replace")
    except CheckpointError as error:
        st.caption(plain(without_root(str(error))))
        return
    if "training" in entry.metrics:  # a Headlight card, which begins with its folder's name
        text = re.sub(r"\A# .*", lambda _: f"# {title}", text)
    with st.container(border=True, key="model_card"):
        st.markdown(safe_card(text))


def card_path(entry: Entry) -> Path | None:
    """Return an entry's model card, or None if it is missing or outside the roots."""
    try:
        path = within_roots(entry.path / "README.md")
    except CheckpointError:
        return None
    return path if path.is_file() else None


def shape_of(entry: Entry) -> Iterator[str]:
    """Yield the known ones of origin, depth, width, heads, parameters and size."""
    source = str(mapping(entry.metrics.get("imported")).get("source", ""))
    if source:
        yield f"imported from {shorten(source, 60)}"
    if isinstance(config := entry.config, ModelConfig):
        yield f"{config.n_encoder_layers}+{config.n_decoder_layers} layers"
        yield f"d_model {config.d_model:,}"
        yield config.heads_in_words
        yield f"{parameters(config.n_parameters)} parameters"
        if config.positions != "sinusoidal":
            yield f"{config.positions} positions"
    elif entry.about:
        yield entry.about.rstrip(".")
    if entry.unused:
        yield f"ignored generation settings: {', '.join(entry.unused)}"
    yield f"{in_bytes(size_of(entry.path))} on disk"


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of the files directly in a folder."""
    try:
        files = islice(path.iterdir(), _MOST_FILES) if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
    except OSError:
        return 0


def figures_of(metrics: Mapping[str, Any], *, letters: bool = False) -> list[str]:
    """Return the first measured figures and their setting in Markdown, and count the others.

    Args: letters: True for a model of letters, which has no BLEU.
    """
    rows = []
    for record in records(metrics):
        keys = _KEYS.get(record.kind, ())
        parts = record.words(*(("exact_match", "chrf") if letters and keys else keys))
        if parts:
            figures = f"{plain(' · '.join(parts))} on {plain(shorten(record.text, 40))}"
            rows.append((figures, plain(shorten(record.setting, 80))))
    if not rows:
        return ["No measured figures"]
    figures, setting = rows[0]
    more = f"; {len(rows) - 1} more in its card" if len(rows) > 1 else ""
    return [figures, linked(setting, "beam", "alpha") + more]


#: Maximum number of characters drawn of a card.
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
    """Return an untrusted model card as safe Markdown for Streamlit.

    Headings, lists, tables, emphasis and code stay. Pictures and links could make a visitor's
    browser call other servers, and HTML, formulas and Streamlit directives are unsafe: their text
    appears literally, a link's address as code, and a bare address as plain text.
    """
    cut = len(text) > MOST_CHARACTERS
    lines = text[:MOST_CHARACTERS].replace("\r\n", "\n").split("\n")
    if lines[0].strip() == "---":  # YAML front matter
        end = next((i for i, line in enumerate(lines) if i and line.strip() == "---"), -1)
        lines = lines[end + 1 :]
    safe: list[str] = []
    block: list[str] | None = None  # the lines of an open code block
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if block is None and mark:
            block, fence = [], mark[1]
        elif block is None:
            safe.append(_line(line))
        elif mark and mark[1].startswith(fence):
            safe += [_code_block(block), ""]
            block = None
        else:
            block.append(line)
    if block is not None:
        safe.append(_code_block(block))
    return "\n".join(safe) + ("\n\n…" if cut else "")


def _code_block(lines: list[str]) -> str:
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
        # In a table, a bar ends even a code span.
        return "| " + " | ".join(_inline(cell) for cell in cells) + " |"
    block = _BLOCK.match(line)
    if block is None:
        return _inline(line)
    rest = _inline(line[block.end() :])
    if block["heading"]:  # below the page's own headings
        return f"{'#' * min(6, 3 + len(block['heading']))} {rest}"
    return f"{block['indent']}{block['mark'] or block['quote']} {rest}"


def _inline(text: str) -> str:
    safe, position = "", 0
    for match in _INLINE.finditer(text):
        # A joiner follows the text before, which could end in part of an address or a backtick.
        before = text[position : match.start()]
        joiner = JOINER if before[-1:].strip() else ""
        safe += _spaced(before) + joiner + _element(match)
        position = match.end()
    return (safe + _spaced(text[position:])).strip()


def _element(match: re.Match[str]) -> str:
    if match["code"] is not None:
        return code(match["code"], limit=500)
    if match["address"] is not None:
        return f"{plain(match['text'])} ({code(match['address'], limit=200)})"
    mark, inside = ("**", match["strong"]) if match["strong"] is not None else ("*", match["em"])
    inside = plain(inside)
    return f"{mark}{inside}{mark}" if inside else ""


def _spaced(text: str) -> str:
    """Return `plain(text)`, with a space where `text` begins or ends with space."""
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() and not text.isspace() else ""
    return f"{before}{plain(text)}{after}"
