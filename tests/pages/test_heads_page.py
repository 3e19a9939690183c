import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.messages import unpack
from tests.pages.conftest import RunApp
from tests.pages.links import messages_in as texts
from tests.snapshots import UPDATES, write_snapshots
from tests.studied import conllu
from tests.test_calls import check_program
from transformer.models.catalogue import ModelRef, resolve
from transformer.study import importance
from transformer.study.corpus import Sentence
from transformer.study.examples import Example, Term, Where
from transformer.study.records import Study, studies_of
from transformer.study.run import study
from transformer.study.statistics import agreement
from transformer.translator import Translator
from ui.export.programs import Source
from ui.heads import setup
from ui.heads.choice import term_of
from ui.heads.exhibits import role_exhibit
from ui.heads.views import snippet
from ui.work.studies import Opened, _folders, in_words, rules
from ui.work.studies import studies as studies_listed


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    root = tmp_path_factory.mktemp("studied")
    shutil.copytree(tiny_checkpoint, root / "alpha")
    write_snapshots(root / "alpha")
    corpus = conllu(root.parent / "tiny.conllu")
    ref = resolve(root / "alpha")
    importance.whole_study(ref, corpus, lambda *_: None)
    for updates in UPDATES[:2]:
        study(ref.after(updates), corpus)
    return root


@pytest.fixture(scope="module")
def made(studied: Path) -> Study:
    return Study.load(studies_of(resolve(studied / "alpha"))[0])


@pytest.fixture
def page(run_app: RunApp, studied: Path) -> Any:
    return lambda **query: run_app(studied, at="heads", checkpoint="alpha", **query)


def looks(app: AppTest, column: str) -> list[Any]:
    return [each for each in app.button if str(each.key).startswith(f"look {column}")]


@pytest.mark.parametrize("name", ["up:det", "previous", "diffuse"])
def test_the_page_opens_on_the_best_head_of_a_role_and_says_which_rule_it_does_not_beat(
    page: Any, made: Study, name: str
) -> None:
    role, app = made.role(name), page(role=name)
    assert role is not None and app.selectbox(key="role_box").value == name
    best = max((each for head in made.heads if (each := made.finding(role, head))),
               key=lambda each: (each.named, each.choice))  # fmt: skip
    assert app.selectbox(key="head_box").value == best.head and not best.named
    controls = [best.offset_score, best.word_score, best.blind, best.random]
    if role.needs == "text":
        controls = [0.5, best.random]
    assert sorted(rules(best).values()) == sorted(controls)
    said = texts(app)
    assert "No head clearly beats" in said and f": {max(controls):.1%}." in said
    assert f"{best.score:.1%} of {best.pairs:,}" in said and "this is no role of its own" in said


def test_another_head_and_role_are_in_the_link(page: Any, made: Study) -> None:
    app = page(kind="cross", layer="1", head="1")
    app.selectbox(key="role_box").set_value("down:nsubj").run()
    assert app.selectbox(key="head_box").value.kind == "encoder_self"  # others do not have it
    app.selectbox(key="head_box").set_value(made.heads[4]).run()
    assert app.query_params["role"] == "down:nsubj"
    kind, layer, head = made.heads[4]
    shown = [app.query_params[name] for name in ("kind", "layer", "head")]
    assert shown == [kind, str(layer + 1), str(head + 1)]


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
def test_a_sentence_opens_in_attention_with_its_pair_marked(
    page: Any, made: Study, tiny_translator: Translator, kind: Any
) -> None:
    role = "up:det" if kind == "encoder_self" else "first"
    app = page(role=role, kind=kind, layer="1", head="2")
    assert looks(app, "Follows the role") or looks(app, "Does not")
    button = looks(app, "At random")[0]
    assert button.label[0] in "✓✗"
    bold = re.findall(r"\*\*(.*?)\*\*", button.label)[0].replace("\\", "")
    code = re.findall(r"`(.*?)`", button.label)[0]
    button.click().run()
    query = app.query_params
    assert (query["kind"], query["layer"], query["head"]) == (kind, "1", "2")
    assert query["display"] == "matrix"
    trace = tiny_translator.trace(query["sentence"], query["target"])
    for name, tokens, word in zip(
        ("queries", "keys"), trace.axis_tokens(kind), (bold, code), strict=True
    ):
        places = [int(each) - 1 for each in query[name].split("-")]
        assert "".join(tokens[place] for place in places).replace("▁", "") == word


