"""The gallery: worked sentences as a folder of pages that needs no server.

Every page has views of `ui.export.html`, and a box that translates in the browser; scripts, styles
and models lie beside the pages. The front page has the whole model. See docs/hosting.md.
"""

import base64
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from figures.exhibit import Exhibit, Offline, file_stem
from figures.labels import show_token
from transformer.checkpoint.reference import split_name
from transformer.edits.language import parse_edits
from transformer.measures.heads import information
from transformer.trace.records import Trace
from transformer.trace.whole import record_whole
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, Bools, InputError
from ui.attention.maps import (
    AttentionChoice,
    clearest_head,
    drawing_of,
    maps_of,
    sheet_of,
    shown_map,
    tab_of,
)
from ui.beam.exhibits import search_tree
from ui.components.grid import Tab, grid_component
from ui.components.packing import pack
from ui.components.plan import PlanChoice, plan_component
from ui.components.player import PlayerPlace, player_component
from ui.export.html import Shared, shared_files, to_html
from ui.export.live import live_model, why_not_live
from ui.head.exhibits import HeadChoice, inside_head
from ui.positions.exhibits import content_and_position
from ui.work.roots import within_roots

#: The views that a page may have, in their order, with headings.
VIEWS = {
    "player": "The translation, step by step",
    "grid": "All layers and heads",
    "lines": "One head, as lines",
    "stages": "Inside a head",
    "tree": "The search",
    "plan": "The whole model",
    "parts": "Content and position in layer 1, head 1 of the encoder",
}
_SENTENCES = Path(__file__).with_name("gallery.toml")
_FRONT = (
    '<p class="caption">A Transformer at work: press Play, or click a block to open it. Below: '
    "worked sentences with every attention map.</p>"
)
_FRAME = """<iframe src="PAGE?embed=player" title="Headlight" width="100%" height="620" \
style="border: 0"></iframe>
<script>
addEventListener("message", ({ data, source }) => {
  for (const frame of document.querySelectorAll("iframe")) {
    if (frame.contentWindow === source && data.headlight) frame.height = data.height;
  }
});
</script>"""


@dataclass(frozen=True)
class Worked:
    """A worked sentence."""

    sentence: str
    checkpoint: str  # folder, with "@UPDATES" for a snapshot
    topic: str = "Your sentences"  # heading on the index
    title: str = ""  # link on the index; the sentence without one
    views: Sequence[str] = tuple(VIEWS)
    text: str = ""  # five sentences
    question: str = ""
    answer: str = ""  # folded
    edits: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The page's file stem."""
        return file_stem(self.title or self.sentence, self.checkpoint)


