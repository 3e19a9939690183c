import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import getdoc, isclass, isfunction, ismethod, signature
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import headlight
import transformer
from figures.exhibit import Exhibit, to_csv, to_npz
from figures.palette import attention_table, categorical, scale_words, signed_table
from figures.paper import save
from tests.forks import ROOT
from transformer.config import ModelConfig
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import named_values
from ui.export.html import to_html
from ui.export.programs import Source, called
from ui.frame.page import all_pages

SENTENCE = "The <b>cat</b> sat on 'it'."
SIZE = {"n": 9, "d_model": 6}
HEADS = ((0, 2), (1, 0))

CASES: list[tuple[str, dict[str, Any]]] = [
    ("attention", {}),
    ("attention", {"display": "grid", "dim": True}),
    ("attention", {"display": "grid", "kind": "encoder_self", "units": "words"}),
    ("attention", {"display": "heads", "heads": HEADS, "mass": 0.6, "pin": ("key", 1)}),
    ("attention", {"display": "heads", "heads": HEADS, "units": "words", "kind": "decoder_self",
                   "dim": True}),
    ("attention", {"layer": 1, "head": 2, "kind": "decoder_self"}),
    ("attention", {"chosen": True, "heads": HEADS, "how": "max", "queries": (1, 3),
                   "keys": (0, 2)}),
    ("attention", {"layer": 1, "units": "words", "queries": (1, 3), "keys": (0, 2)}),
    ("found_heads", {"kind": "encoder_self"}),
    ("found_heads", {"find": "pair", "queries": (2,), "keys": (1,), "units": "words"}),
    ("decoding", {"layer": 1, "head": 2, "step": 3}),
    ("decoding", {"words": True, "step": 2}),
    ("layer_by_layer", {}),
    ("source_or_prefix", {}),
    ("word_for_word", {}),
    ("word_for_word", {"measure": "norm", "layer": 1, "head": 1, "row": "predicting",
                       "soft": True}),
    ("from_encoder_layers", {}),
    ("why_not", {"step": 2, "one": 17, "other": 60}),
    ("search_tree", {}),
    ("search_tree", {"a": 0, "dropped": True}),
    ("search_node", {"node": 3, "layer": 1}),
    ("search_node", {"node": 3, "units": "words"}),
    ("search_branches", {"a": 5, "b": 9, "head": 2}),
    ("search_branches", {"a": 5, "b": 9, "kind": "decoder_self", "units": "words"}),
    ("length_penalty", {}),
    *(("inside_head", {"kind": kind, "layer": 1, "head": 2, "query": 3, "key": 1})
      for kind in ("encoder_self", "decoder_self", "cross")),
    *(("why_this_head_looks", {"kind": kind, "layer": 1, "head": 2, "query": 3, "key": 1})
      for kind in ("encoder_self", "decoder_self", "cross")),
    ("content_and_position", {"head": 1}),
    ("content_and_position", {"kind": "decoder_self"}),
    ("residual_stream", {"stack": "encoder", "position": 1}),
    ("feed_forward", {"layer": 2, "position": 1}),
    ("feed_forward", {"stack": "encoder", "row": 2}),
    ("needed_parts", {}),
    ("needed_parts", {"step": 2}),
    ("pruning", {"heads": 5}),
    ("pieces", {"side": "translation", "token": 5}),
    ("traced_pieces", {}),
    ("vocabulary", {}),
    ("neighbours", {"token": 7, "count": 5}),
    ("embeddings", {"side": "translation"}),
    ("positions", {**SIZE, "layout": "concatenated"}),
    ("position_curves", {**SIZE, "dimensions": (1, 4), "labels": ("one", "four")}),
    ("position_curves", {**SIZE, "dimensions": ()}),
    ("position_products", {**SIZE, "starts": (0, 10), "n_offsets": 12}),
    ("position_shift", {"pos": 7, "k": -4, "d_model": 10, "layout": "concatenated"}),
    ("positions_beyond", {"limit": 12, "d_model": 8}),
    ("added_positions", {"stack": "Decoder", "n": 20}),
    ("layer_costs", {"d": 512}),
    ("path_lengths", {"n": 20, "kernel": 3, "window": 2}),
    ("bytes_of_maps", {"config": ModelConfig().to_json(), "lengths": (8, 16)}),
    ("ablations", {}),
]  # fmt: skip
#: Figures of other models, whose programs the tests of their pages run.
ELSEWHERE = {
    "attention_differences", "attention_evenness", "compared_numbers", "expected_tokens",
    "learned_positions", "matched_heads", "one_stack_or_two", "parse", "relative_positions",
    "stored_positions", "stored_positions_beyond", "training",
}  # fmt: skip
#: Figures that need a trace or a model only, such as those of a new page.
CASES += [
    (function.__name__, {})
    for function in (page.figure for page in all_pages())
    if function and function.__name__ not in {*ELSEWHERE, *(name for name, _ in CASES)}
]  # fmt: skip


