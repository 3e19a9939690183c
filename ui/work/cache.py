"""What is computed once and shared by every session: models, and the traces of sentences.

Sessions hold keys only. A trace is kept in one cache bounded in bytes, its arrays read-only, and
two forward passes run at a time: small models gain nothing from more, and a classroom pressing
the button together is served in turn.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import streamlit as st
import torch

from figures.markdown import plain
from transformer.catalogue import mark_of
from transformer.errors import CheckpointError, InputError
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from ui.core import url_state
from ui.core.search_settings import ALPHA
from ui.core.view import View, is_blank
from ui.work.languages import told
from ui.work.models import tracer, translator
from ui.work.progress import DECODING, READING, Progress, attended, resume, stopped
from ui.work.roots import without_root
from ui.work.traces import TraceCache, TraceKey, hold

__all__ = [
    "PERMITS", "TRACES", "get_trace", "get_tracer", "get_translator", "key_of", "said", "trace",
    "trace_id", "tracer", "translator",
]  # fmt: skip

#: Bytes of traces kept. A sentence of 30 tokens through 6 layers of 8 heads takes about 1 MB with
#: its search record.
CACHE_BYTES = 256 * 2**20

#: The one cache of traces of this process, and the right to run a model.
TRACES = TraceCache(CACHE_BYTES)
PERMITS = threading.Semaphore(2)


def trace(key: TraceKey, report: Callable[[int, int], None]) -> Trace:
    """The trace of one sentence, from the cache or made now.

    Args:
        report: called with (step, most steps) while decoding and with (0, 0) while waiting for
            others. It may raise, which stops the work and leaves nothing behind.

    Raises: what `open_tracer` and `Tracer.trace` raise.
    """
    found = TRACES.get(key)
    if found is not None:
        return found
    model = tracer(Path(key.path), key.device)

    def waiting() -> None:
        report(0, 0)

    with TRACES.making(key, waiting):
        found = TRACES.get(key)
        if found is not None:
            return found
        with hold(PERMITS, waiting):
            steered = key.arguments(model.config.eos_id if isinstance(model, Translator) else -1)
            made = model.trace(key.sentence, **steered, progress=report)
            if made.search is not None and isinstance(model, Translator):
                n_steps = len(made.predicted_tokens)
                gap = model.forcing_gap(made, progress=lambda *_: report(n_steps, n_steps))
                made = dataclasses.replace(made, forcing_gap=gap)
        TRACES.put(key, made)
        return TRACES.get(key) or made


def key_of(view: View) -> TraceKey:
    """What the trace of a view is kept under."""
    searched = view.target is None
    sentence, src_lang, tgt_lang = told(
        view.path, view.device, view.kind, view.sentence, view.src_lang, view.tgt_lang
    )
    return TraceKey(
        path=str(view.path),
        mark=mark_of(view.path),
        device=view.device,
        sentence=sentence,
        beam_size=view.beam_size if searched else 1,
        # Only a beam compares translations of different length.
        alpha=view.alpha if view.beam_size > 1 and searched else ALPHA.default,
        prefix=view.prefix if searched else (),
        target=view.target,
        sampling=view.sampling if searched else None,
        src_lang=src_lang,
        tgt_lang=tgt_lang,
    )


def trace_id(view: View) -> str:
    """A short name for a view's trace, which components send back with their reports."""
    return hashlib.sha256(repr(key_of(view)).encode("utf-8", "replace")).hexdigest()[:16]


def get_translator(view: View) -> Translator:
    """The view's model. Where it cannot be loaded the page says why and the run ends."""
    with said(), st.spinner(f"Loading {plain(view.checkpoint)}"):
        return translator(view.path, view.device)


def get_tracer(view: View) -> Tracer:
    """What the view looks into, whatever it is. Like `get_translator` where it cannot be loaded."""
    with said(), st.spinner(f"Loading {plain(view.checkpoint)}"):
        return tracer(view.path, view.device)


def get_trace(view: View) -> Trace:
    """The view's trace, with progress shown and a way to stop.

    Where there is nothing to translate, the sentence is too long, the model cannot be loaded, or
    the user stopped, the page says so in one line and the run ends.
    """
    if is_blank(view.sentence) and view.kind != "archive":
        st.info(
            f"Nothing to translate yet. Type {view.examples.hint} on the left, or try an example.",
            icon=":material/edit:",
        )
        _end()
    key = key_of(view)
    end_where_stopped(key, "Translate this sentence")
    found = TRACES.get(key)
    if found is not None:
        return found
    get_tracer(view)
    progress = Progress(key, DECODING if view.target is None else READING)
    with said():
        return attended(lambda report: trace(key, report), progress)


def end_where_stopped(work: Hashable, again: str) -> None:
    """Where the user stopped this work: say so, offer it under the name `again`, end the run."""
    if stopped(work):
        st.info("Stopped.", icon=":material/stop_circle:")
        st.button(again, on_click=resume, key="resume_work")
        _end()


def _end() -> NoReturn:
    """End the run here. The frame does not come to write the URL then, so this does."""
    url_state.write_url()
    st.stop()


@contextmanager
def said() -> Iterator[None]:
    """Turn what may go wrong into one line on the page, and end the run there."""
    try:
        yield
        return
    except InputError as error:
        text = str(error)
        st.warning(plain(f"{text[:1].upper()}{text[1:]}."), icon=":material/short_text:")
    except CheckpointError as error:
        st.error(
            plain(without_root(str(error))) + ". Choose another checkpoint on the left.",
            icon=":material/error:",
        )
    except (MemoryError, torch.OutOfMemoryError):
        st.error(
            "There is not enough memory for this sentence on this device. "
            "Try a shorter one, a smaller beam, or the CPU.",
            icon=":material/memory:",
        )
    _end()
