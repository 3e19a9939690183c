"""Presenter mode, its keys, and tours in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]
QUERY = "checkpoint=reverse-toy&sentence=abcde"


def says(page: Page, **wanted: str | None) -> None:
    """Wait until the URL says what is wanted; None: says nothing of it."""
    page.wait_for_function(
        """wanted => {
            const said = new URLSearchParams(location.search);
            return Object.entries(wanted).every(([name, value]) => said.get(name) === value);
        }""",
        arg=wanted,
    )


def at(page: Page, path: str) -> None:
    page.wait_for_function("path => location.pathname === path", arg=path)


def ready(page: Page) -> None:
    expect(page.locator(".keys .hint")).to_be_attached()
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")


def test_presenter_mode_with_keys_alone(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/attention?{QUERY}")
    ready(page)
    sidebar, root = page.get_by_test_id("stSidebar"), page.locator("html")
    expect(sidebar).to_be_visible()
    page.locator("textarea").first.focus()
    page.keyboard.type("P?nb")  # typing is typing
    expect(page.locator(".keys dialog.all")).not_to_be_visible()
    page.locator("textarea").first.fill("abcde")
    page.locator("textarea").first.blur()

    page.keyboard.press("Shift+P")
    says(page, present="on")
    expect(sidebar).not_to_be_visible()
    expect(root).to_have_css("font-size", "21.6px")
    assert (
        page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--hl-scale')")
        == "1.35"
    )
    ready(page)
    page.keyboard.press("?")
    expect(page.locator(".keys dialog.all")).to_be_visible()
    expect(page.locator(".keys dialog.all")).to_contain_text("next page")
    page.keyboard.press("Escape")
    expect(page.locator(".keys dialog.all")).not_to_be_visible()

    page.get_by_role("button", name="Link").click()
    expect(page.get_by_label("Address of this view")).to_have_value(page.url)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Address of this view")).not_to_be_visible()

    page.keyboard.press("Shift+ArrowRight")
    at(page, "/head")
    says(page, present="on")
    ready(page)
    page.keyboard.press("Shift+ArrowLeft")
    at(page, "/attention")
    ready(page)
    page.keyboard.press("Shift+P")
    says(page, present="off")
    expect(sidebar).to_be_visible()
    expect(root).to_have_css("font-size", "16px")


def test_a_stop_can_be_linked_answered_and_left_by_keys(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/?tour=masks&stop=3&checkpoint=reverse-toy")
    at(page, "/attention")
    says(page, tour="masks", stop="3", kind="decoder_self", guess=None)
    bar = page.locator(".st-key-tour")
    expect(bar).to_contain_text("Half the map is missing")
    expect(bar).to_contain_text("The page shows when you have answered.")
    grid = page.get_by_role("grid", include_hidden=True).first
    expect(grid).to_be_attached()
    expect(grid).not_to_be_visible()  # not before a prediction
    sentence = parse_qs(urlsplit(page.url).query)["sentence"][0]
    n = len(sentence) + 2
    # The page is there all the time, and the answer leaves it as it is.
    grid.evaluate("(grid) => { grid.dataset.before = 'the answer'; }")
    bar.get_by_role("radio", name=str(n * (n - 1) // 2), exact=True).click()
    expect(bar).to_contain_text("as you said")
    expect(grid).to_be_visible()
    expect(grid).to_have_attribute("data-before", "the answer")
    ready(page)
    page.keyboard.press("n")
    says(page, stop="4", kind="cross", guess=None)
    ready(page)
    page.keyboard.press("b")
    says(page, stop="3")
    ready(page)
    page.get_by_role("button", name="Leave").click()
    says(page, tour=None, stop=None)
    expect(page.locator(".st-key-tour_waiting")).to_have_count(0)
    expect(page.get_by_role("grid").first).to_be_visible()
