"""Components' files: each is used, and a script comes with the functions it calls."""

import re
from pathlib import Path

import pytest

from ui.components import files
from ui.components.files import COMPONENTS, script, scripts, shared_functions, stripped, styles

FOLDER = Path(files.__file__).parent


def test_every_file_belongs_to_a_component() -> None:
    used = {path for name in COMPONENTS for path in (*scripts(name), *styles(name))}
    there = {path for kind in ("js", "css") for path in FOLDER.rglob(f"*.{kind}")}
    assert used == there - {*FOLDER.glob("shared/*.js"), FOLDER / "keys/presenting.css"}


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_script_is_one_module_with_all_that_it_calls(name: str) -> None:
    text = script(name)
    assert len(re.findall(r"^export default function\b", text, re.MULTILINE)) == 1
    own = "\n".join(path.read_text("utf-8") for path in scripts(name))
    declared = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", own, re.MULTILINE)
    brought = {each for each, code in shared_functions().items() if code in text}
    assert len(declared) == len(set(declared) - brought), "a module declares a name once"
    # A call of an undefined function would fail only when reached.
    called = set(re.findall(r"(?:(?<![\w.])|(?<=\.{3}))(\w+)\(", text))
    assert called & shared_functions().keys() <= brought
    there = set(re.findall(r"function (\w+)", text))
    there |= set(re.findall(r"(?<![\w.])(\w+)\b(?!\()", text))  # also parameters and constants
    there |= set(re.findall(r"^(?:async )?(\w+)\(.*\) \{$", text, re.MULTILINE))  # methods
    words = {"if", "for", "while", "switch", "catch", "return", "var", "mix", "repeat"}
    given = {
        "parseInt", "parseFloat", "getComputedStyle", "matchMedia", "requestAnimationFrame",
        "cancelAnimationFrame",
        "setTimeout", "clearTimeout", "setInterval", "clearInterval", "encodeURIComponent",
    }  # fmt: skip
    missing = {each for each in called - there - words - given if not each[0].isupper()}
    assert not missing


def test_every_shared_function_is_called() -> None:
    scripts = [script(name) for name in COMPONENTS]
    for name, text in shared_functions().items():
        assert sum(text in each for each in scripts) > 1, f"{name} is shared by nobody"


def test_a_script_travels_without_comments_and_indentation(tmp_path: Path) -> None:
    one, other = tmp_path / "one.js", tmp_path / "other.js"
    one.write_text(
        "// Says why.\n/** Two\n * lines. */\nfunction f(x) {\n"
        "  /* here */ return `// ${x}`; // there\n}\n\n"
    )
    other.write_text('  /** One. */\nconst g = "*/ /*";\n')
    assert stripped(one, other) == (
        'function f(x) {\n/* here */ return `// ${x}`; // there\n}\nconst g = "*/ /*";'
    )


def test_no_text_in_a_script_spans_lines() -> None:
    for path in FOLDER.rglob("*.js"):
        for line in path.read_text("utf-8").splitlines():
            assert line.count("`") % 2 == 0 and not line.endswith("\\"), f"{path.name}: {line}"
