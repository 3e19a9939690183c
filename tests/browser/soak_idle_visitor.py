"""A visitor whose place goes to one who waits, in the browser."""

import json
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

from playwright.sync_api import Browser, expect

from tests.servers import serving
from tests.waiting import wait_until
from ui.translate.opening import COOKIE, SEEN

GIVEN_UP = "Your place went to someone waiting"


def test_who_gave_a_place_up_reads_so_and_gets_the_view_back(
    browser: Browser, root: Path, tmp_path: Path
) -> None:
    command = ["-m", "tests.pages.altered_server", "haste", "-"]
    few = {"HEADLIGHT_SESSIONS": "1"}
    with serving(tmp_path / "log.txt", command, checkpoints=root, environment=few) as (address, _):

        def visitors() -> int:
            with urlopen(f"{address}/_headlight/ready", timeout=10) as answer:
                return int(json.load(answer)["visitors"])

        cookie = {"name": COOKIE, "value": SEEN, "url": address}
        windows = [browser.new_context(), browser.new_context()]
        for window in windows:
            window.add_cookies([cookie])  # type: ignore[list-item]
        first, second = (window.new_page() for window in windows)
        heading = expect(first.get_by_role("heading"))

        def look_again() -> None:
            content = first.locator("meta[http-equiv=refresh]").get_attribute("content")
            assert content
            first.goto(urljoin(first.url, content.partition("url=")[2]))

        first.goto(f"{address}/glossary?sentence=A+dog+runs.&layer=1")
        expect(first.get_by_text("vocabulary", exact=True)).to_be_visible()
        view = first.url
        second.goto(f"{address}/glossary")
        expect(second.get_by_text("vocabulary", exact=True)).to_be_visible()
        heading.to_have_text(GIVEN_UP)
        assert visitors() == 1
        look_again()
        heading.to_have_text(GIVEN_UP)
        windows[1].close()
        assert wait_until(lambda: visitors() == 0)
        look_again()
        expect(first.get_by_text("vocabulary", exact=True)).to_be_visible()
        assert first.url == view
        windows[0].close()
        assert "Traceback" not in (tmp_path / "log.txt").read_text()
