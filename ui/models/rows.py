"""The list of checkpoints: a row each, with task, size, scores and card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from figures.labels import JOINER, code, in_bytes, parameters, plain, shorten
from transformer.catalogue import Entry
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.evaluation.card import meanings
from transformer.evaluation.records import PARSING, PREDICTIONS, TESTS, Record, records
from transformer.files.safe import read_small
from ui.core import url_state
from ui.core.examples import data_of_training, examples_for
from ui.core.glossary import linked
from ui.core.languages import name_of
from ui.core.url_state import Param
from ui.core.widgets import bound
from ui.work.roots import within_roots, without_root

CARD_FILE = "README.md"

#: Maximum number of figures in a row, and of files whose size is counted.
_MOST_FIGURES, _MOST_FILES = 3, 500

#: Measures of each kind of record.
_KEYS = {TESTS: ("bleu", "chrf"), PREDICTIONS: ("perplexity", "right"), PARSING: ("f1",)}

CARD: Param[str] = Param("card", url_state.text(255), "")
#: For long lists: the page of the list, from 1, and the text that names contain.
PART: Param[int] = Param("part", url_state.whole(1, 99_999), 1)
NAMED: Param[str] = Param("named", url_state.text(255), "")

#: Rows drawn at a time; a browser is slow with hundreds.
MOST_ROWS = 30


def draw_rows(
    entries: Sequence[Entry],
    in_use: str,
    use: Callable[[str], None],
    bring: Callable[[Entry], None],
) -> None:
    """Draw the usable checkpoints, then the others with the reason.

    Args: use: called with a chosen name.  bring: called with an entry to import.
    """
    url_state.show(CARD)
    ordered = [*(each for each in entries if each.ok), *(each for each in entries if not each.ok)]
    if len(ordered) > MOST_ROWS:
        ordered = _draw_part(ordered)
    for index, entry in enumerate(ordered):
        with st.container(key=f"model_{'row' if entry.ok else 'broken'}_{index}"):
            if entry.ok:
                _draw_row(entry, entry.name == in_use, use)
            else:
                _draw_broken(entry, bring)


def _draw_part(entries: list[Entry]) -> list[Entry]:
    """Draw search and pagination of a long list; return the entries to draw."""
    url_state.show(PART, NAMED)
    named, turned = st.columns([2, 5], vertical_alignment="bottom")
    with named:
        st.text_input("Find", max_chars=255, placeholder="part of a name", **bound(NAMED))
    wanted = url_state.get(NAMED).strip().casefold()
    matches = [each for each in entries if wanted in each.name.casefold()]
    n_parts = max(1, -(-len(matches) // MOST_ROWS))
    if url_state.get(PART) > n_parts:
        url_state.forget(PART)
    with turned.container(horizontal=True, horizontal_alignment="right"):
        if n_parts > 1:
            st.pagination(n_parts, **bound(PART))
    first = (url_state.get(PART) - 1) * MOST_ROWS
    part = matches[first : first + MOST_ROWS]
    counted = f"{first + 1}-{first + len(part)} of {len(matches):,}" if part else "No matching name"
    st.caption(f"{counted}; unusable ones come last.")
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


def _draw_row(entry: Entry, chosen: bool, use: Callable[[str], None]) -> None:
    words, figures, buttons = st.columns([6, 4, 3], vertical_alignment="center")
    with words:
        st.markdown(f"**{plain(shorten(entry.name, 60))}** · {plain(task_of(entry))}")
        st.caption(plain(" · ".join(shape_of(entry))))
    with figures:
        letters = examples_for(entry.name, entry.metrics).kind == "letters"
        meant = "\n\n".join(meanings(entry.metrics))
        st.caption("  \n".join(figures_of(entry.metrics, letters=letters)), help=meant or None)
    opened = url_state.get(CARD) == entry.name
    with buttons, st.container(horizontal=True, horizontal_alignment="right"):
        if card_path(entry) is not None:
            st.button(
                "Close card" if opened else "Card", key=f"card_{entry.name}", type="tertiary",
                icon=":material/description:", on_click=url_state.put,
                args=(CARD, "" if opened else entry.name),
            )  # fmt: skip
        if chosen:
            st.button("In use", icon=":material/check:", disabled=True, key=f"use_{entry.name}")
        else:
            st.button("Use", key=f"use_{entry.name}", on_click=use, args=(entry.name,))
    if opened:
        _draw_card(entry)


def _draw_card(entry: Entry) -> None:
    path = card_path(entry)
    if path is None:
        return
    try:
        text = read_small(path).decode("utf-8", "replace")
    except CheckpointError as error:
        st.caption(plain(without_root(str(error))))
        return
    if "training" in entry.metrics:  # our own card; the folder may have had another name
        text = re.sub(r"\A# .*", lambda _: f"# {entry.name}", text)
    with st.container(border=True, key="model_card"):
        st.markdown(safe_card(text))


def card_path(entry: Entry) -> Path | None:
    """Return the path of an entry's model card, or None if it is missing or off limits."""
    try:
        path = within_roots(entry.path / CARD_FILE)
    except CheckpointError:
        return None
    return path if path.is_file() else None


