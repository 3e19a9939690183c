import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from figures.exhibit import Offline
from figures.labels import KIND_NAMES
from figures.palette import to_weight_bytes
from tests.browser import waiting
from tests.browser.pixels import until_the_grid_shows
from tests.browser.test_downloads import open_offline
from tests.browser.waiting import SENTENCE, at_rest, eventually, until_idle, until_the_url_says
from tests.browser.wire import Wire
from tests.figures.exhibits import exhibit, hostile_panel
from tests.tiny_models import sentence_of
from transformer.measures.heads import widen
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.attention.maps import ABOUT
from ui.components.grid import Tab, grid_component, grid_sheet, shrink
from ui.components.lens import Map
from ui.export.html import save

#: Opens the grid with these settings.
OpenGrid = Callable[..., tuple[Page, Wire]]
ENCODER, DECODER, CROSS = (KIND_NAMES[kind] for kind in ("encoder_self", "decoder_self", "cross"))


@pytest.fixture
def open_page(wired: tuple[Page, Wire], address: str) -> Iterator[OpenGrid]:
    page, wire = wired

    def opened(**query: str) -> tuple[Page, Wire]:
        words = "&".join(f"{k}={quote(v)}" for k, v in {"sentence": SENTENCE, **query}.items())
        if page.url.startswith(f"{address}/attention"):
            waiting.follow(page, f"{address}/attention?{words}")
        else:
            page.goto(f"{address}/attention?{words}")
        expect(page.locator("canvas.cells")).to_be_visible()
        until_idle(page)
        return page, wire

    yield opened
    wire.holding = False
    assert not wire.wrong


def shows(page: Page, name: str, cell: str) -> None:
    table = page.locator(".grid .table")
    expect(table).to_have_attribute("aria-label", f"{name}, all layers and heads")
    expect(page.locator(".kind[aria-checked=true]")).to_have_accessible_name(name)
    outlined = page.locator("button.map[aria-selected=true]")
    expect(outlined).to_have_attribute("aria-label", waiting.starting_with(f"{cell}:"))


def test_a_tab_draws_before_the_server_answers(open_page: OpenGrid, trace: Trace) -> None:
    page, wire = open_page(kind="cross", layer="3", head="2")
    shows(page, CROSS, "Layer 3, head 2")
    wire.hold()
    page.get_by_role("radio", name=ENCODER).click()
    # The encoder has no third layer: the cell is the head's mean, and the third layer is kept.
    shows(page, ENCODER, "Head 2, mean over layers")
    wide = widen(trace.encoder_self)
    expect(page.locator("button.map")).to_have_count(wide.shape[0] * wide.shape[1])
    for row, column in [(0, 0), (1, 2), (2, 3)]:
        until_the_grid_shows(page, row, column, wide[row, column])
    assert not wire.arrived
    assert "kind=cross" in page.url

    wire.release()
    until_the_url_says(page, kind="encoder_self", layer="3", head="2")
    expect(page.get_by_text("Head 2, mean over layers", exact=True)).to_be_visible()
    expect(page.get_by_text(ABOUT["encoder_self"][:40])).to_be_visible()
    shows(page, ENCODER, "Head 2, mean over layers")
    eventually(page, lambda: wire.carries(b"headlight.lens") > 0, True)
    assert not waiting.at_rest(page, lambda: wire.carries(b"headlight.grid.left")), (
        "the grid was sent again"
    )

    page.get_by_role("radio", name=CROSS).click()
    shows(page, CROSS, "Layer 3, head 2")
    until_the_url_says(page, kind="cross", layer="3", head="2")
    expect(page.get_by_text("Layer 3, head 2", exact=True)).to_be_visible()
    assert not waiting.at_rest(page, lambda: wire.carries(b"headlight.grid.left"))


