"""Compare's settings, controls and views, in the order of the pages that declare them.

A is the sidebar's view. B has another checkpoint or sentence, and drops settings that do not apply
to it: a prefix's token ids belong to one checkpoint.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import code, plain, shorten
from transformer.models.catalogue import Entry, find
from transformer.trace.records import Trace
from ui.compare.exhibits import Compared
from ui.core import url_state
from ui.core.examples import by_title, examples_for, languages_of_training, title_of
from ui.core.languages import Languages, name_of
from ui.core.url_state import Param
from ui.core.view import CHECKPOINT, MAX_CHARACTERS, SENTENCE, Side, View, current_entries, is_blank
from ui.core.widgets import Choice, bound, choose_one
from ui.export.download import source_of
from ui.frame.beside import PAIRINGS, Beside, Download, Pair, Setup, both_of
from ui.frame.editing import EDITS
from ui.frame.page import Page, all_pages, link_to, of_pages, why_not
from ui.frame.sidebar import languages_of
from ui.frame.steering import PREFIX, TARGET
from ui.frame.through_time import finished_in_words, others_in_time
from ui.work.desk import get_tracer, load_for_visit, prepare
from ui.work.languages import recorded_sentence
from ui.work.results import REFUSALS, load, resolve


class Section(NamedTuple):
    """A view and the page that declares it."""

    page: Page
    beside: Beside

    @property
    def title(self) -> str:
        """The label on the control."""
        return self.beside.title or self.page.title


@of_pages
def sections() -> dict[str, Section]:
    """Return views by name in the URL."""
    return {
        beside.name or page.path: Section(page, beside)
        for page in all_pages() for beside in page.views
    }  # fmt: skip


#: The view on screen.
TOPIC: Param[str] = Param("topic", lambda raw: url_state.one_of(sections())(raw), "maps")


def draw_section(
    section: Section, setup: Setup, sides: tuple[Side, Side], controls: DeltaGenerator
) -> Download | None:
    """Draw a view with links to both sides' pages; return its download."""
    page, beside = section
    reasons = {}
    for side in sides:
        why = None if beside.everywhere else why_not(side.view, page)
        if reason := why or beside.lacks(side):
            reasons[side.letter] = reason
    pair = Pair(setup, sides, reasons, page.icon, controls)
    for side in sides:
        side.beside[:] = pair.shown
    if beside.above(pair) is False:
        return None
    if beside.rows or beside.below is None:
        pair.rows(*(beside.rows or (page.draw,)))
    if beside.below is not None:
        download = beside.below(pair)
    else:
        download = both_of(pair, beside.figure, section.title) if beside.figure else None
    if beside.settings is not None and pair.shown:
        pair.every(lambda side: _draw_link(side, section))
    return download


def _draw_link(side: Side, section: Section) -> None:
    page, view = section.page, side.view
    if (reason := why_not(view, page)) is not None:
        st.caption(plain(reason))
        return
    settings = section.beside.settings
    assert settings is not None
    changes = {CHECKPOINT: view.checkpoint, SENTENCE: view.sentence, **settings(side)}
    changes[EDITS] = url_state.get(EDITS) if view.entry.ref.edits else ""
    if side.letter == "B":
        changes |= {PREFIX: (), TARGET: view.target}
    link_to(page.path, f"{side.letter} on {page.title}", values=changes)


@dataclass(frozen=True)
class CompareChoice(Choice):
    """URL parameters shared by all views.

    A blank second sentence is stored as a space, since the URL omits empty values. `scored` shows
    both full texts token by token, instead of one line each.
    """

    pairing: Param[str] = Param("pairing", url_state.one_of(PAIRINGS), "sentences")
    other: Param[str] = Param("other", str, "")
    second: Param[str] = Param(
        "second", url_state.text(MAX_CHARACTERS), "", lambda text: text or " ", "sentence"
    )
    follow: Param[bool] = url_state.switch("follow")
    scored: Param[bool] = url_state.switch("scored")


def can_follow(view: View) -> bool:
    """Return True if the view's model supports teacher forcing."""
    return view.kind == "checkpoint" or (
        view.kind == "huggingface" and "cross" in load(view.entry, view.device).kinds
    )


def compared(setup: Setup) -> Compared:
    """Return descriptions of both sides for captions and programs."""
    return Compared(setup.about, (source_of(setup.left), source_of(setup.right)))


def with_left(setup: Setup, left: Trace) -> Setup:
    """Return the setup with B following A's translation, if switched on and possible."""
    follows = url_state.get(CompareChoice.follow) and left.text.strip() and can_follow(setup.right)
    return setup.following(left.text) if follows else setup


def prepare_right(setup: Setup, left: Trace) -> None:
    """Compute B's trace early, ignoring errors, which B's controls report."""
    with suppress(*REFUSALS):
        load_for_visit(setup.right.entry, setup.right.device)
        prepare(setup.left, [with_left(setup, left).right.request])


def read_setup(view: View) -> Setup:
    """Read the setup from settings, with defaults for missing or unusable values."""
    metrics = {entry.name: entry.metrics for entry in current_entries() if entry.ok}
    others = others_in_time(view.entry) + readers(view.entry.whole, metrics)
    name, pairing = CompareChoice.read().other, CompareChoice.read().pairing
    if not url_state.stored(CompareChoice.pairing):
        alone = others[:1] == (view.checkpoint,)  # no other checkpoint reads this kind of text
        alike = second_sentence(view) == view.sentence
        if name or view.entry.updates is not None or (alike and not alone):
            pairing = "models"
        if view.entry.ref.edits:
            pairing = "edits"
    if pairing == "edits" and view.entry.ref.edits:
        return Setup(pairing, view.original, view, others)
    if pairing == "sentences" and view.kind != "archive":
        return Setup(pairing, view, replace(view, sentence=second_sentence(view)), others)
    entry, refused, _ = resolve(name or others[0], current_entries())
    if refused:
        entry, *_ = resolve(others[0], current_entries())
    elif name and name not in others:  # another checkpoint's training snapshot, from a link
        others = (name, *others)
    assert entry is not None
    return Setup("models", view, beside(view, entry), others, refused)