def test_sentences_where_a_head_looks_from_a_word_to_a_part_of_speech(
    page: Any, made: Study
) -> None:
    app = page(kind="encoder_self", layer="1", head="1", **{"from": "the", "to": "tag:NOUN"})
    asked = (made.heads[0], Term("word", "the"), Term("tag", "NOUN"))
    assert f"{Where(made)(*asked).n_looks} look" in texts(app)
    box = app.selectbox(key="to_box")
    relations = {each.removesuffix(" (relation)") for each in box.options}.intersection(
        ("advmod", "amod", "case", "det", "nsubj", "obj", "obl", "root", "punct")
    )
    assert len(relations) == 8
    box.set_value("relation:nsubj").run()
    assert app.query_params["to"] == "relation:nsubj"
    assert [*map(term_of, ("12:30", "token:ing", "tag:", ""))] == [
        ("word", "12:30"), ("token", "ing"), ("word", "tag:"), None,
    ]  # fmt: skip


def test_a_look_is_marked_in_the_words_around_it() -> None:
    both = Sentence("d", ("a", "b*", "c", "d"), target=("A", "B"), text="a b c d")

    def marked(kind: Any, query: int, key: int, wanted: int) -> str:
        return snippet(both, kind, Example(0, query, key, wanted, 1, right=key == wanted), 2)

    assert marked("encoder_self", 3, 0, 1) == "`a` *b\\** c **d**"
    assert marked("encoder_self", 0, 0, 0) == "**`a`** b\\* …"
    assert marked("cross", 1, 1, 1) == "A **B** → a `b*` c …"
    assert marked("decoder_self", 1, 0, 0) == "`A` **B**"
    both = replace(both, target=("A", "ab" * 20))  # a loop
    assert marked("decoder_self", 0, -1, -1) == f"**A** {'ab' * 11}a… → `start or end mark`"


def test_importance_says_how_far_its_measures_agree(page: Any, made: Study) -> None:
    value = f"{agreement(made.importance)['gradient', 'removal'].r:.2f}".replace("-", "−")
    app = page(role="removal")
    assert app.selectbox(key="role_box").value == "removal"
    (table,) = (each.value for each in app.table)
    assert ["slope of the loss and single removal", value] in table.iloc[:, :2].values.tolist()
    assert "bleu" not in made.importance  # the typed sentences are in other languages, or unknown
    assert any("a head's sharpness" in each.label for each in app.expander)


def test_a_role_through_training_is_a_curve(page: Any, run_app: RunApp, studied: Path) -> None:
    assert "During training" in texts(page(role="up:det"))
    other = run_app(studied, at="heads", checkpoint=f"alpha@{UPDATES[0]}", role="up:det")
    assert other.selectbox(key="role_box").value == "up:det"  # a moment has a study of its own


