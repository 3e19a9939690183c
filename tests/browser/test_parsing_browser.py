"""The Parsing page in a real browser: the shipped parser's tree, read by pointer and by keys."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.waiting import OpenPage, until_the_url_says


def test_a_tree_is_read_with_pointer_and_keys(open_page: OpenPage, app: str) -> None:
    page = open_page(
        f"{app}/parsing?opening=0&checkpoint=parsing-gum&sentence=The%20old%20cat%20sat."
    )
    tree, panel = page.locator(".parse svg"), page.locator(".parse .panel")
    expect(tree.locator(".word text")).to_have_text(["The", "old", "cat", "sat", ".", "</s>"])
    whole = tree.get_by_role("button", name="“The old cat sat .”").first
    whole.hover()
    expect(panel.locator("p.of")).to_have_text("“The old cat sat .”")
    expect(panel.locator(".looks tr")).to_have_count(5)
    whole.focus()
    page.keyboard.press("ArrowUp")  # nothing is above
    expect(panel.locator("p.of")).to_have_text("“The old cat sat .”")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(panel.locator("p.of")).not_to_have_text("“The old cat sat .”")
    expect(tree.locator("[aria-pressed=true]")).to_be_focused()
    held = tree.locator(".node").evaluate_all(
        "all => all.findIndex((each) => each.getAttribute('aria-pressed') === 'true')"
    )
    until_the_url_says(page, node=str(held + 1))  # the node before it is said first
