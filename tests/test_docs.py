"""The documents agree with the project: links, decisions, names, tables, README's picture."""

import re

from tests.browser import pictures
from tests.forks import ROOT
from transformer.catalogue import list_entries
from transformer.evaluation.summary import summary_table

DECISIONS = ROOT / "docs" / "decisions"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_table_of_checkpoints_is_what_the_command_prints() -> None:
    table = summary_table(list_entries([ROOT / "checkpoints"]))
    assert table in (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


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


def test_the_picture_in_the_readme_is_of_todays_app() -> None:
    assert pictures.pictured() == pictures.fingerprint(), "docs/translate.png: run `make pictures`"
    assert pictures.PICTURE.stat().st_size < pictures.LARGEST
