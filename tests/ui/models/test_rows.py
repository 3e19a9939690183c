import os
import re
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pages.links import entries, unlinked
from tests.transformer.site import LARGE, NAME, answer, hub_of
from tests.waiting import wait_until
from transformer.config import preset
from transformer.files.hub import HubFile, HubModel, look_up
from transformer.models.catalogue import Entry, ModelRef, inspect_entry
from transformer.models.importers.registry import FORMATS
from transformer.types import CheckpointError
from ui.core.examples import by_title, purpose_of, title_of
from ui.frame.sidebar import model_caption
from ui.models import import_plan
from ui.models.import_plan import begin, check_name, check_room, plan_folder, plan_hub
from ui.models.rows import MOST_CHARACTERS, card_path, figures_of, safe_card, shape_of, size_of


def entry(name: str = "x", path: Path = Path("x"), **more: object) -> Entry:
    ref = ModelRef(path, kind=more.pop("kind", "checkpoint"))  # type: ignore[arg-type]
    return Entry(name, ref, **more)  # type: ignore[arg-type]


def test_figures_are_measured_ones() -> None:
    with_four, with_nine = ({"measured": {"setting": f"beam {n}, alpha 0.6"}} for n in (4, 9))
    tests = {
        "a": {"bleu": 12.345, "chrf": 50, "other": 1} | with_four, "b": {"chrf": 3.0} | with_four,
    }  # fmt: skip
    shown, setting = figures_of({"tests": tests})
    assert shown == r"12\.3 sacreBLEU · 50\.0 chrF on a"
    assert unlinked(setting) == r"beam 4\, alpha 0\.6; 1 more in its card"
    assert entries(setting) == {"beam": "beam", "alpha": "length penalty"}
    letters = {"reverse_test": {"bleu": 0.0, "exact_match": 0.999}}
    assert figures_of({"tests": letters}, letters=True) == [
        r"99\.90\% exactly right on strings of letters", "setting not recorded",
    ]  # fmt: skip
    # That of the default decoding comes first.
    f1, default = {"f1": 50.14} | with_nine, {"beam_size": 4, "alpha": 0.6}
    assert figures_of({"parsing": f1, "tests": tests, "default_decoding": default})[0] == shown
    line, _ = figures_of({"tests": {"<b>`x`\n$y$" + "z" * 100: {"bleu": 1}}})  # shortened
    assert line.startswith(r"1\.0 sacreBLEU on \<b\>\`x\` \$y\$z")
    assert "\n" not in line and len(line) < 80


@pytest.mark.parametrize("value", [
    None, "12", True, float("nan"), float("inf"), pytest.param(10**400, id="digits"), [1],
 {"a": 1}, -1e300,
])  # fmt: skip
def test_what_is_no_number_is_no_figure(value: object) -> None:
    assert figures_of({"tests": {"a": {"bleu": value}}}) == ["No measured figures"]
    assert figures_of({"tests": value}) == ["No measured figures"]
    assert figures_of({"tests": {"a": value}}) == ["No measured figures"]
    assert title_of(entry("mine", metrics={"training": value, "imported": value})) == "mine"


def trained(src: object = "en", tgt: object = "fr", *corpora: str) -> dict[str, object]:
    return {"training": {"recipe": {"data": {"src": src, "tgt": tgt, "corpora": [*corpora]}}}}


def test_a_model_says_what_it_is_for() -> None:
    for metrics, use in (
        (trained("en", "fr"), "everyday sentences from English into French"),
        (trained("en", "tree"), "grammar"), ({}, ""),
    ):  # fmt: skip
        said = purpose_of(entry("mine", metrics=metrics))
        assert said.startswith(f"Use it for {use}") if use else not said
    t5 = preset("tiny", positions="relative")
    assert "distances" in purpose_of(entry("mine", metrics=trained(), config=t5))


