"""The study's command and the statistics of its report."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from tests.tiny_models import SENTENCES
from tests.transformer.conftest import Command
from tests.transformer.study.corpora import write_corpus
from tests.transformer.study.test_corpus import study
from transformer.measures.significance import holm, student_sf
from transformer.study.page import markdown
from transformer.study.records import Study
from transformer.study.statistics import bootstrap, paired_p


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


def test_intervals_agree_with_a_plain_bootstrap() -> None:
    rng = random.Random(1)
    pairs = [rng.randint(0, 30) for _ in range(25)]
    hits = [rng.randint(0, n) for n in pairs]
    drawn = []
    for _ in range(4_000):
        chosen = [rng.randrange(25) for _ in range(25)]
        drawn.append(sum(hits[at] for at in chosen) / sum(pairs[at] for at in chosen))
    drawn.sort()
    numbers = np.array(hits, float)[:, None], np.array(pairs, float)[:, None]
    low, high = bootstrap(*numbers)
    assert low[0] == pytest.approx(drawn[100], abs=0.02)
    assert high[0] == pytest.approx(drawn[3_900], abs=0.02)
    assert low[0] < sum(hits) / sum(pairs) < high[0]
    assert [each.tolist() for each in bootstrap(*numbers)] == [low.tolist(), high.tolist()]


def test_draws_without_pairs_say_nothing() -> None:
    pairs = np.array([[4.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 2.0]])
    hits = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    low, high = bootstrap(hits, pairs)
    assert (low[0], high[0]) == (0.75, 0.75) and np.isnan([low[1], high[1]]).all()
    assert (low[2], high[2]) == (0, 1)


@pytest.mark.parametrize("freedom", [1, 2, 3, 11, 95, 499])
@pytest.mark.parametrize("t", [-2.5, 0.0, 0.3, 1.9, 4.5, 9.0])
def test_students_t_is_the_area_under_its_density(t: float, freedom: int) -> None:
    start = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale = math.exp(start) / math.sqrt(freedom * math.pi)
    # After x = |t| + u / (1 - u), in small steps.
    steps, area = 40_000, 0.0
    for k in range(steps):
        u = (k + 0.5) / steps
        x = abs(t) + u / (1 - u)
        area += scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) / (1 - u) ** 2 / steps
    expected = 1 - area if t < 0 else area
    found = student_sf(np.array([t]), np.array([freedom]))[0]
    assert found == pytest.approx(expected, rel=1e-3)


def test_the_paired_test_is_that_of_the_mean_difference() -> None:
    no = math.nan
    differences = np.array(
        [[2.0, 1.0, no, 0.0], [1.0, no, no, 0.0], [4.0, no, no, 0.0], [-1.0, no, 5.0, 0.0]]
    )
    mean, spread = 1.5, math.sqrt((0.25 + 0.25 + 6.25 + 6.25) / 3)
    t = mean / (spread / 2)
    found = paired_p(differences)
    assert found[0] == pytest.approx(student_sf(np.array([t]), np.array([3]))[0])
    assert found[1] == found[2] == 1 and found[3] == pytest.approx(0.5)
    assert paired_p(np.array([[1.0], [1.0]]))[0] == 0 and paired_p(np.array([[-1.0]] * 2))[0] == 1


def test_holm_steps_down() -> None:
    rng = random.Random(2)
    p = [rng.random() ** 4 for _ in range(40)]
    order, expected, largest = sorted(range(40), key=p.__getitem__), [0.0] * 40, 0.0
    for step, at in enumerate(order):
        largest = max(largest, min(1, (40 - step) * p[at]))
        expected[at] = largest
    table = np.full((8, 6), np.nan)
    table.flat[:40] = p
    found = holm(table)
    assert found.flat[:40] == pytest.approx(expected) and np.isnan(found.flat[40:]).all()
