import re

import pytest
from streamlit.testing.v1 import AppTest

from tests.forks import ROOT
from tests.pages.conftest import RunApp
from tests.pages.links import ask, go_to, messages_in, unlinked
from ui.core.glossary import TERMS
from ui.tours.guide import LECTURES, TOURS
from ui.tours.stops import Stop

CHECKPOINTS = ROOT / "checkpoints"


def page(app: AppTest) -> str:
    return str(app.session_state["headlight_page"]) or "translate"


def headings(app: AppTest) -> set[str]:
    found = (re.fullmatch(r"#+ (.+)", element.value) for element in app.main.markdown)
    return {re.sub(r"[^a-z0-9]+", "-", each[1].lower()) for each in found if each}


def places_below(stop: Stop) -> set[str]:
    return set(re.findall(r"\]\(#([^)]+)\)", stop.text))


def check_stop(app: AppTest, stop: Stop) -> None:
    assert not app.main.error
    assert page(app) == stop.page
    said = messages_in(app)
    assert stop.title in said
    assert unlinked(stop.text).replace("\\", "") in said
    assert places_below(stop) <= headings(app)
    for name, value in stop.settings.items():
        assert app.query_params[name] == value
    assert app.button(key="tour_show").label == "Show me"
    with pytest.raises(KeyError):
        app.button(key="tour_again")


def test_a_walk_through_all_tours(run_app: RunApp) -> None:
    app = run_app(root=CHECKPOINTS, checkpoint="multi30k-en-de", tour=TOURS[0].name)
    places = [(tour, number) for tour in TOURS for number in range(1, len(tour.stops) + 1)]
    for tour, number in places:
        check_stop(app, tour.stops[number - 1])
        assert f"{number} of {len(tour.stops)}" in messages_in(app)
        if number == 1:  # see an answer, too
            app.button(key="tour_show").click().run()
            assert "Answer: **" in messages_in(app)
            assert "tour_show" not in [button.key for button in app.button]
        if (tour, number) != places[-1]:
            app.button(key="tour_next").click().run()
    assert "tour_next" not in [button.key for button in app.button]
    app = run_app(root=CHECKPOINTS, checkpoint="reverse-toy", tour="masks", stop="4", guess="1")
    assert re.search(r"Right answers in this tour: [01] of 1\.", messages_in(app))
    assert sum(len(places_below(tour.stops[number - 1])) for tour, number in places) == 4


def test_a_stop_may_be_linked_with_a_view_of_its_own(run_app: RunApp) -> None:
    app = run_app(tour="heads", stop="2", layer="1", head="3", sentence="A dog runs.", guess="1")
    assert page(app) == "attention"
    assert [app.query_params[name] for name in ("layer", "head", "stop")] == ["1", "3", "2"]
    assert app.session_state["headlight_view"].sentence == "A dog runs."
    said = messages_in(app)
    assert ":material/check:" in said or ":material/close: Your answer" in said
    assert "guess" not in app.query_params, "a link to hand out does not give the answer away"
    # Another sentence is another question.
    ask(app, "The cat sat on the mat.")
    assert app.button(key="tour_show")
    assert "guess" not in app.query_params


def test_a_reader_may_change_what_a_stop_has_set_and_come_back(run_app: RunApp) -> None:
    app = run_app(tour="masks", stop="2")
    assert app.query_params["kind"] == "decoder_self"
    go_to(app, "glossary")
    assert "This stop is on the page **Attention**" in messages_in(app)
    app.button(key="tour_there").click().run()
    assert page(app) == "attention"
    app.button(key="tour_back").click().run()
    assert app.query_params["kind"] == "encoder_self"
    app.button(key="tour_leave").click().run()
    assert not {"tour", "stop", "guess"} & set(app.query_params)
    assert TOURS[2].stops[0].title not in messages_in(app)


def test_the_list_of_tours_starts_them(run_app: RunApp) -> None:
    app = run_app(at="tours")
    assert all(tour.title in messages_in(app) for tour in TOURS)
    app.button(key="start_training").click().run()
    assert page(app) == "tours"
    assert "Training 1 of 9" in messages_in(app)