def test_sentences_of_a_visitor_get_roles_without_annotation(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.heads.choice.MOST_OWN", 24)
    lines = "\n".join(f"The cat sat on the mat number {n} <b>." for n in range(30))
    app = page(lines=lines, study="own", role="roles")
    assert "24 sentences" in texts(app)
    roles = app.selectbox(key="role_box").options
    assert "previous token" in roles and not any("noun" in each for each in roles)
    assert "importance: slope of the loss" in roles and "importance: BLEU lost" not in roles
    app.selectbox(key="study_box").set_value(app.selectbox(key="study_box").options[0]).run()
    assert "60 sentences of tiny" in texts(app)
    few = texts(page(lines="A dog runs.", study="own", role="previous"))
    assert "Too few words to measure: previous token" in few and "1 sentence of your own" in few


def test_few_sentences_of_a_visitor_say_how_many_it_takes(page: Any) -> None:
    three = "\n".join(["The cat sat on the mat.", "A dog runs.", "It was tired."])
    app = page(lines=three, study="own")
    said = texts(app)
    assert "Your 3 sentences are too few to find the heads' roles" in said and "of own" not in said
    assert "you have 15. Add about 21 sentences" in said and "have a role" not in said
    assert "Measured on 3 sentences of your own" in said
    app = page(lines="It", study="own")
    assert app.selectbox(key="role_box").options[0].startswith("importance")  # no table of dashes
    assert "One sentence is too few" in texts(app)
    assert "Measured on 1 sentence of your own" in texts(app)


def test_without_a_study_the_page_says_how_to_make_one(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ui.heads.setup.DEFAULT", tmp_path / "nothing")
    app = run_app(at="heads", checkpoint="alpha")
    assert "have not been studied" in app.info[0].value
    assert "study checkpoints/alpha" in app.code[0].value
    assert not [each for each in app.button if each.key == "begin_study"]
    monkeypatch.setattr("ui.heads.setup.DEFAULT", conllu(tmp_path / "a.conllu"))
    assert run_app(at="heads", checkpoint="alpha").button(key="begin_study")
    monkeypatch.setenv("HEADLIGHT_PUBLIC", "1")
    app = run_app(at="heads", checkpoint="alpha")
    assert not [each for each in app.button if each.key == "begin_study"]
    assert "switched off" in texts(app)
    monkeypatch.delenv("HEADLIGHT_PUBLIC")
    monkeypatch.setattr("ui.frame.import_access._setting", lambda: "")
    said = texts(run_app(at="heads", checkpoint="alpha"))
    assert "To study, open the link" in said and "every visitor study, start" in said


def test_edits_of_links_do_not_fill_the_list_of_studies(tmp_path: Path) -> None:
    for number in range(300):
        assert studies_listed(ModelRef(tmp_path, edits=f"off cross.1.{number}")) == []
    assert _folders.cache_info().currsize <= 200


@pytest.mark.usefixtures("no_job_outlives_its_test")
def test_a_study_runs_on_the_server_and_goes_on_after_a_stop(
    run_app: RunApp, tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, corpus = tmp_path / "root", conllu(tmp_path / "small.conllu", 90)
    shutil.copytree(tiny_checkpoint, root / "alpha")
    monkeypatch.setattr("ui.heads.setup.DEFAULT", corpus)
    app = run_app(root, at="heads", checkpoint="alpha")
    ref = resolve(root / "alpha")
    app.button(key="begin_study").click().run()
    running = setup.JOBS.get(ref)
    assert running is not None and setup.begin(ref.after(20)) is not None  # one at a time
    if running.running:
        other = run_app(root, at="heads", checkpoint="alpha")
        assert not any(each.key == "stop_study" for each in other.button)
    app.button(key="stop_study").click().run()
    assert running.ended(300)
    app.run()
    if running.phase == "stopped":
        assert app.button(key="begin_study").label == "Resume"
        app.button(key="begin_study").click().run()
    again = setup.JOBS.get(ref)
    assert again is not None and again.ended(300) and again.phase == "done"
    app.run()
    assert app.selectbox(key="role_box")
    study_made = Study.load(studies_of(resolve(root / "alpha"))[0])
    assert {"gradient", "removal", "order", "sharpness"} <= set(study_made.importance)


def test_the_program_of_a_role_makes_its_numbers(
    studied: Path, made: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(studied))
    folder = studies_of(resolve(studied / "alpha"))[0].name
    role = made.role("up:det")
    assert role is not None
    shown = role_exhibit(made, role, Source("alpha"), folder)
    assert set(shown.arrays) == {"encoder_self"}
    check_program(shown)


@pytest.fixture
def tagged(studied: Path, made: Study, tmp_path: Path) -> Path:
    shutil.copytree(studied / "alpha", tmp_path / "alpha")
    folder = studies_of(resolve(tmp_path / "alpha"))[0]
    named = np.zeros_like(made.scores["named"])
    named[[role.name for role in made.roles].index("up:det"), 2] = True
    replace(made, scores={**made.scores, "named": named}).save(folder)
    return tmp_path


def test_what_a_head_does_is_its_role_or_else_where_it_looks_most_often(
    run_app: RunApp, tagged: Path, made: Study
) -> None:
    tags = Opened(Study.load(studies_of(resolve(tagged / "alpha"))[0]), "").tags
    assert [head for head in made.heads if tags[head].finding.named] == [made.heads[2]]
    assert tags[made.heads[2]].finding.role.name == "up:det"
    for head in (*made.heads[:2], *made.heads[3:]):
        places = [each for each in made.findings(head) if each.role.needs == "text"]
        assert tags[head].finding.score == max(each.score for each in places if each.random <= 0.5)
    app = run_app(tagged, at="heads", checkpoint="alpha", role="roles")
    assert f"**1 of {len(made.heads)} heads has a" in texts(app)
    head = app.selectbox(key="head_box")
    named = "Encoder self-attention layer 1, head 3: noun"
    assert head.value == made.heads[2] and named in head.options


def test_the_corpus_is_called_by_its_name_for_people(
    run_app: RunApp, tagged: Path, made: Study
) -> None:
    folder = studies_of(resolve(tagged / "alpha"))[0]
    replace(made, source="Some corpus, somewhere: its terms").save(folder)
    said = texts(run_app(tagged, at="heads", checkpoint="alpha", role="roles"))
    assert "Measured on 60 sentences of the Some corpus" in said
    role = made.role("up:det")
    assert role is not None
    named = replace(made, source="GUM corpus, its terms")
    shown = role_exhibit(named, role, Source("alpha"), folder.name)
    assert "60 English sentences of the GUM corpus" in shown.caption


def test_the_tour_of_roles_asks_any_model_that_was_studied(
    run_app: RunApp, family: Path, tmp_path: Path
) -> None:
    at = {"at": "heads", "checkpoint": "reader", "tour": "roles", "stop": "1"}
    assert "Tours need" in run_app(family, **at).info[0].value
    assert "has none yet" in run_app(at="heads", checkpoint="alpha", tour="roles").info[0].value
    shutil.copytree(family / "reader", tmp_path / "root" / "reader")
    study(tmp_path / "root" / "reader", conllu(tmp_path / "tiny.conllu"))
    app = run_app(tmp_path / "root", **at)
    assert not app.info and "Consider what" in texts(app)
    app.button(key="tour_show").click().run()
    assert app.query_params["kind"] == "encoder_self" and app.query_params["role"]
    assert "in sentence after sentence" in texts(app) and app.selectbox(key="role_box")


def test_attention_bears_the_tags_and_finds_heads_by_role(
    run_app: RunApp, tagged: Path, made: Study
) -> None:
    here = {"at": "attention", "checkpoint": "alpha", "sentence": "A dog runs."}
    app = run_app(tagged, **here, kind="encoder_self", find="role.up:det")
    sent = [unpack(each.proto.bytes)[0] for each in app.main.get("bidi_component")]
    (does,) = [each["does"] for each in sent if "does" in each]
    role = made.role("up:det")
    assert role is not None
    finding = made.finding(role, made.heads[2])
    assert finding is not None and does["cross"] == []
    assert does["encoder_self"] == [[0, 2, "noun", in_words(finding)]]
    assert app.selectbox(key="find_widget").value == "role.up:det"
    assert "1 head clearly above it" in texts(app)
    found = [each for head in made.heads if (each := made.finding(role, head))]
    best = max(found, key=lambda each: (each.named, each.choice)).head
    button = next(each for each in app.button if str(each.key).startswith("find_"))
    assert button.label.startswith(f"Encoder layer {best.layer + 1}, head {best.head + 1} **")
    button.click().run()
    assert (app.query_params["layer"], app.query_params["head"]) == (
        str(best.layer + 1), str(best.head + 1),
    )  # fmt: skip