def beside(view: View, entry: Entry) -> View:
    """Return another model's view with the settings that it supports."""
    languages = languages_of(entry, view.device) if view.src_lang or view.tgt_lang else Languages()
    other = replace(view, entry=entry, prefix=(), languages=languages)
    if entry.kind == "archive":
        sentence = recorded_sentence(entry) or ""
        return replace(
            other, device="cpu", sentence=sentence, beam_size=1, target=None, sampling=None
        )
    if view.kind == "archive":
        return replace(other, target=None)
    return other if entry.kind == "checkpoint" else replace(other, target=None, sampling=None)


def readers(checkpoint: str, usable: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return usable checkpoints, the most relevant for a comparison first.

    Checkpoints that read the same language come first, led by equal languages in the name, then by
    an equal first word; then the checkpoint itself; then other languages.

    Args: usable: metrics.json by name.
    """
    language = examples_for(checkpoint, usable.get(checkpoint)).language
    family, *languages = checkpoint.split("-")

    def rank(name: str) -> tuple[int, bool, bool, str]:
        if name == checkpoint:
            return 1, False, False, name
        if examples_for(name, usable[name]).language != language:
            return 2, False, False, name
        its_family, *its_languages = name.split("-")
        return 0, its_languages != languages, its_family != family, name

    return tuple(sorted(usable, key=rank))


def second_sentence(view: View) -> str:
    """Return B's sentence: the stored sentence, the example's counterpart, or A's sentence."""
    if url_state.stored(CompareChoice.second):
        return url_state.get(CompareChoice.second).strip()
    example = view.example
    return example.beside if example is not None and example.beside else view.sentence


_PAIRINGS = {"models": "Two models", "sentences": "Two sentences", "edits": "Original and edited"}


def draw_choice(setup: Setup) -> None:
    """Draw the controls for the comparison and for B."""
    row = st.container(horizontal=True, vertical_alignment="center")
    entries = {entry.name: entry for entry in current_entries() if entry.ok}
    titles = by_title(entries.values())

    def title(name: str) -> str:
        moment = None if name in titles else find(entries, name)
        return title_of(moment) if moment else titles.get(name, name)

    names = {pairing: _PAIRINGS[pairing] for pairing in setup.pairings}
    choose_one("Compare", CompareChoice.pairing, names, row, chosen=setup.pairing, wrap=False)
    if setup.pairing == "models":
        row.markdown(f"**A** {plain(shorten(title(setup.left.checkpoint), 40))}", width="content")
    about = "**A** the original · **B** the edited model" if setup.pairing == "edits" else "**B**"
    row.markdown(about, width="content")
    if setup.pairing == "models":
        row.selectbox(
            "Second model", setup.others, format_func=title, label_visibility="collapsed",
            **bound(CompareChoice.other, value=setup.right.checkpoint),
        )  # fmt: skip
    elif setup.pairing == "sentences":
        row.text_input(
            "Second sentence", max_chars=MAX_CHARACTERS, label_visibility="collapsed",
            **bound(CompareChoice.second, value=setup.right.sentence),
            placeholder="Type a second sentence, such as the first with one word changed",
        )  # fmt: skip
    if setup.refused:
        st.warning(
            f"The model {code(url_state.get(CompareChoice.other))} {setup.refused}; B is "
            f"{plain(title(setup.right.checkpoint))}.",
            icon=":material/info:",
        )
    if setup.right.entry.updates is not None and setup.right.entry.whole == setup.left.checkpoint:
        st.caption(finished_in_words(setup.right.entry))


def read_right(setup: Setup, left: Trace) -> Setup:
    """Compute B's trace and return the setup, or show an error and stop the run."""
    if setup.pairing == "sentences" and is_blank(setup.right.sentence):
        st.info("Type a second sentence above to compare it with the sentence in the sidebar.")
        url_state.write_url()
        st.stop()
    get_tracer(setup.right, "for B above")
    return with_left(setup, left)


#: A language in a recipe or a name: "de", "deu", "de_DE", "deu_Latn".
_CODE = re.compile(r"([a-z]{2,3})(?:[_-][A-Za-z]{2,4})?")


def target_language(view: View) -> str | None:
    """Return the model's target language, such as "de", or None if unknown."""
    if view.kind != "checkpoint" or view.examples.kind == "letters":
        return None
    match = _CODE.fullmatch(languages_of_training(view.entry.whole, view.entry.metrics)[1])
    return match[1] if match else None


def warning(setup: Setup) -> str:
    """Return a warning if A's text is not in B's target language, otherwise ""."""
    if not can_follow(setup.right):
        return ""
    here, there = (target_language(view) for view in setup.views)
    if here is None or there is None or here == there:
        return ""
    one, other = (code(key) if name_of(key) == key else name_of(key) for key in (here, there))
    return (
        f"A writes {one}, but B was trained to write {other}. B follows A's {one} text as its own "
        "translation, so its numbers are not meaningful."
    )
