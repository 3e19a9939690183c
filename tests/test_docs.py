import json
import re

import pytest

from benchmarks.measures import table
from tests.browser import pictures
from tests.forks import ROOT
from tests.shipped import TRANSLATORS
from transformer.evaluation.records import summary_table
from transformer.models.catalogue import list_entries
from transformer.worker import limits
from ui.core import public
from ui.hosting import gate, start, visitors
from ui.work import desk, results, visit
from ui.work.visit import Pace

DECISIONS = ROOT / "docs" / "decisions"
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
DOCUMENTS = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]


def test_table_of_checkpoints_is_what_the_command_prints() -> None:
    table = summary_table(list_entries([ROOT / "checkpoints"]))
    assert table in (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_table_of_measures_is_what_the_command_prints() -> None:
    stored = json.loads((ROOT / "ui/frame/measures.json").read_text("utf-8"))
    assert table(stored) in (ROOT / "docs" / "measures.md").read_text("utf-8")
    assert {*stored} <= {*TRANSLATORS}
    assert {row["sentences"] for rows in stored.values() for row in rows} == {200}


def test_links_lead_to_files() -> None:
    count = 0
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), (document, target)
            count += 1
    assert count > 60


def test_the_index_lists_every_decision_once_by_its_title() -> None:
    files = [path for path in sorted(DECISIONS.glob("*.md")) if path.name != "README.md"]
    index = (DECISIONS / "README.md").read_text("utf-8")
    listed = re.findall(r"^- \[(.+)\]\(([a-z0-9-]+\.md)\)$", index, re.MULTILINE)
    titles = {path.name: path.read_text("utf-8").splitlines()[0] for path in files}
    assert len(listed) == len(files) == len(re.findall(r"^- ", index, re.MULTILINE))
    assert {name: f"# {title}" for title, name in listed} == titles


def test_modules_that_documents_name_exist() -> None:
    for document in DOCUMENTS:
        for path in re.findall(
            r"`((?:app|pages|ui|figures|transformer|headlight|tests)/[\w/]+\.\w+)`",
            document.read_text("utf-8"),
        ):
            assert (ROOT / path).exists(), (document, path)
        for name in re.findall(
            r"`((?:ui|figures|transformer|headlight)(?:\.\w+)+)[(`]", document.read_text("utf-8")
        ):
            parts = name.split(".")
            modules = (ROOT.joinpath(*parts[:end]) for end in (len(parts), len(parts) - 1))
            known = any(each.is_dir() or each.with_suffix(".py").is_file() for each in modules)
            assert known, (document, name)


def test_limits_in_security_are_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_PUBLIC", "1")
    monkeypatch.setattr(limits, "_memory", lambda: iter([(2**40, 2**40)]))
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    numbers = {
        name: [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", limit)]
        for name, limit in re.findall(r"^\| (.+?) \| (.+) \|$", text, re.MULTILINE)
    }

    def bounds(pace: Pace) -> list[float]:
        return [pace._rate, pace._most * pace._rate, pace._latest]

    expected = {
        "Connections": bounds(visitors.ARRIVALS),
        "Requests": bounds(gate.REQUESTS),
        "A visit, on a public server": [public.quota()],
        "Visitors, on a public server": [visitors.most_visitors(), visitors.IDLE],
        "Results in memory": [results.CACHE.limit >> 20, desk.PICTURES.limit >> 20],
        "Models in memory": [
            *(share >> 30 for share in limits.shares()[1:]), results._LEFT_FREE >> 20,
        ],
        "What a browser sends": [visitors.MOST_BYTES // 1000, visitors.RATE],
        "The log": [start.MOST, start.LONGEST],
    }  # fmt: skip
    assert {name: numbers[name] for name in expected} == expected
    assert (visit.WINDOW, start.WINDOW) == (600, 60)  # ten minutes, and a minute
    (sockets,) = re.findall(
        r"limit_conn \w+ (\d+);", (ROOT / "deploy/nginx.conf").read_text("utf-8")
    )
    assert sockets in re.findall(r"\d+", " ".join(re.findall(r"[^|]*nginx\.conf`[^|]*", text)))


def test_the_picture_in_the_readme_is_of_todays_app() -> None:
    assert pictures.pictured() == pictures.fingerprint(), (
        "docs/whole-model.png: run `make pictures`"
    )
    assert pictures.PICTURE.stat().st_size < pictures.LARGEST
