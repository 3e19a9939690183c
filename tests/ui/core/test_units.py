"""The switch between tokens and words agrees with the store, on and off."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st

    from ui.core import url_state
    from ui.core.units import units_control

    url_state.read_url()
    st.text(units_control())
    url_state.write_url()


def open_with(**query: str) -> AppTest:
    app = AppTest.from_function(script, default_timeout=30)
    app.query_params.update(query)
    return app.run()


def test_it_opens_on_tokens_and_a_link_can_say_either() -> None:
    assert open_with().text[0].value == "tokens"
    app = open_with(units="words")
    assert app.toggle[0].value
    app.toggle[0].set_value(False).run()
    assert app.query_params["units"] == "tokens"
    app.toggle[0].set_value(True).run()
    assert app.query_params["units"] == "words"