def read_sentences(path: Path, checkpoint: str = "") -> list[Worked]:
    """Read sentences: a .toml file like gallery.toml, or one sentence a line for a checkpoint.

    Raises: `InputError` naming the file and the fault.
    """
    try:
        text = path.read_text("utf-8")
        if path.suffix != ".toml":
            lines = filter(None, map(str.strip, text.splitlines()))
            return [Worked(line, checkpoint) for line in lines]
        rows: list[dict[str, Any]] = tomllib.loads(text)["sentences"]
        made = [Worked(**row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: {error}") from None
    for worked in made:
        if unknown := {*worked.views} - {*VIEWS}:
            raise InputError(f"{path}: view {min(unknown)!r} is not one of {', '.join(VIEWS)}")
    return made


def gallery(
    *, out: Annotated[Path, "DIR", "the folder to write"],
    sentences: Annotated[
        Path | None, "FILE", "one sentence a line, or a file like gallery.toml; default: its own"
    ] = None,
    checkpoint: Annotated[
        str, "NAME", "a checkpoint folder, for sentences that name none"
    ] = "everyday-en-de",
) -> Path:  # fmt: skip
    """Write worked sentences as pages that need no server. Returns: the index."""
    return write_gallery(out, read_sentences(sentences or _SENTENCES, checkpoint))


def write_gallery(out: Path, worked: Sequence[Worked]) -> Path:
    """Write the site, and return the path of its index.

    Raises: `InputError` for no sentences, or one that cannot be read; `CheckpointError`.
    """
    if not worked:
        raise InputError("there are no sentences to show")
    opened = cache(lambda name: Translator.load(_path(name), "cpu"))
    for folder in ("files", "models"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for name, content in shared_files().items():
        (out / "files" / name).write_bytes(content)
    for name in {split_name(one.checkpoint)[0] for one in worked}:
        if why_not_live(opened(name)) is None:
            (out / "models" / f"{opened(name).name}.js").write_bytes(live_model(opened(name)))
    names = ["", *(one.name for one in worked), ""]
    front = replace(worked[0], views=("plan",), text="", question="")
    pages = [("index", front, _FRONT, _links(worked))] + [
        (one.name, one, _navigation((names[at], names[at + 2])), _embedding())
        for at, one in enumerate(worked)
    ]
    for name, one, before, after in pages:
        live = opened(split_name(one.checkpoint)[0])
        page = page_of(
            one, opened(one.checkpoint).edited(*one.edits),
            live if why_not_live(live) is None else None, before, after,
        )  # fmt: skip
        (out / f"{name}.html").write_bytes(page)
    return out / "index.html"


def _path(name: str) -> Path:
    """Return a folder by its path, or its name in the app's folders of checkpoints."""
    return Path(name) if Path(split_name(name)[0]).is_dir() else within_roots(name)


def page_of(
    worked: Worked, model: Translator, live: Translator | None, before: str, after: str
) -> bytes:
    """Return the page of a sentence.

    Args:
        model: as its checkpoint and edits say.
        live: the model that the box runs; None for a page without a box.
        before, after: HTML above its box and below its views.
    """
    trace = model.trace(worked.sentence)
    off = [[edit.kind, edit.layer, edit.index] for edit in parse_edits(worked.edits)
           if edit.verb == "off" and edit.layer is not None and edit.index is not None]  # fmt: skip
    layer, head = clearest_head(trace, "cross", (None, None))
    query = int(information(trace.cross[layer, head]).argmax())
    place = HeadChoice("cross", layer, head, query)
    views = views_of(worked.views, model, trace, place, off if live else None)
    exhibit = Exhibit(
        name=worked.name,
        title=trace.source,
        caption=f"{trace.text} (checkpoint {worked.checkpoint}"
        f"{', ' + ', '.join(worked.edits) if worked.edits else ''}, score {trace.score:.2f})",
        parts=(shown_map(maps_of(trace, "cross", "tokens"), AttentionChoice("cross", "matrix"))
               .panel(),),
        offline=tuple(views),
    )  # fmt: skip
    settings = {"model": f"models/{live.name}.js" if live else "", "place": vars(place), "head": 0}
    return to_html(exhibit, Shared(
        before + (_box(settings, live, worked) if live else "") + _lesson(worked),
        after + _trace(trace, off),
    ))  # fmt: skip


def views_of(
    names: Sequence[str], model: Translator, trace: Trace, place: HeadChoice,
    off: list[list[Any]] | None,
) -> list[Offline]:  # fmt: skip
    """Return a page's views in their order; `off` are heads to switch, None for no switches."""
    maps = {kind: maps_of(trace, kind, "tokens") for kind in ATTENTION_KINDS}
    choice = AttentionChoice("cross", "grid", heads=((place.layer, place.head),))

    def player() -> list[Offline]:
        out = [(kind, layer, head) for kind, layer, head in off or ()]
        shown = player_component(
            trace, PlayerPlace(1), steerable=False, out=out, origin="Recorded with PyTorch"
        )
        return [shown.offline()]

    def grid() -> list[Offline]:
        tabs: dict[str, Tab] = {
            kind: tab_of(trace, kind, sheet_of(maps[kind], choice)) for kind in maps
        }
        switches: dict[str, Bools] | None = None
        if off is not None:
            switches = {kind: np.zeros(trace.attention(kind).shape[:2], np.bool_) for kind in maps}
            for kind, layer, head in off:
                switches[kind][layer, head] = True
        shown = grid_component(tabs, choice.cell, "cross", off=switches)
        return [shown.offline(), shown_map(maps["cross"], choice).lens().offline()]

    def plan() -> list[Offline]:
        whole = record_whole(model.model, model.tokenizer.target, trace)
        return [plan_component(whole, trace, model.config, PlanChoice(0, 0, "")).offline()]

    makers: dict[str, Callable[[], list[Offline]]] = {
        "player": player,
        "grid": grid,
        "lines": lambda: [drawing_of(maps["cross"], choice).component().offline()],
        "stages": lambda: [*inside_head(model, trace, **vars(place)).views],
        "tree": lambda: [*search_tree(trace).views],
        "plan": plan,
        "parts": lambda: [*content_and_position(model, trace).views],
    }
    views = []
    for name, title in VIEWS.items():
        if name in names:
            first, *rest = makers[name]()
            views += [replace(first, title=title), *rest]
    return views


def _trace(trace: Trace, off: list[list[Any]]) -> str:
    """Return the element with a trace's tokens and maps, by the names of its NPZ file."""
    names = (
        "source", "text", "src_tokens", "tgt_tokens", "predicted_tokens", "src_ids", "tgt_ids",
        "predicted_ids", "complete",
    )  # fmt: skip
    maps = [trace.attention(kind) for kind in ATTENTION_KINDS]
    sizes = [[kind, list(map_.shape)] for kind, map_ in zip(ATTENTION_KINDS, maps, strict=True)]
    header = {name: getattr(trace, name) for name in names} | {"maps": sizes, "off": off}
    body = b"".join(np.ascontiguousarray(map_, "<f4").tobytes() for map_ in maps)
    text = base64.b64encode(pack(header, body)).decode()
    return f'<script type="application/octet-stream" id="trace">{text}</script>'


def _box(settings: Mapping[str, Any], live: Translator, worked: Worked) -> str:
    same = live.name == worked.checkpoint
    note = "" if same else f" It runs {escape(live.name)}, the finished model."
    return (
        f'<form class="live" data-live="{escape(json.dumps(settings))}">'
        '<label for="sentence">Your own sentence</label>'
        '<div><input id="sentence" name="sentence" maxlength="1000" autocomplete="off" required '
        f'value="{escape(worked.sentence)}" translate="no"><button>Translate</button></div>'
        f'<p class="live-says" role="status">Translated in this browser, into every view '
        f"below.{note}</p></form>"
    )


def _lesson(worked: Worked) -> str:
    text = f"<p>{escape(worked.text)}</p>" if worked.text else ""
    if worked.question:
        text += (
            f"<details><summary>{escape(worked.question)}</summary>"
            f"<p>{escape(worked.answer)}</p></details>"
        )
    return f'<section class="lesson" aria-label="What to see">{text}</section>' if text else ""


def _navigation(near: tuple[str, str]) -> str:
    links = ['<a href="index.html">All sentences</a>']
    links += [f'<a href="{name}.html" rel="{rel}">{word}</a>' for name, rel, word in
              zip(near, ("prev", "next"), ("Previous", "Next"), strict=True) if name]  # fmt: skip
    return f'<nav aria-label="Gallery">{"".join(links)}</nav>'


def _embedding() -> str:
    return (
        "<details><summary>One view in another page</summary>"
        f"<p>Other views: {', '.join(f'embed={name}' for name in VIEWS)}.</p>"
        '<textarea class="frame" readonly rows="9" aria-label="Frame to copy">'
        f"{escape(_FRAME)}</textarea></details>"
    )


def _links(worked: Sequence[Worked]) -> str:
    sections = []
    for topic in dict.fromkeys(one.topic for one in worked):
        links = "".join(
            f'<li><a href="{one.name}.html">{escape(show_token(one.title or one.sentence, 200))}'
            f"</a><span>{escape(one.sentence) if one.title else ''}</span></li>"
            for one in worked if one.topic == topic
        )  # fmt: skip
        sections.append(
            f'<section><h2>{escape(topic)}</h2><ul class="index">{links}</ul></section>'
        )
    return "".join(sections)
