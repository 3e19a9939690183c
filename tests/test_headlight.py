import html
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headlight
from headlight import show
from headlight.__main__ import main
from headlight.page import trace_exhibit
from tests.factories import make_trace
from tests.forks import ROOT
from transformer.measures import registered
from transformer.models.arrays.trace_file import save_arrays, trace_of
from transformer.types import CheckpointError
from ui.export.html import to_html

SCRIPT = "</script></iframe><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = make_trace(S=4, T=3, src_tokens=("▁The", SCRIPT, "שלום"))
    return save_arrays(trace, tmp_path_factory.mktemp("headlight") / "one.npz")


def framed(view: headlight.Page) -> str:
    text = view._repr_html_()
    assert re.fullmatch(r'<iframe srcdoc="[^"]*" sandbox="allow-scripts" [^<>]*></iframe>', text)
    return html.unescape(text.partition('srcdoc="')[2].partition('"')[0])


def test_a_path_a_trace_and_arrays_are_shown(path: Path) -> None:
    arrays = dict(np.load(path))
    pages = [framed(show(what)) for what in (path, str(path), make_trace(), arrays)]
    assert SCRIPT not in pages[0]
    for page in pages:
        assert page.startswith("<!doctype html>") and "default-src 'none'" in page
        for kind in ("Encoder self-attention", "Decoder self-attention", "Cross-attention"):
            assert f"<h2>{kind}: " in page
        assert page.count('data-component="grid"') == page.count('data-component="lens"') == 3
        assert page.count('class="view" data-component="player"') == 1
    assert "load_arrays(&#x27;one.npz&#x27;)" in pages[0]
    # One stack needs no player.
    page = framed(show({"attention": np.eye(3)[None], "tokens": np.array(["a", "b", "c"])}))
    assert "<h2>Causal self-attention: 1 layer, 1 head, 3 queries, 3 keys</h2>" in page
    assert 'class="view" data-component="player"' not in page


def test_the_page_is_the_apps_own(path: Path, tmp_path: Path) -> None:
    trace = make_trace()
    view = show(trace, name="mine", height=500)
    assert view.html == to_html(trace_exhibit(trace, "mine"))
    assert view.save(tmp_path / "a.html").read_bytes() == view.html
    assert 'height="500"' in view._repr_html_()


def test_what_cannot_be_shown_is_said() -> None:
    for height in (0, 99, 10_001, 3.5, True, '1" onload="alert(1)'):
        with pytest.raises(ValueError, match="not a whole number from 100 to 10000"):
            show(make_trace(), height=height)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch=99: a figure or trace is of one sentence"):
        show(make_trace(), batch=99)
    with pytest.raises(CheckpointError, match=r"row \(0, 0, 0\) sums to 4"):
        show({"cross": np.ones((3, 4))})
    with pytest.raises(TypeError, match="not list"):
        show([1, 2])  # type: ignore[arg-type]


def test_large_maps_say_that_only_the_mean_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the mean over all heads only" not in framed(show(make_trace()))
    monkeypatch.setattr("ui.attention.exhibits.MOST_FOLLOWING", 10)
    monkeypatch.setattr("headlight.page.MOST_FOLLOWING", 10)
    assert "the mean over all heads only" in framed(show(make_trace()))