#: Tasks of models of one stack that do not translate.
_TASKS = {
    "continue": "continues an English sentence",
    "fill": "fills in hidden words of an English sentence",
}


def task_of(entry: Entry) -> str:
    """Describe the task of a model in a few words."""
    if entry.kind == "archive":
        return "one recorded sentence"
    if entry.stack is not None and entry.stack.task != "translate":
        return _TASKS[entry.stack.task]
    if entry.kind == "huggingface":
        return "another library's model, seen through its attention"
    imported = _mapping(entry.metrics.get("imported"))
    if imported:
        source = str(imported.get("source", ""))
        return f"imported from {shorten(source, 60)}" if source else "imported"
    data = data_of_training(entry.metrics)
    codes = [str(data.get(side)) for side in ("src", "tgt")]
    source, target = map(name_of, codes)
    examples = examples_for(entry.name, entry.metrics)
    if examples.kind == "letters" or source == codes[0] or target == codes[1]:
        return examples.task
    return f"{examples.task}, {source} to {target}"


def shape_of(entry: Entry) -> Iterator[str]:
    """Yield depth, width, heads, parameters and size, omitting what is unknown."""
    if isinstance(entry.config, ModelConfig):
        config = entry.config
        yield f"{config.n_encoder_layers}+{config.n_decoder_layers} layers"
        yield f"d_model {config.d_model:,}"
        yield config.heads_in_words
        yield f"{parameters(config.n_parameters)} parameters"
        if config.positions != "sinusoidal":
            yield f"{config.positions} positions"
    elif entry.about:
        yield entry.about.rstrip(".")
    if entry.unused:
        yield f"generation settings not used: {', '.join(entry.unused)}"
    yield f"{in_bytes(size_of(entry.path))} on disk"


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of the files directly in a folder."""
    try:
        if not path.is_dir():
            return path.stat().st_size
        files = [each for _, each in zip(range(_MOST_FILES), path.iterdir(), strict=False)]
        return sum(each.stat().st_size for each in files if each.is_file())
    except OSError:
        return 0


def figures_of(metrics: Mapping[str, Any], *, letters: bool = False) -> list[str]:
    """Return the first few measured figures in Markdown, of a model of `letters` without BLEU.

    The setting of all of them has its own line, different settings their figure's.
    """
    every = [(_figures(each, letters), each.setting) for each in records(metrics)]
    found = [(line, plain(shorten(setting, 80))) for line, setting in every if line]
    if not found:
        return ["No measured figures"]
    settings = dict.fromkeys(setting for _, setting in found[:_MOST_FIGURES])
    lines = [
        line if len(settings) == 1 else f"{line}, {setting}"
        for line, setting in found[:_MOST_FIGURES]
    ]
    if len(found) > _MOST_FIGURES:
        lines.append(f"and {len(found) - _MOST_FIGURES} more in its card")
    if len(settings) == 1:
        lines.append(linked(*settings, "beam", "alpha"))
    return lines


def _figures(record: Record, letters: bool) -> str:
    """Return the figures of a record in Markdown, "" if they are invalid."""
    keys = _KEYS.get(record.kind, ())
    parts = record.words(*(("exact_match", "chrf") if letters and keys else keys))
    return f"{plain(' · '.join(parts))} on {code(record.name, 30)}" if parts else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


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
    """Return an untrusted model card as safe Markdown for Streamlit.

    Headings, lists, tables, emphasis and code are kept. Pictures and links would make a visitor's
    browser call other servers, and HTML, formulas and Streamlit's directives are unsafe: their text
    is shown literally, the address of a link as code, and a bare address as text without a link.
    """
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
