"""The sidebar's choice of languages, for multilingual models."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from figures.markdown import code, plain
from ui.core import url_state
from ui.core.languages import NO_TAG, Languages, label_of, nearest_code, typed_tag
from ui.core.url_state import Param
from ui.core.view import SRC_LANG, TGT_LANG
from ui.core.widgets import bound
from ui.frame.decoding import restart
from ui.frame.steering import drop_steering


def draw_languages(found: Languages, sentence: str) -> None:
    """Draw the choices, and store languages that the model knows."""
    for param, codes, default, label in (
        (SRC_LANG, found.sources, found.source, "Source language"),
        (TGT_LANG, found.targets, found.target, "Target language"),
    ):
        if codes:
            _resolve(param, codes, default, found.tagged)
            url_state.show(param)
            _draw(param, codes, label, typed_tag(sentence) if found.tagged else "", found.tagged)


def _resolve(param: Param[str], codes: Sequence[str], default: str, tagged: bool) -> None:
    asked = url_state.get(param)
    if tagged and asked == NO_TAG:
        return
    near = nearest_code(codes, asked)
    if asked not in ("", NO_TAG) and not near:
        st.toast(
            f"The language {code(asked)} is not one of this model's; this is "
            f"{plain(label_of(default))}.",
            icon=":material/translate:",
        )
    url_state.put(param, near or default)


def _draw(param: Param[str], codes: Sequence[str], label: str, typed: str, tagged: bool) -> None:
    if tagged:
        about = (
            "This model translates into several languages. A tag in front of the sentence, one "
            "token, says into which; you may as well type it yourself."
        )
    elif param is SRC_LANG:
        about = "This model reads several languages. A token beside the sentence says which it is."
    else:
        about = (
            "This model writes several languages. The decoder is given the token of this one "
            "before it writes anything."
        )
    st.selectbox(
        label, [*([NO_TAG] if tagged else []), *codes], help=about, disabled=bool(typed),
        format_func=_shown, **bound(param, key=f"{param.name}_box", then=_start_anew),
    )  # fmt: skip
    if typed:
        st.caption(f"The sentence says it itself: {code(typed)}.")


def _start_anew() -> None:
    drop_steering()
    restart()


def _shown(choice: str) -> str:
    return "No tag: as typed" if choice == NO_TAG else label_of(choice)
