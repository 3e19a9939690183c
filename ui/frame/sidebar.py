"""The sidebar of all pages: sentence, checkpoint, device and decoding.

`draw_sidebar` draws it and `current_view` returns its settings. Widgets are filled from the
session's store and write to it (see `ui.core.url_state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import streamlit as st
import torch

from figures.labels import code, parameters, plain, shorten
from transformer.config import ModelConfig
from transformer.device import available_devices
from transformer.models.catalogue import Entry, ModelRef
from transformer.search.request import Decoding, default_decoding
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
    TASK,
    TGT_LANG,
    SearchChoice,
    View,
    asked_for,
    count_asked,
    keep_view,
)
from ui.core.widgets import bound, draw_text, fill
from ui.frame import steering
from ui.frame.editing import draw_box
from ui.frame.page import link_to
from ui.frame.steering import draw_decoding, restart
from ui.frame.through_time import draw_switch
from ui.work.languages import recorded_sentence, spoken_by, tagged, writes
from ui.work.results import once, resolve

#: Maximum parameters of a "small model": half the paper's base model.
SMALL = 30_000_000
#: Entry without a checkpoint.
_NOTHING = Entry("", ModelRef(Path()))


class About(NamedTuple):
    """Facts from a model's files, cached until they change."""

    examples: Examples
    decoding: Decoding  # the model's defaults
    caption: str  # size and training
    tags: Languages  # languages with tags in a checkpoint's vocabulary

    @classmethod
    def of(cls, entry: Entry) -> About:
        """Return the facts for an entry."""

        def read() -> About:
            config, metrics = entry.config, entry.metrics
            caption = model_caption(entry, config) if config else plain(entry.about)
            tags = tagged(entry.ref.folder) if config else Languages()
            return cls(examples_for(entry.name, metrics), default_decoding(metrics), caption, tags)

        return once(("about", entry.ref.edited(""), entry.name), read)


def languages_of(entry: Entry, device: str) -> Languages:
    """Return a model's languages; loads a model of the `transformers` library."""
    return spoken_by(entry, device) if entry.kind == "huggingface" else About.of(entry).tags


_KIND = "headlight_kind"


def draw_sidebar(asks: bool) -> View:
    """Draw the shared controls, and keep their settings for `current_view`.

    Args: asks: False hides sentence and decoding, on pages that do not use them.
    """
    name = url_state.get(CHECKPOINT)
    model, reason, listing = resolve(name)
    usable = {entry.name: entry for entry in listing if entry.ok}
    if model is not None and reason:
        text = f"The model {code(name)} {reason}; this is {code(model.name)}."
        st.toast(text, icon=":material/info:")
        steering.drop_ids()
    if model is None or model.name != name:
        url_state.put(CHECKPOINT, "" if model is None else model.name)
    entry = model or _NOTHING
    listed = tuple((entry.ref, entry.name) for entry in usable.values())
    titles = once(("titles", listed), lambda: by_title(usable.values()))
    view = (
        _draw_archive(entry, titles)
        if entry.kind == "archive"
        else _draw_model(entry, titles, asks)
    )
    keep_view(view, listing)
    return view


