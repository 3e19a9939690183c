"""Model cards keep their structure; nothing in them is a link, a picture, HTML or a formula."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from ui.models.rows import MOST_CHARACTERS, safe_card


def test_structure_comes_through() -> None:
    card = (
        "---\nlicense: mit\n---\n# Name\n\nA *good* and **very good** one, `x = 1`.\n\n"
        "- one\n  - two\n1. three\n> said\n\n| a | b |\n|---|:--:|\n| 1 | `2` |\n\n"
        "```python\nprint('*')\n```\nend"
    )
    assert safe_card(card).split("\n") == [
        "#### Name", "", r"A *good* and **very good** one\, `x = 1`\.", "",
        "- one", "  - two", "1. three", "> said", "", "| a | b |", "|---|:--:|", "| 1 | `2` |", "",
        "```text", "print('*')", "```", "", "end",
    ]  # fmt: skip


def test_addresses_are_shown_and_never_followed() -> None:
    shown = safe_card("See [the page](javascript:alert(1)) and [it](https://a.example/x_y_z).")
    assert "](" not in shown
    assert "it (`https://a.example/x_y_z`)" in shown
    assert safe_card("![](https://a.example/p.png)") == "(`https://a.example/p.png`)"
    assert "](" not in safe_card("[![x](https://a.example/a)](https://a.example/b)")
    assert safe_card("https://a.example") == "https\u2060" + r"\:\/\/a\.example"


#: Text that GitHub's Markdown, and so Streamlit, turns into links, with escapes resolved.
AUTOLINK = re.compile(r"(https?://|www(?=\.))[-.\w]+|[-.\w+]+@[-\w]+(\.[-\w]+)+", re.IGNORECASE)


def test_marks_of_others_are_text_and_a_fence_ends_where_the_card_does() -> None:
    for card, text in (
        ("<img src=x onerror=y>", r"\<img src\=x onerror\=y\>"),
        ("$x$ :red[y] ~~z~~", r"\$x\$ \:red\[y\] \~\~z\~\~"),
        ("## <b>x</b>", r"##### \<b\>x\<\/b\>"),
        ("| <b> | a |", r"| \<b\> | a |"),
        ("```\n<b>", "```text\n<b>\n```"),
        # A line inside that resembles a fence cannot end it.
        ("~~~\n```\n<b>\n~~~\nx", "````text\n```\n<b>\n````\n\nx"),
    ):
        assert safe_card(card) == text


def test_a_long_card_is_cut_and_takes_no_longer_than_it_must() -> None:
    shown = safe_card("word " * MOST_CHARACTERS)
    assert len(shown) < MOST_CHARACTERS + 10 and shown.endswith("…")
    for character in ("`", "*", "[", "_", "|", "-", " ", "(", ">", "#", "[a](", "**a", "| - "):
        safe_card("x" + character * (MOST_CHARACTERS // len(character)) + "x")


MARKS = ["<b>", "](", "![", "`", "```", "\n", "|", "**", "*", "_", "$", ":red[", "http://x", "# ",
         "- ", "\\", " ", "a", "~~~", "---", "https://x.y", "www.x.y", "a@x.y",
         "www", ".x.y"]  # fmt: skip


@example("HTTP://evil.com/x see https://evil.")
@example("| WWW.evil.com |\n<a@evil.com>\n*www.evil.com* **a@evil.com**")
@example("www[.evil.com](x) htt[ps://evil](x) a@[evil.com](x) [www.evil.com](x)")
@given(st.lists(st.sampled_from(MARKS), max_size=30).map("".join))
def test_outside_code_nothing_is_left_open(card: str) -> None:
    fence, outside = "", []
    for line in safe_card(card).split("\n"):
        opened = re.match(r"`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif opened and line.endswith("text"):
            fence = opened[0]
        else:
            # A code span ends at a run of as many backticks; shorter and longer runs are its text.
            outside.append(re.sub(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)", "", line))
    assert not fence
    for line in outside:
        assert not AUTOLINK.search(re.sub(r"\\(.)", r"\1", line)), line
        assert not re.search(r"(?<!\\)[<$\[\]:]", re.sub(r"\|[-:|\s]+\|?$", "", line)), line