def test_names_for_people_follow_from_the_record() -> None:
    t5 = preset("tiny", positions="relative")
    folder = Path("checkpoints").absolute()
    for metrics, more, title in (
        (trained("de", "fr", "tatoeba", "multi30k"), {}, "German → French, everyday"),
        (trained("fr", "en", "multi30k"), {}, "French → English, photo captions"),
        (trained("en", "es", "news.tsv"), {}, "English → Spanish, mine"),
        (trained("en", "de", "tatoeba"), {"config": t5}, "English → German, everyday, T5-like"),
        (trained("en", "tree", "gum"), {}, "Parser: trees of English"),
        (trained("en", "de", "reversal"), {}, "Toy: reverses letters"),
        (trained("xx", ["de"]), {}, "mine"),
        ({"imported": {"source": "owner/opus-mt-fi-sv"}}, {}, "Finnish → Swedish, mine"),
        ({"imported": {"source": "owner/some-big-cat"}}, {}, "mine"),
        ({}, {"kind": "archive"}, "mine"),
    ):  # fmt: skip
        assert title_of(entry("mine", metrics=metrics, **more)) == title
    assert title_of(inspect_entry(folder / "gpt-everyday")).startswith(
        "GPT-like: continues English"
    )
    assert title_of(entry("opus-mt-de-fr", kind="huggingface")) == "German → French, opus-mt-de-fr"


def test_models_are_listed_by_what_they_do_and_none_are_called_alike() -> None:
    found = [
        entry("a", metrics=trained("en", "tree", "gum")), entry("z", kind="archive"),
        *(entry(name, metrics=trained("en", "de", "tatoeba")) for name in "cb"),
    ]  # fmt: skip
    assert by_title(found) == {
        "b": "English → German, everyday (b)", "c": "English → German, everyday (c)",
        "a": "Parser: trees of English", "z": "z",
    }  # fmt: skip
    assert [*by_title(found)] == ["b", "c", "a", "z"]


def test_shapes_in_words(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1_500)
    config = preset("tiny", n_decoder_heads=2, n_decoder_layers=5)
    assert list(shape_of(entry(path=tmp_path, config=config))) == [
        "2+5 layers", "d_model 32", "4 and 2 heads", f"{config.n_parameters / 1e3:.0f}k parameters",
        "1.5 kB on disk",
    ]  # fmt: skip
    stored = entry(path=tmp_path, config=config.replace(positions="stored"))
    assert "stored positions" in shape_of(stored)
    assert list(shape_of(entry(path=tmp_path / "none", about="One thing.", unused=("a=1",)))) == [
        "One thing", "ignored generation settings: a=1", "0 bytes on disk",
    ]  # fmt: skip
    assert size_of(tmp_path / "model.safetensors") == size_of(tmp_path) == 1_500


def test_a_card_outside_roots_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path / "root"))
    (tmp_path / "root" / "x").mkdir(parents=True)
    found = entry(path=tmp_path / "root" / "x")
    assert card_path(found) is None
    (tmp_path / "secret.md").write_text("secret")
    (found.path / "README.md").symlink_to(tmp_path / "secret.md")
    assert card_path(found) is None
    (found.path / "README.md").unlink()
    (found.path / "README.md").write_text("# It")
    assert card_path(found) == found.path / "README.md"


def test_a_small_model_says_so_by_its_size_and_its_training_text() -> None:
    config = preset("tiny")
    record = {"kind": "everyday sentences", "src_tokens": 25}

    def entry(**metrics: object) -> Entry:
        return Entry("everyday-en-de", ModelRef(Path("x")), config, metrics=metrics)

    said = model_caption(entry(training_text=record), config)
    assert said.startswith("Small model (")
    assert " parameters), trained on everyday sentences; mistakes are part of the lesson." in said
    # Mistakes are excused only of small models trained on a known kind of text.
    plain = model_caption(entry(), config)
    assert plain.startswith("Translates everyday sentences. ")
    assert model_caption(entry(training_text={**record, "kind": "<b>"}), config) == plain
    large = model_caption(entry(training_text=record), preset("base"))
    assert large.startswith("Translates everyday sentences. ") and "Small" not in large


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


MARIAN = FORMATS["marian"]
SIZES = {"config.json": 10, "vocab.json": 20, "source.spm": 30, "target.spm": 40,
         "model.safetensors": 1_000, "notes.txt": 5_000}  # fmt: skip


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, size in SIZES.items():
        (folder / name).write_bytes(b"x" * size)
    return folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    make(root / "a" / "theirs")
    make(tmp_path / "elsewhere")
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(root))
    return root