def _draw_model(entry: Entry, titles: Mapping[str, str], asks: bool) -> View:
    ours, about = entry.kind == "checkpoint", About.of(entry)
    before = _resolve_sentence(about.examples, entry.name)
    if (sentence := asked_for()) is not None:
        _ask(sentence)
    url_state.show(SENTENCE, CHECKPOINT)
    with st.sidebar:
        if asks:
            _draw_sentence(about.examples, _verb(entry, about.examples))
        if before:
            st.caption(f"Another sentence: this model reads {about.examples.hint}.")
            st.button(
                "Undo: back to the model before", icon=":material/undo:", type="tertiary",
                key="undo_toy", on_click=steering.use_checkpoint, args=(before,),
            )  # fmt: skip
        if entry.prefixes:
            _draw_task(entry, visible=asks)
        entry = _draw_checkpoint(titles, entry, about.caption)
        place = st.container()
        devices = available_devices()
        device = devices[0] if len(devices) == 1 else _draw_device(devices)
        languages = languages_of(entry, device)
        if languages.sources or languages.targets:
            with place:
                _draw_languages(languages, url_state.get(SENTENCE))
        decodes = ours or writes(entry, device)
        if decodes:
            draw_decoding(about.decoding, samples=ours, visible=asks)
        if ours:
            steering.draw_steering(SENTENCE, visible=asks)
    search = SearchChoice.read()
    return View(
        entry=entry,
        device=device,
        sentence=url_state.get(SENTENCE),
        beam_size=search.beam_size(samples=ours) if decodes else 1,
        alpha=search.alpha if decodes else SearchChoice().alpha,
        prefix=url_state.get(steering.PREFIX) if ours else (),
        target=url_state.get(steering.TARGET) if ours else None,
        sampling=search.sampling if ours else None,
        src_lang=url_state.get(SRC_LANG) if languages.sources else "",
        tgt_lang=url_state.get(TGT_LANG) if languages.targets else "",
        languages=languages,
        task=url_state.get(TASK) if entry.prefixes else "",
    )


def _draw_archive(entry: Entry, titles: Mapping[str, str]) -> View:
    """Draw the sentence of a file of arrays, which takes no other."""
    sentence = recorded_sentence(entry)
    url_state.show(CHECKPOINT)
    with st.sidebar:
        if sentence is not None:
            st.caption("The sentence in this file")
            draw_text(shorten(sentence, 240) or "(without a text)", "")
        entry = _draw_checkpoint(titles, entry, plain(entry.about))
        st.caption(
            ":material/dataset: Read from a file of arrays; no model runs, so there is no other "
            "sentence."
        )
    return View(entry, "cpu", sentence or "", beam_size=1)


def device_label(device: str) -> str:
    """Return a device's display name."""
    if device == "cpu":
        return "CPU"
    return f"GPU · {torch.cuda.get_device_name(torch.device(device))}"


def _resolve_sentence(examples: Examples, name: str) -> str:
    """Store a sentence that this kind of checkpoint can read; return whose sentence it replaces.

    Checkpoints of one kind share the sentence. A change of kind, such as from sentences to letter
    strings, restores the last sentence typed for that kind.
    """
    sentences: dict[str, str] = st.session_state.setdefault(_KIND, {"now": examples.kind})
    url_state.get(SENTENCE)  # drops an invalid one
    stored, opening = url_state.stored(SENTENCE), examples.items[0].sentence
    changed = stored and sentences["now"] != examples.kind and not url_state.arrived(SENTENCE)
    if changed:
        steering.drop_steering()
        sentences[f"last {sentences['now']}"] = url_state.get(SENTENCE)
        opening = sentences.get(f"last {examples.kind}", opening)
        back = sentences.get("before") == name
        sentences["before"] = "" if back else sentences["model"]
    if changed or not stored:
        url_state.put(SENTENCE, opening)
    sentences |= {"now": examples.kind, "model": name}
    return sentences.get("before", "")


def _verb(entry: Entry, examples: Examples) -> str:
    """Return what the model does with a sentence, for the button."""
    verbs = {"letters": "Reverse", "trees": "Parse", "continue": "Continue", "fill": "Fill in"}
    return verbs.get(entry.stack.task if entry.stack else examples.kind, "Translate")


def _draw_sentence(examples: Examples, verb: str) -> None:
    fill("sentence_box", url_state.get(SENTENCE))
    with st.form("sentence_form", border=False):
        st.text_area(
            "Sentence", key="sentence_box", height=108, max_chars=MAX_CHARACTERS,
            placeholder=f"Type {examples.hint}",
        )  # fmt: skip
        st.form_submit_button(
            verb, type="primary", width="stretch",
            on_click=lambda: _ask(st.session_state["sentence_box"]),
            icon=":material/arrow_forward:",
            help="Or Ctrl + Enter in the text; ⌘ + Enter on a Mac.",
        )  # fmt: skip
    st.selectbox(
        "Examples", [item.sentence for item in examples.items], index=None, key="example_box",
        placeholder="Try an example", label_visibility="collapsed", on_change=_take_example,
        format_func=lambda sentence: shorten(sentence, 80),
    )  # fmt: skip


