"""The list of checkpoints with their tasks, sizes, scores and cards."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import streamlit as st

from figures.labels import code, in_bytes, parameters, plain, shorten
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.evaluation.card import meanings
from transformer.evaluation.records import PARSING, PREDICTIONS, TESTS, mapping, records
from transformer.files.safe import read_small
from transformer.models.catalogue import Entry
from ui.core import url_state
from ui.core.examples import by_title, examples_for, group_of, purpose_of
from ui.core.glossary import linked
from ui.core.url_state import Param
from ui.core.widgets import bound, sets
from ui.work.roots import within_roots, without_root

#: Maximum number of files whose sizes are added, and of characters drawn of a card.
_MOST_FILES, MOST_CHARACTERS = 500, 40_000

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
    text = text[:MOST_CHARACTERS] + "\n…" * (len(text) > MOST_CHARACTERS)
    # As its source: pictures and links of an untrusted card could call other servers.
    st.code(text, language="markdown", wrap_lines=True)


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
