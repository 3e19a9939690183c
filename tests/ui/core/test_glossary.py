import ast
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.palette import ROLES, Theme
from tests.forks import ROOT
from tests.pages.links import entries, unlinked
from ui.core import glossary, widgets
from ui.core.glossary import QUESTIONS, TERMS, find_term, linked, search_terms, term
from ui.frame.page import all_pages

OF_A_MOUSE = re.compile(r"\b(?:click|hover|point at)", re.IGNORECASE)


def test_entries_are_short_ordered_and_lead_to_pages() -> None:
    names = [entry.name for entry in TERMS]
    assert names == sorted(names, key=str.lower)
    assert len(set(names)) == len(names) >= 40
    assert not {entry.name for entry in QUESTIONS} & set(names)
    for entry in (*TERMS, *QUESTIONS):
        assert 1 <= len(re.findall(r"[.!?](?=\s|$)", entry.text)) <= 4, entry.name
        assert entry.page in {"", *(spec.path for spec in all_pages())}, entry.name
        assert re.fullmatch(r"(\d(\.\d){0,2})?", entry.section)
        assert entry.equation.count("{") == entry.equation.count("}")
        assert "$" not in entry.text + entry.equation
    for entry in TERMS:  # the definition fits in a tooltip
        said = linked(f"x {entry.name} y", entry.name)
        assert unlinked(said) == f"x {entry.name} y" and said.count('"') == 2


def test_hints_are_for_a_mouse_and_for_touch() -> None:
    for said in glossary.HINTS.values():
        assert [*said] == ["mouse", "touch"] and said["mouse"]
        assert said["touch"] and not OF_A_MOUSE.search(said["touch"])


def test_explanations_link_to_entries_and_show_them() -> None:
    views = {"toy", "watch", "table3", "layers", "why", "against"}
    assert glossary.EXPLANATIONS.keys() - views <= {spec.path for spec in all_pages()}
    for said in glossary.EXPLANATIONS.values():
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
    assert unlinked(glossary.word_start(("a", "▁b"))) == "`_` marks the start of a word."
    assert glossary.word_start(("a", "</s>")) == ""


@pytest.mark.parametrize(("query", "first"), [
    ("SOFT", "softmax"), ("warmup", "warm-up"), ("subword", "piece"),
    ("layer normal", "layer norm"), ("3.5", "positional encoding"),
    ("causal", "Is cross-attention causal?"), ("sink", "Why does `</s>` get so much weight?"),
])  # fmt: skip
def test_search_finds_names_before_texts(query: str, first: str) -> None:
    table = QUESTIONS if first.endswith("?") else TERMS
    assert search_terms(query, table)[0].name == first
    assert find_term(first).text in term(first)


@given(st.text(max_size=80))
def test_search_takes_any_text_and_shows_all_for_none(query: str) -> None:
    found = search_terms(query)
    assert len({entry.name for entry in found}) == len(found)
    assert list(search_terms("  ")) == list(TERMS) and not search_terms("xyzzy")


@pytest.mark.parametrize(("word", "name"), [
    ("nats", "log-probability"), ("log p", "log-probability"), ("α", "length penalty"),
    ("alpha", "length penalty"), ("Score", "score"), ("`_`", "piece"), ("prefix", "prefix"),
])  # fmt: skip
def test_a_word_is_linked_once_to_the_entry_that_has_it(word: str, name: str) -> None:
    text = f"`{word.strip('`')} x` is code, {word} is not, nor {word} again."
    said = linked(text, word)
    assert unlinked(said) == text
    assert entries(said) == {word: name}
    assert said.index("is code, [") < said.index("is not")
    assert linked(said, word).count("glossary?") == 2  # the next mention


def test_links_stay_out_of_code_and_other_links_and_are_of_words_of_one_entry() -> None:
    for text in ("`nats`", "$nats$", "[nats](x)", "dominats", linked("nats", "nats")):
        assert linked(text, "nats") == text
    assert glossary.named_term("attention weight") is None  # of two
    for word in ("step", "attention weight"):
        with pytest.raises(KeyError):
            linked(word, word)
    with pytest.raises(KeyError):
        find_term("gradient boosting")


def test_components_link_to_entries_that_exist() -> None:
    scripts = "".join(
        path.read_text("utf-8") for path in (ROOT / "ui/components").glob("[!b]*/*.js")
    )
    names = re.findall(r'(?:term|fact)\("[^"]+", "([^"]+)"', scripts)
    assert {"log-probability", "score", "entropy"} <= set(names)
    for name in names:
        assert find_term(name).name == name


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Constant(value=str()):
                yield node
        yield from strings(node)


def test_texts_of_python_name_no_mouse() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{found.lineno}"
        for folder in ("ui", "pages")
        for path in (ROOT / folder).rglob("*.py")
        for found in strings(ast.parse(path.read_text("utf-8")))
        if OF_A_MOUSE.search(str(found.value)) and " " in str(found.value)
    ]
    assert not wrong


def test_texts_of_components_ask_which_pointer_there_is() -> None:
    wrong = []
    for path in set((ROOT / "ui").rglob("*.js")) - set((ROOT / "ui").rglob("bundles/*")):
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines):
            quoted = re.findall(r'"[^"]*"|`[^`]*`', re.sub(r"\$\{[^}]*\}", "", line.split("//")[0]))
            named = any(OF_A_MOUSE.search(each) and " " in each for each in quoted)
            if named and "touching()" not in "".join(lines[max(0, number - 3) : number + 1]):
                wrong.append(f"{path.relative_to(ROOT)}:{number + 1}")
    assert not wrong


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_formulas_have_the_colours_of_pictures(
    monkeypatch: pytest.MonkeyPatch, theme: Theme
) -> None:
    monkeypatch.setattr(widgets, "current_theme", lambda: theme)
    made = widgets.coloured(rf"Q and V: $${find_term('attention').equation}$$, $x_i W^V$, $q/V$")
    found = re.findall(r"\\textcolor\{(#\w+)\}\{(\w)\}", made)
    roles = ROLES[theme]
    expected = [("q", "Q"), ("k", "K"), ("v", "V"), ("residual", "x"), ("v", "V")]
    assert found == [(roles[role], symbol) for role, symbol in expected]
    assert made.startswith("Q and V: ") and r"\sqrt{d_k}" in made
