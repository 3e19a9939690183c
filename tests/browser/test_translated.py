from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext

from tests.browser.waiting import at_rest, follow, until_passes, until_settled, until_the_url_says
from ui.frame.page import all_pages

SENTENCES = ("The cat sat on it.", "A dog runs.")

#: Replaces each text that may be translated.
TRANSLATE = """() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (texts.nextNode()) {
        const { currentNode: text } = texts, kept = "[translate=no], script, style, noscript, font";
        if (text.data.trim() && !text.parentElement.closest(kept)) found.push(text);
    }
    for (const text of found) {
        const [outer, inner] = [1, 2].map(() => document.createElement("font"));
        outer.dir = "auto";
        outer.style.verticalAlign = inner.style.verticalAlign = "inherit";
        inner.textContent = text.data;
        outer.append(inner);
        text.parentNode.replaceChild(outer, text);
    }
    return found.length;
}"""

#: The number of bold numbers that may be translated.
NUMBERS = """() => [...document.querySelectorAll("strong")].filter((bold) =>
    /^[−\\d.,% ]+$/.test(bold.textContent) && !bold.closest("[translate=no]")).length"""

#: The visible text. Icons of the frame appear under the pointer.
SHOWN = """() => [...document.querySelectorAll("section, [data-testid=stMain], header")]
    .map((each) => each.innerText.replace(/^keyboard_\\w+$/gm, "").trim())"""


def test_no_page_keeps_old_text_after_a_translation(address: str, window: BrowserContext) -> None:
    wrong: list[str] = []
    page, clean = window.new_page(), window.new_page()
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    for tab in (page, clean):
        tab.goto(f"{address}?sentence={SENTENCES[0]}&opening=0")
        until_settled(tab)

    def check() -> None:
        follow(clean, page.url)
        until_settled(clean)
        assert at_rest(page, lambda: page.evaluate(SHOWN)) == clean.evaluate(SHOWN)

    for number, spec in enumerate(all_pages(), 1):
        if spec is not all_pages()[0]:
            follow(page, f"{address}/{spec.path}?{urlsplit(page.url).query}")
        until_settled(page)
        assert page.evaluate(NUMBERS) == 0
        assert page.evaluate(TRANSLATE)
        if (box := page.locator(".st-key-sentence_box textarea")).count():
            box.fill(SENTENCES[number % 2])
            page.get_by_role("button", name="Translate", exact=True).click()
            until_the_url_says(page, sentence=SENTENCES[number % 2])
            until_settled(page)
            page.evaluate(TRANSLATE)
        if (switch := page.locator("[data-testid=stMain] [data-testid=stCheckbox] label")).count():
            switch.first.click()
        until_passes(page, check)
        assert not wrong
    page.close()
    clean.close()
