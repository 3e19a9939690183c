"""A tour's questions and answers as a page to print."""

from base64 import b64encode
from html import escape

from figures.exhibit import Exhibit, Panel, Series
from figures.labels import KIND_NAMES, query_labels
from figures.paper import to_svg
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS
from ui.tours.stops import Scene, Settings, Tour, unmarked

_RULE = "<hr style='break-after: page; border: 0'>"
_STYLE = "<style>li { break-inside: avoid } img { max-width: 100% }</style>"


def sheet(tour: Tour, scene: Scene, address: str) -> str:
    """Return questions about a scene, and on a second sheet answers with pictures and links.

    Args: address: of the tour on this server, without the stop.
    """
    lists = ["", ""]
    for number, stop in enumerate(tour.stops, 1):
        facts = stop.facts(scene) if stop.facts else None
        asked = stop.asked(facts)
        boxes = "".join(f" \u2003□ {escape(option)}" for option in asked.options)
        right = escape(asked.options[asked.answer])
        link = escape(f"{address}&stop={number}")
        settings = {**stop.settings, **(facts.settings if facts else {})}
        picture = asked.picture(asked.beats) or map_of(settings, scene.trace)
        shown = "" if picture is None else _image(picture)
        lists[0] += f"<li>{escape(unmarked(asked.ask))}<p>{boxes}</li>"
        lists[1] += (
            f"<li><b>{right}</b>. {escape(unmarked(asked.because))}{shown}"
            f"<p><a href='{link}'>{escape(stop.title)}</a>: <small>{link}</small></li>"
        )
    body = _RULE.join(f"<ol>{items}</ol>" for items in lists)
    head = f"<!doctype html><meta charset=utf-8><title>{escape(tour.title)}</title>{_STYLE}"
    return f"{head}<h1>{escape(tour.title)}</h1>{body}"


def map_of(settings: Settings, trace: Trace) -> Panel | None:
    """Return the map of attention that settings name, or None if there is none."""
    kind = next((name for name in ATTENTION_KINDS if name == settings.get("kind")), None)
    if kind is None and {"step", "layer"} & settings.keys():
        kind = "cross"
    if kind is None:
        return None
    places = [settings.get(name, "mean") for name in ("layer", "head")]
    some = tuple(slice(None) if at == "mean" else slice(int(at) - 1, int(at)) for at in places)
    maps = trace.attention(kind)[some]
    if not maps.size:  # a head of the study's model
        return None
    keys = trace.tgt_tokens if kind == "decoder_self" else trace.src_tokens
    where = ", ".join(f"{name} {at}" for name, at in zip(("layer", "head"), places, strict=True))
    title = f"{KIND_NAMES[kind]}, {where}"
    weights, rows = maps.mean(axis=(0, 1)), query_labels(trace, kind)
    return Panel(title, weights, rows, tuple(keys), "query", "key")


def _image(picture: Panel | Series) -> str:
    code = b64encode(to_svg(Exhibit("picture", picture.title, "", (picture,)))).decode()
    return f"<p><img alt='{escape(picture.title)}' src='data:image/svg+xml;base64,{code}'>"
