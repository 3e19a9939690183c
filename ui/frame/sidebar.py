"""The sidebar that all pages share: sentence, checkpoint, device and decoding.

`draw_sidebar` draws it, and `current_view` returns the choices. The session's store is the source
of truth (see `ui.core.url_state`): widgets are filled from it and write to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import streamlit as st
import torch

from figures.labels import code, parameters, plain, shorten
from transformer.checkpoint.folder import training_text
from transformer.config import ModelConfig
from transformer.device import available_devices
from transformer.models.catalogue import Entry, ModelRef, find
from transformer.search.decoding import Decoding, default_decoding
from ui.core import url_state
from ui.core.examples import Examples, by_title, examples_for
from ui.core.glossary import term
from ui.core.languages import NO_TAG, Languages, label_of, nearest_code, typed_tag
from ui.core.view import (
    CHECKPOINT,
    DEVICE,
    MAX_CHARACTERS,
    SENTENCE,
    SRC_LANG,
    TGT_LANG,
    SearchChoice,
    View,
    asked_for,
    count_asked,
    keep_view,
)
from ui.core.widgets import bound, fill, filled
from ui.frame.decoding import draw_decoding, restart
from ui.frame.editing import draw_box, edited
from ui.frame.page import link_to
from ui.frame.steering import (
    PREFIX,
    TARGET,
    draw_steering,
    drop_ids,
    drop_steering,
    use_checkpoint,
)
from ui.frame.through_time import draw_switch
from ui.work.desk import recorded_sentence, writes
from ui.work.languages import languages_of
from ui.work.models import default_name, entries, fresh
from ui.work.results import once

#: Largest number of parameters of a "small model": half of the paper's base.
SMALL = 30_000_000
#: The entry when there is no checkpoint.
_NOTHING = Entry("", ModelRef(Path()))


class About(NamedTuple):
    """Answers of a model's files, remembered as long as they do not change."""

    examples: Examples  # sentences that it can read
    decoding: Decoding  # its defaults
    caption: str  # its size and training, "" without a config

    @classmethod
    def of(cls, entry: Entry) -> About:
        """Return the answers for an entry."""

        def read() -> About:
            config, metrics = entry.config, entry.metrics
            caption = model_caption(entry, config) if config else plain(entry.about)
            return cls(examples_for(entry.name, metrics), default_decoding(metrics), caption)

        return once(("about", entry.ref, entry.name), read)


_KIND = "headlight_kind"


def draw_sidebar(asks: bool) -> View:
    """Draw the shared controls, and keep their values for `current_view`.

    Args: asks: False on a page for which the sentence does nothing; it and its decoding stay away.
    """
    found = entries()
    usable = {entry.name: entry for entry in found if entry.ok}
    entry = edited(_resolve_checkpoint(usable, found))
    listed = tuple((entry.ref, entry.name) for entry in usable.values())
    titles = once(("titles", listed), lambda: by_title(usable.values()))
    view = (
        _draw_archive(entry, titles)
        if entry.kind == "archive"
        else _draw_model(entry, titles, asks)
    )
    keep_view(view, found)
    return view


def _draw_model(entry: Entry, titles: Mapping[str, str], asks: bool) -> View:
    chosen, ours, about = entry.name, entry.kind == "checkpoint", About.of(entry)
    _resolve_sentence(about.examples)
    if (asked := asked_for()) is not None:
        _ask(asked)
    url_state.show(SENTENCE, CHECKPOINT)
    with st.sidebar:
        if asks:
            _draw_sentence(about.examples)
        _draw_checkpoint(titles, entry, about.caption)
        place = st.container()
        devices = available_devices()
        device = devices[0] if len(devices) == 1 else _draw_device(devices)
        known = languages_of(entry, device) if chosen else Languages()
        if known.sources or known.targets:
            with place:
                _draw_languages(known, url_state.get(SENTENCE))
        decodes = ours or writes(entry, device)
        if decodes:
            draw_decoding(about.decoding, samples=ours, shown=asks)
        if ours:
            draw_steering(SENTENCE, shown=asks)
    search = SearchChoice.read()
    return View(
        entry=entry,
        device=device,
        sentence=url_state.get(SENTENCE),
        beam_size=search.beam_size(samples=ours) if decodes else 1,
        alpha=search.alpha if decodes else SearchChoice().alpha,
        prefix=url_state.get(PREFIX) if ours else (),
        target=url_state.get(TARGET) if ours else None,
        sampling=search.sampling if ours else None,
        src_lang=url_state.get(SRC_LANG) if known.sources else "",
        tgt_lang=url_state.get(TGT_LANG) if known.targets else "",
        languages=known,
    )


def _draw_archive(entry: Entry, titles: Mapping[str, str]) -> View:
    """Draw the sentence of a file of arrays, which takes no other."""
    sentence = recorded_sentence(entry)
    url_state.show(CHECKPOINT)
    with st.sidebar:
        if sentence is not None:
            st.caption("The sentence in this file")
            st.text(shorten(sentence, 240) or "(without a text)")
        _draw_checkpoint(titles, entry, plain(entry.about))
        st.caption(
            ":material/dataset: Read from a file of arrays; no model runs, so there is no other "
            "sentence."
        )
    return View(entry, "cpu", sentence or "", beam_size=1)


def device_label(device: str) -> str:
    """Return a device in words."""
    if device == "cpu":
        return "CPU"
    return f"GPU · {torch.cuda.get_device_name(torch.device(device))}"