def test_a_page_is_written(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.html"
    assert main([str(path), str(out)]) == 0
    assert out.read_bytes() == show(path).html
    assert main([str(tmp_path / "none.npz"), str(out)]) == 2
    assert main([str(path), str(tmp_path / "no" / "out.html")]) == 2
    assert main([]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and "no such file" in lines[0] and "No such file" in lines[1]


#: In a new Python, on a file and two pages to write.
WITHOUT = """
import runpy, sys
file, first, second = sys.argv[1:]
sys.modules["streamlit"] = None
from headlight import show
view = show(file)
assert not {"torch", "matplotlib"} & set(sys.modules)
assert view._repr_html_().startswith("<iframe srcdoc=") and len(view.html) > 10_000
for module, *arguments in (["headlight", file, first],
                           ["transformer", "show", file, "--html", second]):
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert not end.code
"""


def without_font(page: bytes) -> bytes:
    """Return a page without its font and its style's hash."""
    return re.sub(rb"@font-face {[^}]*}\n|style-src '[^']*'", b"", page)


def test_pages_are_written_where_streamlit_is_not_installed(path: Path, tmp_path: Path) -> None:
    outs = [tmp_path / "first.html", tmp_path / "second.html"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, path, *outs], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"{outs[1]}\n")
    for out in outs:
        assert without_font(out.read_bytes()) == without_font(show(path).html)


@pytest.mark.parametrize("ending", ["pdf", "svg", "png", "csv", "npz", "html"])
def test_a_figure_saves_itself(ending: str, tmp_path: Path) -> None:
    for kind, display in (("encoder_self", "grid"), ("cross", "matrix")):
        figure = headlight.attention(make_trace(), kind=kind, layer=0, head=1, display=display)
        path = figure.save(tmp_path / f"{kind}.{ending}")
        headlight.save(figure, tmp_path / f"same.{ending}")
        assert path.stat().st_size == (tmp_path / f"same.{ending}").stat().st_size > 100
    with pytest.raises(ValueError, match="can be saved as"):
        figure.save(tmp_path / "a.docx")


@pytest.mark.parametrize(
    ("given", "said"),
    [({"layer": 7}, "layer 7 is not a whole number from 0 to 1"), ({"head": -1}, "head -1"),
     ({"heads": ((0, 9),)}, "head 9"), ({"kind": "self"}, "'self' is not one of .*encoder_self"),
     ({"kind": "decoder_self"}, "'decoder_self' is not one of the trace's: encoder_self")],
)  # fmt: skip
def test_a_head_that_is_not_there_is_no_figure(given: dict[str, Any], said: str) -> None:
    maps = np.full((2, 3, 4, 4), 0.25, np.float32)
    with pytest.raises(ValueError, match=said):
        headlight.attention(trace_of({"encoder_self": maps}), **{"kind": "encoder_self"} | given)


TEXT = (ROOT / "docs" / "notebook.md").read_text("utf-8")
START, *EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
TITLES = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)


@pytest.fixture(scope="module")
def start() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(START.replace('"checkpoints/', f'"{ROOT}/checkpoints/'), "start", "exec"), names)  # noqa: S102
    return names


def test_there_are_ten_of_at_most_ten_lines() -> None:
    assert len(EXAMPLES) == len(TITLES) == 10
    for example in EXAMPLES:
        assert sum(bool(line.strip()) for line in example.splitlines()) <= 10


@pytest.mark.parametrize("title", TITLES)
def test_an_example_runs_and_gives_what_it_says(
    title: str, start: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registered, "MEASURES", {})
    names, translator, sentences = dict(start), start["translator"], start["sentences"]
    example = EXAMPLES[TITLES.index(title)]
    exec(compile(example, title, "exec"), names)  # noqa: S102 - our own program
    said, config = capsys.readouterr().out, translator.config
    shape = (config.n_decoder_layers, config.decoder_heads)
    checks = {
        "Entropy": lambda: names["entropy"].shape == shape and (names["entropy"] > 0).all(),
        "Log-prob": lambda: said.count("\n") == 3 and said.startswith("-") and "▁Hund" in said,
        "Every head": lambda: len(names["table"]) == len(names["heads"]) == 96
        and names["table"]["change"].is_monotonic_increasing and names["table"]["change"].min() < 0,
        "A figure": lambda: "<svg" in (tmp_path / "head.svg").read_text(),
        "A hook": lambda: said.count(" | ") == 3,
        "Several": lambda: save_arrays(names["second"], "x").read_bytes()
        == (tmp_path / "1.npz").read_bytes() and names["second"].source == sentences[1],
        "A library": lambda: len(names["page"].html) > 10_000,
        "A measure": lambda: np.array_equal(
            names["figure"].arrays["values"],
            (translator.trace(sentences[0]).cross > 0.1).sum(-1).mean(-1).astype("f4"),
        ),
        "An edited": lambda: said.count(" nats\n") == 3 and said.count(" | ") == 6,
        "Hidden": lambda: names["moved"].shape == (shape[0], len(names["trace"].tgt_ids)),
    }  # fmt: skip
    (check,) = [each for start_of, each in checks.items() if title.startswith(start_of)]
    assert check()