#: A name alone is that of a call without a choice.
named = [f"{at}-{name}" if choice else name for at, (name, choice) in enumerate(CASES)]


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    return tiny_translator.trace(SENTENCE, beam_size=3)


def check_program(made: Exhibit) -> None:
    """Run a figure's program, and compare its variables with the figure's arrays."""
    found: dict[str, Any] = {}
    exec(compile(made.snippet, "program", "exec"), found)  # noqa: S102 - our own program
    assert made.arrays
    assert re.fullmatch(r"[A-Z].+[.!]", made.caption, re.DOTALL), "a sentence of what it shows"
    for name, values in made.arrays.items():
        if values.dtype.kind == "U":
            np.testing.assert_array_equal(found[name], values, err_msg=name)
        else:
            np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
    if "figure" in found:
        assert (found["figure"].name, found["figure"].title) == (made.name, made.title)


def figure(
    name: str, choice: dict[str, Any], model: Translator, trace: Trace, source: Source
) -> Exhibit:
    function: Callable[..., Exhibit] = getattr(headlight, name)
    known = signature(function).parameters
    given = [each for at, each in (("model", model), ("trace", trace)) if at in known]
    if not given:
        return called(function, **choice)
    return source.figure(function(*given, **choice), function, **choice)


@pytest.mark.parametrize(("name", "choice"), CASES, ids=named)
def test_the_program_of_a_figure_is_its_call(
    name: str, choice: dict[str, Any], tiny_checkpoint: Path, tiny_translator: Translator,
    trace: Trace, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tiny_checkpoint.parent))
    source = Source(tiny_checkpoint.name, sentence=SENTENCE, arguments=(("beam_size", 3),))
    made = figure(name, choice, tiny_translator, trace, source)
    check_program(made)
    assert made.snippet.count(f"figure = headlight.{name}(") == 1
    assert ("Checkpoint: tiny." in made.legend) == ("open_tracer(path_of" in made.snippet)
    assert (f"Sentence: “{SENTENCE}” " in made.legend) == ("model.trace(" in made.snippet)
    where = made.facts.get("Attention", made.title)
    for part in choice.keys() & {"layer", "head"}:
        assert f"{part} {choice[part] + 1}" in where
    if choice.get("heads") == HEADS:
        assert where in ("layer 1, head 3; layer 2, head 1", "maximum of heads 1.3, 2.1")
    assert choice.get("display") != "grid" or where.startswith("all layers and heads")
    assert to_csv(made) and to_npz(made)
    page = to_html(made)
    messages = [view.message for view in made.views]
    assert all(messages) and page.count(b' data-message="') == len(messages)
    assert page.count(b"<img ") == (not messages)  # a drawing only in place of views
    assert page == headlight.show(made).html


#: Arguments that take any text, or JSON.
TEXTS = ("origin", "labels", "config", "measured")
BAD: tuple[Any, ...] = ("wrods", 10**9, 1.5, True, ("wrods",), (10**9,), ((0, 10**9),), (-(10**9),))


@pytest.mark.parametrize(("name", "choice"), CASES, ids=named)
def test_other_arguments_are_refused_with_what_is_allowed(
    name: str, choice: dict[str, Any], tiny_translator: Translator, trace: Trace
) -> None:
    function = getattr(headlight, name)
    types = {at: hint for at, hint in get_type_hints(function).items() if at != "return"}
    given = {"model": tiny_translator, "trace": trace}
    given = {at: value for at, value in given.items() if at in types} | choice
    for at in types.keys() - {"model", "trace", *TEXTS}:
        for bad in BAD:
            if types[at] is bool and bad is True:
                continue
            if float in (types[at], *get_args(types[at])) and bad == 1.5 and at != "mass":
                continue
            with pytest.raises(ValueError, match=r"wrods|0{9}|1\.5|True") as raised:
                function(**given | {at: bad})
            assert re.search(r" of |from| not |there are", str(raised.value)), raised.value