def _resolve_checkpoint(usable: Mapping[str, Entry], found: Sequence[Entry]) -> Entry:
    """Return the requested checkpoint or snapshot, else the default, else the first."""
    asked = url_state.get(CHECKPOINT)
    if (entry := usable.get(asked) or find(usable, asked)) is not None:
        return fresh(entry)
    broken = any(entry.name == asked for entry in found)
    whole = asked.rpartition("@")[0]
    fallback = whole if whole in usable and not broken else default_name(usable)
    if asked and fallback:
        why = "cannot be used" if broken else "is not here"
        st.toast(
            f"The model {code(asked)} {why}; this is {code(fallback)}.",
            icon=":material/info:",
        )
    if asked and fallback:
        drop_ids()
    url_state.put(CHECKPOINT, fallback)
    return fresh(usable[fallback]) if fallback else _NOTHING


def _resolve_sentence(examples: Examples) -> None:
    """Store a sentence that this kind of checkpoint can read.

    Checkpoints of one kind share the sentence. Models of letter strings and models of sentences
    each get back the last one typed for their kind.
    """
    kept: dict[str, str] = st.session_state.setdefault(_KIND, {"now": examples.kind})
    url_state.get(SENTENCE)  # drops an invalid one
    stored, opening = url_state.stored(SENTENCE), examples.items[0].sentence
    changed = stored and kept["now"] != examples.kind and not url_state.arrived(SENTENCE)
    if changed:
        drop_steering()
        kept[f"last {kept['now']}"] = url_state.get(SENTENCE)
        opening = kept.get(f"last {examples.kind}", opening)
    if changed or not stored:
        url_state.put(SENTENCE, opening)
    kept["now"] = examples.kind


def _draw_sentence(examples: Examples) -> None:
    fill("sentence_box", url_state.get(SENTENCE))
    with st.form("sentence_form", border=False):
        st.text_area(
            "Sentence", key="sentence_box", height=108, max_chars=MAX_CHARACTERS,
            placeholder=f"Type {examples.hint}",
        )  # fmt: skip
        st.form_submit_button(
            "Translate", type="primary", width="stretch",
            on_click=lambda: _ask(st.session_state["sentence_box"]),
            icon=":material/arrow_forward:",
            help="Or Ctrl + Enter in the text; ⌘ + Enter on a Mac.",
        )  # fmt: skip
    st.selectbox(
        "Examples", [item.sentence for item in examples.items], index=None, key="example_box",
        placeholder="Try an example", label_visibility="collapsed", on_change=_take_example,
        format_func=lambda sentence: shorten(sentence, 80),
    )  # fmt: skip


def _ask(sentence: str) -> None:
    count_asked()
    url_state.put(SENTENCE, sentence)
    drop_steering()
    restart()


def _take_example() -> None:
    chosen = st.session_state["example_box"]
    if chosen is not None:
        st.session_state["example_box"] = None
        _ask(chosen)


def _draw_checkpoint(titles: Mapping[str, str], entry: Entry, caption: str) -> None:
    if not entry.name:
        _draw_models_link()
        return
    st.selectbox(
        "Model", list(titles), help=term("checkpoint"), format_func=titles.__getitem__,
        **filled("checkpoint_box", entry.whole, use_checkpoint),
    )  # fmt: skip
    if caption:
        st.caption(caption)
    draw_switch(entry)
    draw_box(entry)
    _draw_models_link()


def model_caption(entry: Entry, config: ModelConfig) -> str:
    """Return a caption on a model's size, and on its training if that text is known."""
    shape = f"{config.n_encoder_layers}+{config.n_decoder_layers} layers, {config.heads_in_words}"
    size = f"{parameters(config.n_parameters)} parameters"
    text = training_text(entry.metrics)
    if text is None or config.n_parameters > SMALL:
        return f"{examples_for(entry.name, entry.metrics).task.capitalize()}. {shape}, {size}."
    return (
        f"Small model ({size}), trained on {text.kind}; mistakes are part of the lesson. {shape}."
    )


def _draw_models_link() -> None:
    link_to("models", "All models, and your own")


def _draw_device(available: tuple[str, ...]) -> str:
    device = url_state.get(DEVICE)
    if device not in available:
        device = available[0]
        url_state.put(DEVICE, device)
    url_state.show(DEVICE)
    st.selectbox(
        "Device", available, format_func=device_label,
        **bound(DEVICE, key="device_box", then=restart),
    )  # fmt: skip
    return device


def _draw_languages(found: Languages, sentence: str) -> None:
    """Draw the choices of languages, and store those that the model knows."""
    reads = "This model reads several languages. A token beside the sentence says which it is."
    writes = "This model writes several languages. The decoder starts with the token of this one."
    if found.tagged:
        writes = (
            "This model translates into several languages. A tag in front of the sentence, one "
            "token, says into which; you may as well type it yourself."
        )
    typed = typed_tag(sentence) if found.tagged else ""
    for param, codes, default, label, about in (
        (SRC_LANG, found.sources, found.source, "Source language", reads),
        (TGT_LANG, found.targets, found.target, "Target language", writes),
    ):
        if not codes:
            continue
        options = [*([NO_TAG] if found.tagged else []), *codes]
        asked = url_state.get(param)
        near = nearest_code(options, asked)
        if asked not in ("", NO_TAG) and not near:
            known = f"this is {plain(label_of(default))}."
            st.toast(
                f"The language {code(asked)} is not one of this model's; {known}",
                icon=":material/translate:",
            )
        url_state.put(param, near or default)
        url_state.show(param)
        st.selectbox(
            label, options, help=about, disabled=bool(typed),
            format_func=lambda code: "No tag: as typed" if code == NO_TAG else label_of(code),
            **bound(param, key=f"{param.name}_box", then=_take_language),
        )  # fmt: skip
        if typed:
            st.caption(f"Set by the sentence's own tag: {code(typed)}.")


def _take_language() -> None:
    drop_steering()
    restart()
