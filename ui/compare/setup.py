"""Controls at the top of Compare, and B's trace."""

import re

import streamlit as st

from figures.labels import code, plain, shorten
from transformer.models.catalogue import find
from transformer.trace.records import Trace
from ui.compare.choice import CompareChoice, can_follow, with_left
from ui.core import url_state
from ui.core.examples import by_title, languages_of_training, title_of
from ui.core.languages import name_of
from ui.core.view import MAX_CHARACTERS, View, current_entries, is_blank
from ui.core.widgets import bound, choose_one
from ui.frame.beside import Setup
from ui.frame.through_time import finished_in_words
from ui.work.desk import get_tracer

_PAIRINGS = {
    "models": "Two models", "sentences": "Two sentences", "edits": "Original and edited",
}  # fmt: skip


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
    if setup.pairing == "edits":
        row.markdown("**A** the original · **B** the edited model", width="content")
    else:
        row.markdown("**B**", width="content")
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
