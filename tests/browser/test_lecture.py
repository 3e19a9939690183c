"""A lecture by clicker alone: every scene fills the window at the sizes of projectors."""

from functools import partial
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.test_console import TOO_WIDE
from tests.browser.test_presenter import SIZES
from tests.browser.waiting import until_at, until_idle, until_passes
from ui.tours.guide import LECTURES, stop_in
from ui.tours.own import link_of

SCENES = LECTURES["attention"].stops

#: What is on screen: the texts, and the boxes of the picture and of the texts around it.
SCENE = """() => {
    const at = (part) => document.querySelector(`.st-key-scene_${part}`);
    const box = (each) => each?.getBoundingClientRect().toJSON();
    const image = at("picture")?.querySelector("img");
    return {
        head: at("head")?.innerText ?? "", foot: at("foot")?.innerText ?? "",
        image: image?.complete && image.naturalWidth && box(image),
        alt: image?.alt, above: box(at("head")), below: box(at("foot")),
        cut: ["head", "foot"].filter((part) => [at(part), ...at(part).querySelectorAll("p")].some(
            (each) => each.scrollHeight > each.clientHeight + 8 // letters reach out of a line
                || each.scrollWidth > each.clientWidth + 1)),
    };
}"""


def wrong_in(scene: dict[str, Any], width: int, height: int) -> list[str]:
    """Return what keeps a scene from being read at the back of a hall."""
    image, found = scene["image"], []
    if image["height"] < 0.7 * height:
        found.append(f"the picture has {image['height'] / height:.0%} of the height")
    if image["left"] < 0 or image["right"] > width:
        found.append("the picture is cut")
    if scene["above"]["bottom"] > image["top"] + 1 or image["bottom"] > scene["below"]["top"] + 1:
        found.append("a text lies on the picture")
    if scene["below"]["bottom"] > height + 1:
        found.append("the question is below the window")
    return [*found, *(f"the {part} is cut" for part in scene["cut"])]


def measured(page: Page, width: int, height: int) -> list[str]:
    scene = page.evaluate(SCENE)
    assert scene["image"]
    return wrong_in(scene, width, height)


def test_a_lecture_is_held_by_clicker_alone(app: str, page: Page) -> None:
    page.goto(f"{app}/attention?kind=cross")
    page.goto(f"{app}/tours?lessons=lecture")
    page.get_by_role("button", name="Start").first.click()
    wrong, seen, last, keys = [], [], {}, ("PageDown", "ArrowRight", " ", "ArrowDown")

    def fresh() -> dict[str, Any]:
        scene = page.evaluate(SCENE)
        assert scene["image"] and scene["foot"]
        assert (scene["head"], scene["foot"], scene["alt"]) != last
        return dict(scene)

    for press in range(80):
        scene = until_passes(page, fresh)
        last = scene["head"], scene["foot"], scene["alt"]
        number = scene["head"].split()[-3]
        seen += [number] * (number not in seen)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            found = until_passes(page, partial(measured, page, width, height))
            found += ["it scrolls sideways"] * any(beside > 0 for beside in page.evaluate(TOO_WIDE))
            wrong += [f"scene {number}, press {press}, {width} px: {each}" for each in found]
        if "It first appears there" in scene["foot"]:
            break
        page.keyboard.press(keys[press % len(keys)])
    assert not wrong
    assert seen == [str(number) for number in range(1, len(SCENES) + 1)]
    page.keyboard.press("PageUp")
    until_passes(page, fresh)
    page.keyboard.press("b")
    blank = page.locator(".blank")
    expect(blank).to_be_visible()
    assert blank.bounding_box() == {"x": 0, "y": 0, "width": width, "height": height}
    page.keyboard.press("PageDown")  # only brings the picture back
    expect(blank).to_be_hidden()
    assert page.evaluate(SCENE)["foot"] != last[1]
    page.keyboard.press("Escape")
    until_at(page, "/tours")
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    expect(page.get_by_text("A lecture fills the window")).to_be_visible()


def answered(page: Page, key: str, because: str) -> None:
    page.keyboard.press(key)  # keys are heard once the page has been mounted
    until_idle(page)
    assert because in page.locator(".st-key-scene_foot").inner_text()


def test_a_link_opens_a_scene_without_its_answer(app: str, page: Page) -> None:
    page.goto(f"{app}/?lecture=attention&scene=3")
    expect(page.get_by_text(SCENES[2].title)).to_be_visible()
    foot = page.locator(".st-key-scene_foot")
    expect(foot).to_contain_text("how many")
    expect(foot).not_to_contain_text("They look at")
    shown = foot.locator("p").nth(1)
    options = shown.inner_text().split()
    until_passes(page, partial(answered, page, "End", "They look at"))
    told = shown.inner_text()
    assert "check" in told and told.replace("check", "", 1).split() == options, "one is right"


def test_a_stop_of_a_tour_in_a_lecture_shows_its_page_with_the_answer(app: str, page: Page) -> None:
    page.goto(f"{app}/?lecture={link_of('/?tour=masks&stop=3  Half is missing.', stop_in)}")
    foot, grid = page.locator(".st-key-scene_foot"), page.locator(".grid").first
    expect(foot).to_contain_text("How many are masked?")
    expect(grid).to_be_hidden()
    until_passes(page, partial(answered, page, "PageDown", "all cells above the diagonal"))
    expect(grid).to_be_visible()
