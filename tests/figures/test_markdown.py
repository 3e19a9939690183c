from __future__ import annotations

import re
import string

from hypothesis import given
from hypothesis import strategies as st

from figures.markdown import code, plain, shorten

#: Text full of the characters of Markdown and Streamlit's directives.
nasty = st.text(alphabet=st.one_of(st.sampled_from("`*_$:[]()<>!#\\ \n|~a:red"), st.characters()))


@given(nasty)
def test_plain_escapes_every_mark_and_reads_back_as_typed(text: str) -> None:
    shown, mark = plain(text), r"\\([!-/:-@\[-`{-~])"
    assert "\n" not in shown and not set(re.sub(mark, "", shown)) & set(string.punctuation)
    read = re.sub(mark, r"\1", shown).replace("\u2060", "")
    assert read == " ".join(text.split()).replace("\u2060", "")


def test_plain_breaks_emoji_codes_and_directives() -> None:
    assert plain(":smile:") == "\\:\u2060smile\\:"
    assert plain(":red[x]") == r"\:red\[x\]"
    assert plain("<b>") == r"\<b\>"


@given(nasty)
def test_code_holds_the_text_between_fences_that_it_does_not_contain(text: str) -> None:
    span = code(text, limit=1000)
    fence = re.match("`+", span)
    assert fence is not None
    inner = span[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inner)
    line = " ".join(text.split())
    assert inner in (line, f" {line} ")


@given(st.text(), st.integers(1, 30))
def test_shorten_keeps_the_limit(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text or short.endswith("…")