def _draw_task(entry: Entry, *, visible: bool) -> None:
    """Draw the choice of a task's prefix, and a note if the model reads none."""
    if url_state.get(TASK) not in entry.prefixes:
        url_state.put(TASK, "")
    url_state.show(TASK)
    if not visible:
        return
    task = st.selectbox(
        "Task prefix", ["", *entry.prefixes],
        help="The text before the sentence names the task. You can also type it yourself.",
        format_func=lambda name: plain(shorten(entry.prefixes.get(name, "No prefix"), 60)),
        **bound(TASK, key="task_box", then=_take_language),
    )  # fmt: skip
    if not task and (note := entry.lacks_prefix(url_state.get(SENTENCE))):
        st.caption(f"{plain(note)}.")


def _ask(sentence: str) -> None:
    count_asked()
    st.session_state[_KIND]["before"] = ""
    url_state.put(SENTENCE, sentence)
    steering.drop_steering()
    restart()


def _take_example() -> None:
    chosen = st.session_state["example_box"]
    if chosen is not None:
        st.session_state["example_box"] = None
        _ask(chosen)


def _changed_checkpoint() -> None:
    steering.use_checkpoint(url_state.get(CHECKPOINT))


def _draw_checkpoint(titles: Mapping[str, str], entry: Entry, caption: str) -> Entry:
    """Draw the choice of a model and its edits; return the edited model."""
    if not entry.name:
        _draw_models_link()
        return entry
    st.selectbox(
        "Model", list(titles), help=term("checkpoint"), format_func=titles.__getitem__,
        **bound(CHECKPOINT, "checkpoint_box", _changed_checkpoint, entry.whole),
    )  # fmt: skip
    if caption:
        st.caption(caption)
    draw_switch(entry)
    edited = draw_box(entry)
    _draw_models_link()
    return edited


def model_caption(entry: Entry, config: ModelConfig) -> str:
    """Return a caption on a model's size and, if known, its training text."""
    shape = f"{config.n_encoder_layers}+{config.n_decoder_layers} layers, {config.heads_in_words}"
    size = f"{parameters(config.n_parameters)} parameters"
    text = entry.training_text
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


def _draw_languages(languages: Languages, sentence: str) -> None:
    """Draw the language boxes, and store languages that the model supports."""
    reads = "This model reads several languages. A token beside the sentence names the language."
    writes = "This model writes several languages. The decoder starts with this language's token."
    if languages.tagged:
        writes = (
            "This model translates into several languages. A tag before the sentence, one token, "
            "names the target language. You can also type it yourself."
        )
    typed = typed_tag(sentence) if languages.tagged else ""
    for param, codes, default, label, about in (
        (SRC_LANG, languages.sources, languages.source, "Source language", reads),
        (TGT_LANG, languages.targets, languages.target, "Target language", writes),
    ):
        if not codes:
            continue
        options = [*([NO_TAG] if languages.tagged else []), *codes]
        stored = url_state.get(param)
        near = nearest_code(options, stored)
        if stored not in ("", NO_TAG) and not near:
            instead = f"this is {plain(label_of(default))}."
            st.toast(
                f"This model has no language {code(stored)}; {instead}", icon=":material/translate:"
            )
        url_state.put(param, near or default)
        url_state.show(param)
        st.selectbox(
            label, options, help=about, disabled=bool(typed),
            format_func=lambda code: "No tag: as typed" if code == NO_TAG else label_of(code),
            **bound(param, key=f"{param.name}_box", then=_take_language),
        )  # fmt: skip
        if typed:
            st.caption(f"Set by the tag in the sentence: {code(typed)}.")


def _take_language() -> None:
    steering.drop_steering()
    restart()
