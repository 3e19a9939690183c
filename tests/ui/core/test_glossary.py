"""The glossary: complete, findable, and safe to show."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pages.links import entries, unlinked
from tests.ui.core.test_layout import OF_A_MOUSE
from ui.components.files import COMPONENTS, script
from ui.core.glossary import (
    EXPLANATIONS,
    HINTS,
    QUESTIONS,
    TERMS,
    find_term,
    linked,
    named_term,
    search_terms,
    term,
    word_start,
)
from ui.frame.pages import PAGES


def test_entries_are_short_ordered_and_lead_to_pages() -> None:
    names = [entry.name for entry in TERMS]
    assert names == sorted(names, key=str.lower)
    assert len(set(names)) == len(names) >= 40
    assert not {entry.name for entry in QUESTIONS} & set(names)
    for entry in (*TERMS, *QUESTIONS):
        assert 1 <= len(re.findall(r"[.!?](?=\s|$)", entry.text)) <= 4, entry.name
        assert entry.page in {"", *(spec.url_path for spec in PAGES)}, entry.name
        assert re.fullmatch(r"(\d(\.\d){0,2})?", entry.section)
        assert entry.equation.count("{") == entry.equation.count("}")
        assert "$" not in entry.text + entry.equation
    for entry in TERMS:  # the definition fits in a tooltip
        said = linked(f"x {entry.name} y", entry.name)
        assert unlinked(said) == f"x {entry.name} y" and said.count('"') == 2


def test_hints_are_for_a_mouse_and_for_touch() -> None:
    for said in HINTS.values():
        assert [*said] == ["mouse", "touch"] and said["mouse"]
        assert said["touch"] and not OF_A_MOUSE.search(said["touch"])


def test_explanations_link_to_entries_and_show_them() -> None:
    assert EXPLANATIONS.keys() - {"toy", "watch", "table3"} <= {spec.url_path for spec in PAGES}
    for said in EXPLANATIONS.values():
        assert said.text or said.terms
        assert [*entries(linked(said.text, *said.links))] == [*said.links]
        assert all(map(find_term, (*said.terms, *said.questions)))


def test_a_help_text_holds_what_there_is() -> None:
    said = term("Softmax")
    assert find_term("softmax").text in said
    assert r"$$\mathrm{softmax}" in said
    assert "Section 3.2.1 of the paper." in said
    assert said.endswith("[In the glossary](glossary?word=softmax)")
    assert "$$" not in term("batch")
    assert unlinked(word_start(("a", "▁b"))) == "`_` marks the start of a word."
    assert word_start(("a", "</s>")) == ""


@pytest.mark.parametrize(
    ("query", "first"),
    [("SOFT", "softmax"), ("warmup", "warm-up"), ("subword", "piece"),
     ("layer normal", "layer norm"), ("3.5", "positional encoding"),
     ("causal", "Is cross-attention causal?"), ("sink", "Why does `</s>` get so much weight?")],
)  # fmt: skip
def test_search_finds_names_before_texts(query: str, first: str) -> None:
    table = QUESTIONS if first.endswith("?") else TERMS
    assert search_terms(query, table)[0].name == first
    assert find_term(first).text in term(first)


def test_search_for_nothing_shows_all_and_for_nonsense_none() -> None:
    assert list(search_terms("  ")) == list(TERMS)
    assert not search_terms("xyzzy")


@given(st.text(max_size=80))
def test_search_takes_any_text(query: str) -> None:
    found = search_terms(query)
    assert len({entry.name for entry in found}) == len(found)


@pytest.mark.parametrize(
    ("word", "name"),
    [("nats", "log-probability"), ("log P", "log-probability"), ("α", "length penalty"),
     ("alpha", "length penalty"), ("Score", "score"), ("`_`", "piece"), ("prefix", "prefix")],
)  # fmt: skip
def test_a_word_is_linked_once_to_the_entry_that_has_it(word: str, name: str) -> None:
    text = f"`{word.strip('`')} x` is code, {word} is not, nor {word} again."
    said = linked(text, word)
    assert unlinked(said) == text
    assert entries(said) == {word: name}
    assert said.index("is code, [") < said.index("is not")
    assert linked(said, word).count("glossary?") == 2  # the next mention


@pytest.mark.parametrize(
    "text", ["`nats`", "$nats$", "[nats](x)", "dominats", linked("nats", "nats")]
)
def test_a_link_stays_out_of_code_formulas_and_other_links(text: str) -> None:
    assert linked(text, "nats") == text


def test_only_words_of_one_entry_are_linked() -> None:
    assert named_term("attention weight") is None  # of two
    for word in ("step", "attention weight"):
        with pytest.raises(KeyError):
            linked(word, word)
    with pytest.raises(KeyError):
        find_term("gradient boosting")


def test_components_link_to_entries_that_exist() -> None:
    names = [
        name
        for component in COMPONENTS
        for name in re.findall(r'(?:term|fact)\("[^"]+", "([^"]+)"', script(component))
    ]
    assert {"log-probability", "score", "entropy"} <= set(names)
    for name in names:
        assert find_term(name).name == name
