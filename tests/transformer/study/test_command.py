from __future__ import annotations

from pathlib import Path

from tests.tiny_models import SENTENCES
from tests.transformer.conftest import Command
from tests.transformer.study.corpora import write_corpus
from transformer.study.page import markdown
from transformer.study.records import Study


def test_a_study_is_made_and_printed(
    command: Command, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    corpus = write_corpus(tmp_path / "rules.conllu")
    asked = ["study", tiny_checkpoint, "--corpus", corpus, "--sentences", 40, "--quiet",
             "--out", tmp_path / "out", "--edit", "off encoder.1.1", "--examples"]  # fmt: skip
    ran = command(*asked, 5)
    folder, *lines = ran.out.splitlines()
    assert (ran.status, folder) == (0, str(tmp_path / "out"))
    said = "\n".join(lines)
    assert "## tiny, edited: off encoder.1.1\n" in said and "determiner to noun" in said
    assert "40 sentences (12 documents) of rules; control: random weights" in said
    assert len(Study.load(folder).sentences) == 5
    assert command(*asked, 5).out.startswith(f"{folder}: finished before")
    assert command(*asked, 4).out.startswith(f"{folder}\n\n## tiny")
    assert len(Study.load(folder).sentences) == 4


def test_plain_text_gives_the_roles_without_annotation(
    command: Command, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    (tmp_path / "mine.txt").write_text("\n".join([*SENTENCES, "dog " * 600]))
    ran = command("study", tiny_checkpoint, "--corpus", tmp_path / "mine.txt", "--out",
                  tmp_path / "out")  # fmt: skip
    found = Study.load(tmp_path / "out")
    assert ran.status == 0 and {role.needs for role in found.roles} == {"text"}
    assert (found.n_sentences, found.n_documents, found.n_skipped) == (11, 11, 1)
    assert {role.name for role in found.roles} >= {"previous", "end", "diagonal", "rarest"}


def test_a_page_says_what_studies_found(tmp_path: Path) -> None:
    from tests.transformer.study.test_records import study

    made = study()
    page = markdown([made])
    assert page.count("\n## ") == 1 and "\n## alpha@20, edited: off cross.1.1\n" in page
    assert page.count("| previous token |") == max(1, int(made.scores["named"][0].sum()))
    each = next(found for head in made.heads for found in made.findings(head) if found.named)
    assert f"| {each.role.title} | {100 * each.score:.0f}% |" in page


def test_wrong_requests_are_one_line(
    command: Command, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    assert "no studies of these" in command("study", tiny_checkpoint, "--page",
                                            tmp_path / "heads.md").refused  # fmt: skip
    two = command("study", tiny_checkpoint, tiny_checkpoint, "--out", tmp_path)
    assert "--out is the folder of one study" in two.refused
    assert "--sentences 0" in command("study", tiny_checkpoint, "--sentences", 0).refused
    (tmp_path / "empty.txt").touch()
    said = command("study", tiny_checkpoint, "--corpus", tmp_path / "empty.txt").refused
    assert f"{tmp_path / 'empty.txt'}, line 1: no sentences" in said