def test_of_several_arrow_keys_the_last_wins(open_page: OpenGrid) -> None:
    page, wire = open_page(kind="cross", layer="1", head="1")
    waiting.note(page.locator(".grid"), ".table", "aria-label")
    page.get_by_role("radio", name=CROSS).focus()
    wire.hold()
    for key in ("ArrowRight", "ArrowDown", "End", "ArrowLeft", "Home", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    shows(page, DECODER, "Layer 1, head 1")
    expect(page.get_by_role("radio", name=DECODER)).to_be_focused()
    wire.release()
    expect(page.get_by_text(ABOUT["decoder_self"][:40])).to_be_visible()
    for key in ("ArrowLeft", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    until_the_url_says(page, kind="encoder_self")
    expect(page.get_by_text(ABOUT["encoder_self"][:40])).to_be_visible()
    shows(page, ENCODER, "Layer 1, head 1")
    expect(page.get_by_role("radio", name=ENCODER)).to_be_focused()
    order = [CROSS, ENCODER, DECODER, CROSS, DECODER, ENCODER, CROSS, DECODER]
    order += [ENCODER, DECODER, ENCODER]
    seen = waiting.at_rest(page, lambda: waiting.noted(page.locator(".grid")))
    # A slow browser draws fewer: what is chosen again before it was unpacked is never on screen.
    rest = iter(f"{name}, all layers and heads" for name in order)
    assert all(each in rest for each in seen), f"{seen} does not keep to the order of the keys"
    page.keyboard.press("Tab")  # the tabs are one stop
    expect(page.get_by_role("gridcell", name="Layer 1, head 1:")).to_be_focused()


def test_much_comes_kind_by_kind_and_shows_the_largest_weights(
    open_page: OpenGrid, tiny_translator: Translator
) -> None:
    long = sentence_of(tiny_translator.tokenizer, 512)
    link = {"kind": "encoder_self", "layer": "1", "head": "2", "combine": "max"}
    page, wire = open_page(sentence=long, target=long, **link)
    shows(page, ENCODER, "Layer 1, head 2")
    wire.hold()
    for name in (DECODER, CROSS):
        page.get_by_role("radio", name=name).click()
    expect(page.get_by_role("radio", name=CROSS)).to_have_attribute("aria-checked", "true")
    expect(page.locator(".stage[aria-busy=true]")).to_have_count(1)
    table = page.locator(".grid .table")
    expect(table).to_have_attribute("aria-label", waiting.starting_with(ENCODER))
    wire.release()
    shows(page, CROSS, "Layer 1, head 2")
    expect(page.locator(".stage[aria-busy=false]")).to_have_count(1)
    wide = to_weight_bytes(widen(tiny_translator.trace(long, target=long).cross, "max"))
    for row, column in [(0, 0), (0, 3), (3, 1), (3, 3)]:
        until_the_grid_shows(page, row, column, shrink(wide[row, column], ())[0])


def test_tabs_work_without_a_server(browser: Browser, tmp_path: Path, trace: Trace) -> None:
    tabs, follows = {}, {}
    for kind in ("encoder_self", "cross"):
        maps, (rows, columns) = trace.attention(kind), trace.axis_tokens(kind)  # type: ignore[arg-type]
        sheet = grid_sheet(maps, rows, columns, label=f"{kind}, all layers and heads")
        tabs[kind] = Tab(kind, kind, sheet)
        chosen = (("[0,1", maps[0, 1]), ("[2,1", maps[-1, 1]), ("[null,1", maps[0, 0]))
        for cell, weights in chosen:
            shown = Map(weights, rows, columns, f"{kind} {cell}", "t", "s").lens()
            follows[f'{cell},"{kind}"]'] = shown.message()
    views = (
        grid_component(tabs, (0, 1), "cross").offline(),
        Offline("lens", follows['[0,1,"cross"]'], follows),
    )
    path = save(exhibit(hostile_panel(), offline=views), tmp_path / "a.html")
    page, heard = open_offline(browser, path)
    lens = page.locator(".lens .plot")

    def reads(start: str) -> None:
        expect(lens).to_have_attribute("aria-label", waiting.starting_with(start))

    reads("cross [0,1")
    page.get_by_role("radio", name="encoder_self").click()
    shows(page, "encoder_self", "Layer 1, head 2")
    reads("encoder_self [0,1")
    page.get_by_role("radio", name="cross").click()
    page.get_by_role("gridcell", name="Layer 3, head 2:").click()
    reads("cross [2,1")
    page.get_by_role("radio", name="encoder_self").click()
    shows(page, "encoder_self", "Head 2, mean over layers")
    reads("encoder_self [null,1")
    page.get_by_role("radio", name="encoder_self").press("ArrowRight")
    shows(page, "cross", "Layer 3, head 2")
    reads("cross [2,1")
    assert heard == [path.as_uri()]
    page.context.close()


CAT, OTHER = "The cat sat on it.", "A dog runs."


@contextmanager
def settled(page: Page, traffic: Wire) -> Iterator[None]:
    """Count events within the block, which starts and ends while the page is idle."""
    at_rest(page, traffic.counts)
    traffic.clear()
    yield
    at_rest(page, traffic.counts)


def show(page: Page, traffic: Wire, address: str, **query: str) -> None:
    words = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    page.goto(f"{address}/attention?sentence={quote(CAT)}&kind=cross&beam=1&{words}")
    expect(page.locator("canvas.cells")).to_be_visible()
    at_rest(page, traffic.counts)


def test_a_click_brings_a_map_and_a_sentence_a_grid(wired: tuple[Page, Wire], address: str) -> None:
    page, traffic = wired
    traffic.clear()
    show(page, traffic, address, layer="1", head="1")
    opening = traffic.bytes_arrived()
    assert traffic.carries(b"headlight.grid") == 1
    # The maps and the scale: a canvas for each cell would be a layer for each cell.
    expect(page.locator(".grid canvas")).to_have_count(2)

    with settled(page, traffic):
        page.get_by_role("gridcell", name="Layer 2, head 3:").click()
        expect(page.get_by_text("Layer 2, head 3", exact=True)).to_be_visible()
    assert len(traffic.sent) == 1 and not traffic.requests
    assert traffic.carries(b"headlight.grid") == 0 and traffic.carries(b"headlight.lens") == 1
    assert traffic.bytes_arrived() < opening / 2

    with settled(page, traffic):
        page.locator("textarea").first.fill(OTHER)
        page.get_by_role("button", name="Translate", exact=True).click()
        expect(page).to_have_url(re.compile("dog"))
    assert len(traffic.sent) == 1 and not traffic.requests
    assert traffic.carries(b"headlight.grid") == 1 and traffic.carries(b"headlight.lens") == 1
    assert traffic.bytes_arrived() < 1.2 * opening


#: Ways in which text that became markup would run as a script.
INJECT = """() => new Promise((tell) => {
    const [script, image] = [document.createElement("script"), document.createElement("img")];
    script.textContent = "window.injected = 'inline'";
    image.setAttribute("onerror", "window.injected = 'handler'");
    image.src = "data:image/png,";
    document.body.append(script, image);
    setTimeout(() => { // later, since the debugger itself may do anything
        try {
            (0, eval)("window.injected = 'eval'");
            tell("no error");
        } catch (error) {
            tell(error.name);
        }
    });
})"""


def test_what_is_injected_does_not_run(wired: tuple[Page, Wire], address: str) -> None:
    page, _ = wired
    page.goto(f"{address}/glossary")
    expect(page.get_by_test_id("stMain")).to_be_visible()
    refused: list[str] = []
    page.on("console", lambda said: refused.append(said.text))
    assert page.evaluate(INJECT) == "EvalError"
    eventually(page, lambda: sum("Content Security Policy" in each for each in refused) >= 2, True)
    assert page.evaluate("window.injected ?? 'nothing'") == "nothing"