def test_the_way_out_of_a_figure_without_heads_is_named(trace: Trace) -> None:
    for bad, reason in (
        ({"display": "heads"}, r"display 'heads' draws no heads; choose some, such as heads="),
        ({"display": "links"}, "display 'links' is not one of grid, heads, matrix"),
        ({"how": "median"}, "how 'median' is not one of mean, max"),
        ({"units": "wrods"}, "units 'wrods' is not one of tokens, words"),
        ({"queries": (99,)}, r"queries 99 is not a whole number from 0 to \d+"),
        ({"pin": ("key", 99)}, r"pinned key 99 is not a whole number from 0 to \d+"),
        ({"pin": ("row", 1)}, "pin 'row' is not one of query, key"),
    ):
        with pytest.raises(ValueError, match=reason):
            headlight.attention(trace, **bad)


def chosen_by_name() -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield the library's functions and methods with arguments that are one of some names."""
    names = (module.name for module in walk_packages(transformer.__path__, "transformer."))
    for module in map(import_module, (name for name in names if not name.endswith("__main__"))):
        public = [part for name, part in vars(module).items() if name[0] != "_"]
        own = [part for part in public if getattr(part, "__module__", "") == module.__name__]
        for owner in [p for p in own if isclass(p) and not getattr(p, "_is_protocol", False)]:
            own += (getattr(owner, name) for name in vars(owner) if name[0] != "_")
        for function in (part for part in own if isfunction(part) or ismethod(part)):
            with suppress(NameError):  # a type that is imported for type checks only
                yield from (
                    (function, at) for at, hint in get_type_hints(function).items()
                    if at != "return" and named_values(hint)[0]
                )  # fmt: skip


def test_every_function_of_the_library_refuses_other_names() -> None:
    # Those of every value in a forward pass take no name from outside.
    checked = [pair for pair in chosen_by_name() if pair[0].__module__ != "transformer.hooks"]
    assert len(checked) >= 65
    for function, at in checked:
        needed = [p.name for p in signature(function).parameters.values() if p.default is p.empty]
        hints = get_type_hints(function)
        given = {name: next(iter(get_args(hints.get(name))), None) for name in needed}
        with pytest.raises(ValueError, match=r"'wrods' is not one of:? \w"):
            function(**given | {at: "wrods"})
    for draw in (attention_table, signed_table, scale_words, partial(categorical, 3)):
        with pytest.raises(ValueError, match="theme 'wrods' is not one of light, dark"):
            draw("wrods")


def test_every_call_is_documented_and_tried() -> None:
    names = {page.figure.__name__ for page in all_pages() if page.figure} | {*headlight.figures()}
    assert names == {name for name, _ in CASES} | ELSEWHERE
    for name in names:
        assert getdoc(getattr(headlight, name))
    with pytest.raises(AttributeError, match="nothing"):
        headlight.nothing  # noqa: B018


def test_a_downloaded_program_runs_from_any_folder_with_the_python_of_the_environment(
    tmp_path: Path, tiny_checkpoint: Path, tiny_translator: Translator, trace: Trace
) -> None:
    here, downloads = tmp_path / "headlight", tmp_path / "downloads"
    (here / "checkpoints").mkdir(parents=True)
    downloads.mkdir()
    for name in ("headlight", "transformer", "figures", "ui"):
        (here / name).symlink_to(ROOT / name)
    (here / ".venv").symlink_to(sys.prefix)
    (here / "checkpoints/tiny").symlink_to(tiny_checkpoint)
    source = Source("tiny", sentence=SENTENCE, arguments=(("beam_size", 3),))
    made = figure("attention", {"layer": 0, "head": 0}, tiny_translator, trace, source)
    program = save(
        replace(made, snippet=f"{made.snippet}print(figure.title)\n"), downloads / "a.py"
    )
    command = [here / ".venv/bin/python", program]
    ran = subprocess.run(command, cwd=downloads, env={}, capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.stderr) == (made.title, "")