def test_only_what_is_read_counts_and_what_is_fetched_once_more(root: Path) -> None:
    plan = plan_folder(MARIAN, "a/theirs", "mine")
    assert plan.read == plan.disk == 1_100
    assert plan.memory == import_plan.MEMORY_PER_BYTE * 1_000
    assert (plan.source, plan.called) == (root / "a" / "theirs", "a/theirs")
    files = tuple(HubFile(name, size, None, None) for name, size in SIZES.items())
    fetched = plan_hub(MARIAN, HubModel("owner/name", "0" * 40, files), "mine")
    total = sum(SIZES.values())
    assert (fetched.read, fetched.disk, fetched.memory) == (total, 2 * total, plan.memory)


@pytest.mark.parametrize(
    "folder", ["/etc", "a", "a/none", "../elsewhere", "link", "linked-weights", "pipe"]
)
def test_folders_outside_the_roots_are_not_read(root: Path, tmp_path: Path, folder: str) -> None:
    make(root / "b")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    make(root / "hidden" / ".theirs")
    weights = make(root / "linked-weights") / "model.safetensors"
    weights.unlink()
    weights.symlink_to(tmp_path / "elsewhere" / "notes.txt")
    assert import_plan.folders_for(MARIAN) == ["a/theirs", "b"]
    make(root / "pipe")
    (root / "pipe" / "vocab.json").unlink()
    os.mkfifo(root / "pipe" / "vocab.json")
    with pytest.raises(CheckpointError) as caught:
        plan_folder(MARIAN, folder, "mine")
    said = str(caught.value)
    assert "a pipe, socket or device" in said if folder == "pipe" else str(tmp_path) not in said


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".x", "-x", "a/b", "a\\b", "a b", "a\n", "x" * 65, "é", "a.", "\0", "a"]
)
def test_names_that_cannot_be_taken(root: Path, name: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        check_name(name)
    assert "\n" not in str(caught.value)
    assert name != "a" or "already exists" in str(caught.value)


def test_a_free_name_is_made_of_a_folders_and_is_taken_in_any_root(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert import_plan.free_name("opus mt/<en>") == "opus-mt-en-imported"
    (root / "x-imported").mkdir()
    assert check_name(import_plan.free_name("x")) == "x-imported-2"
    assert check_name(import_plan.free_name("ä")) == "model-imported"
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", f"{tmp_path / 'new'}{os.pathsep}{root}")
    with pytest.raises(CheckpointError, match="already exists"):
        check_name("a")
    assert check_name("opus-mt_1.2") == "opus-mt_1.2"


def test_stop_ends_an_import_whose_hub_sends_nothing_more(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    before, go_on = sorted(root.rglob("*")), threading.Event()

    def stall(handler: BaseHTTPRequestHandler) -> None:
        answer(handler, b"", length=10**6)
        go_on.wait(100)

    with hub_of({LARGE: b"x" * 10**6}, monkeypatch, tmp_path / "home") as site:
        site.files[site.path_of(LARGE)] = stall
        job = begin(plan_hub(MARIAN, look_up(NAME, MARIAN.files), "mine"))
        assert wait_until(lambda: site.path_of(LARGE) in site.asked)
        job.stop()
        assert job.ended(60) and job.phase == "stopped"
        go_on.set()
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("resource", ["free_disk", "free_memory"])
def test_a_large_one_is_refused(root: Path, resource: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_folder(MARIAN, "a/theirs", "mine")
    check_room(plan)
    assert (import_plan.free_disk() or 0) > 0
    monkeypatch.setattr(import_plan, resource, lambda: 1_000)
    with pytest.raises(CheckpointError, match=r"takes up to .* but only 1\.0 kB are free"):
        check_room(plan)
    monkeypatch.setattr(import_plan, resource, lambda: None)
    check_room(plan)  # unknown is no reason to refuse


def test_a_folder_of_others(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert import_plan.cannot_write() is None
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path / "new" / "root"))
    assert import_plan.cannot_write() is None  # it can be made
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", "/proc/1/root-of-models")
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "cannot write to" in str(import_plan.cannot_write())
