import pytest
from streamlit.testing.v1 import AppTest

from ui.core import url_state
from ui.core.url_state import MAX_URL_CHARACTERS, Param
from ui.core.view import MAX_CHARACTERS, SENTENCE


def test_a_sentence_longer_than_the_box_is_refused() -> None:
    assert SENTENCE.parse("a" * MAX_CHARACTERS)
    with pytest.raises(ValueError, match="aaa"):
        SENTENCE.parse("a" * (MAX_CHARACTERS + 1))


def script() -> None:
    """A frame with two settings of the page and one other setting."""
    import streamlit as st

    from ui.core import url_state

    mine = url_state.Param("mine", url_state.whole(0, 9), 5)
    later = url_state.Param("later", url_state.whole(0, 9), 5)
    other = url_state.Param("other", url_state.whole(0, 9), 5)
    url_state.read_url()
    url_state.enter("page", ())
    url_state.show(mine, later)
    url_state.put(other, 7)
    for param in (mine, later):
        if param.name in st.session_state:
            url_state.put(param, st.session_state[param.name])
            del st.session_state[param.name]
    st.text(f"{url_state.get(mine)} {url_state.arrived(mine)}")
    st.text(url_state.get(later))
    url_state.write_url()


def run_script(**query: str) -> AppTest:
    app = AppTest.from_function(script)
    app.query_params.update(query)
    return app.run()


def test_the_url_is_taken_over_once_and_follows_afterwards() -> None:
    app = run_script(mine="0")
    assert app.text[0].value == "0 True"
    app.session_state["mine"] = 3
    app.run()
    assert app.text[0].value == "3 False" and app.query_params == {"mine": "3"}
    app.query_params["mine"] = "4"  # the user edits the address
    app.run()
    assert app.text[0].value == "4 True"


def test_invalid_values_and_what_is_not_shown_leave_the_url() -> None:
    for query, said, left in (
        ({"mine": "77"}, "5 True", {}),
        ({"utm": "t", "other": "1", "mine": "1"}, "1 True", {"mine": "1"}),
    ):
        app = run_script(**query)
        assert app.text[0].value == said and app.query_params == left


def test_a_late_or_dropped_query_does_not_turn_time_back() -> None:
    app = run_script(mine="2")
    app.query_params.clear()  # by a change of page
    app.run()
    assert app.text[0].value == "2 False" and app.query_params == {"mine": "2"}
    for mine, late in ((3, "2"), (4, "2"), (4, "3")):
        app.session_state["mine"] = mine
        app.query_params["mine"] = late  # sent by the browser before the last change reached it
        app.run()
        assert app.text[0].value == f"{mine} False"
        assert app.query_params == {"mine": str(mine)}


def test_an_earlier_url_takes_back_what_it_did_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    app = run_script(mine="1")
    app.session_state["later"] = 3
    app.run()
    assert app.query_params == {"mine": "1", "later": "3"}
    del app.query_params["later"]
    app.run()  # at once: a message sent by the browser before the 3 reached it
    assert app.text[1].value == "3"
    monkeypatch.setattr(url_state, "went_back", lambda: True)
    del app.query_params["later"]
    app.run()  # the back button
    assert app.text[1].value == "5"
    assert app.query_params == {"mine": "1"}


def test_a_very_long_value_stays_out_of_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(url_state.st, "session_state", {})
    words = Param("words", str, "")
    url_state.show(words)
    for length in (MAX_URL_CHARACTERS, MAX_URL_CHARACTERS + 1):
        url_state.put(words, "a" * length)
        assert bool(url_state.query()) == (length <= MAX_URL_CHARACTERS)


def test_addresses_do_not_fill_a_session() -> None:
    app = run_script(mine="3")
    for number in range(5):
        for count, size in ((500, 9), (9, 20_000)):
            app.query_params.clear()
            app.query_params.update({f"{number} {i}": "x" * size for i in range(count)})
            app.run()
    store = app.session_state["headlight_store"]
    assert sum(len(name) + len(value) for name, value in store.items()) <= 100_000
    assert 0 < len(store) <= 1_000
    app.query_params["mine"] = "4"
    assert app.run().text[0].value == "4 True"