def test_the_glossary_finds_words_and_keeps_the_search_in_the_link(run_app: RunApp) -> None:
    app = run_app(at="glossary")
    assert len(app.main.subheader) >= len(TERMS)
    letters = re.findall(r"\[(\w)\]\(#\1\)", messages_in(app))
    anchors = [each.proto.anchor for each in app.main.subheader]
    assert letters == [each for each in anchors if len(each) == 1] == sorted(set(letters))
    app.main.text_input(key="word_widget").set_value("softmax").run()
    assert app.main.subheader[0].value.startswith("softmax")
    assert "dropout" not in [each.value.split(" ")[0] for each in app.main.subheader]
    assert app.query_params["word"] == "softmax"
    app.main.text_input(key="word_widget").set_value("*xyzzy* :red[x]").run()
    assert "`*xyzzy* :red[x]`" in app.main.info[0].value
    assert run_app(word="beam", at="glossary").main.subheader[0].value.startswith("beam")


def press(app: AppTest, far: int = 1) -> None:
    app.session_state["headlight_go"] = ("stop", far)
    app.run()


def test_a_lecture_goes_scene_by_scene_and_comes_back(run_app: RunApp) -> None:
    app = run_app(
        at="attention", kind="cross", layer="2", checkpoint="reverse-toy", root=CHECKPOINTS
    )
    app.query_params.update({"lecture": "attention", "scene": "6"})
    app.run()
    assert page(app) == "tours" and app.query_params["scene"] == "6"
    assert LECTURES["attention"].stops[5].title in messages_in(app) and "6 / 8" in messages_in(app)
    assert "guess" not in app.query_params and "layer" not in app.query_params
    press(app)
    assert "one token takes what the others had" in messages_in(app)
    press(app)
    assert "No sentence of this lecture" in messages_in(app), "the toy has no riddle"
    press(app)
    press(app)
    assert "8 / 8" in messages_in(app) and "It first appears there" in messages_in(app)
    press(app, 9)
    assert "8 / 8" in messages_in(app)
    press(app, -2)
    press(app, -1)
    assert "one token takes what the others had" in messages_in(app), "back to the answer"
    app.session_state["headlight_go"] = ("lecture", 0)
    app.run()
    assert "lecture" not in app.query_params and "present" not in app.query_params


def test_a_lecture_is_listed_with_links_and_files(run_app: RunApp) -> None:
    app = run_app(at="tours", lessons="lecture", checkpoint="reverse-toy", root=CHECKPOINTS)
    for number, stop in enumerate(LECTURES["attention"].stops, 1):
        link = f"lecture=attention&scene={number}&checkpoint=reverse-toy"
        assert f"{number}. [{stop.title}](?{link})" in messages_in(app)
    app.button(key="lecture_files_attention").click().run(timeout=90)
    assert not app.main.error and not app.exception
    names = [str(button.proto.id) for button in app.get("download_button")]
    assert sum("png_attention" in name for name in names) == 7 and any(
        "pdf_" in name for name in names
    )


def test_a_lecture_of_ones_own_is_checked_and_started(run_app: RunApp) -> None:
    app = run_app(at="tours", lessons="lecture")
    app.text_area(key="own_box").set_value("/attention One\n/nowhere").run()
    assert any("Line 2: this app has no page" in each.value for each in app.warning)
    app.text_area(key="own_box").set_value(
        "/attention?kind=cross One *idea*\n? Where?\n! There"
    ).run()
    start = next(each for each in app.button if (each.key or "").startswith("lecture_start_~"))
    start.click().run()
    assert page(app) == "attention" and "One *idea*" in messages_in(app)
    assert "Where?" in messages_in(app) and "There" not in messages_in(app)
    press(app)
    assert "There" in messages_in(app)
    app.session_state["headlight_go"] = ("lecture", 0)
    app.run()
    assert page(app) == "tours" and app.query_params["lessons"] == "lecture"
    app = run_app(lecture="~damaged")
    assert any("Not a lecture" in each.value for each in app.warning)
