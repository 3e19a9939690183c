"""Headlight: see an encoder-decoder Transformer think. Start with `streamlit run app.py`."""

import sys
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from ui.core import url_state
from ui.frame import page as frame
from ui.frame.serving import begin, logo
from ui.hosting.gate import Gate, libraries
from ui.hosting.start import problems
from ui.work.desk import place_for_progress
from ui.work.visit import fall_back, run_in_turn

HERE = Path(__file__).parent
STARTING = "Starting: PyTorch and the model are being loaded. Only the first visit waits for this."


def main() -> None:
    """One run of the app: the head, the sidebar, a tour's bar, and the page on screen."""
    st.set_page_config(page_title="Headlight", page_icon=logo("mark"), layout="wide")
    st.logo(logo("headlight"), size="large")
    st.html(HERE / "ui/platform/style.css")
    url_state.read_url()  # before anything that takes time: a link clicked meanwhile ends this run

    frame.reload_changed()
    home = frame.all_pages()[0]
    pages, others = frame.menu(home), frame.other_addresses()
    hidden = [alias for alias, _ in others.values()]
    page = st.navigation([*pages.values(), *hidden], position="top")
    for alias, meant in others.values():
        if page is alias:
            st.switch_page(pages[meant.path], query_params=st.query_params.to_dict())
    here = next(entry for entry in frame.all_pages() if pages[entry.path] is page)
    if page.visibility == "hidden":  # rebuild the menu to mark this page
        pages = frame.menu(here)
        page = st.navigation([*pages.values(), *hidden], position="top")

    corner = st.container(key="keys")
    place_for_progress()
    with st.container(key="starting"):  # visible only while nothing is below it, see style.css
        if not libraries.is_set():
            st.text(STARTING)
    # PyTorch takes seconds to import, so the page's head is drawn first.
    from ui.core import presenter
    from ui.frame import editing, through_time
    from ui.frame.sidebar import draw_sidebar
    from ui.tours import guide, lecture
    from ui.work.roots import checkpoints_root

    libraries.set()
    url_state.enter("" if here is home else here.path, here.params)
    if url_state.entered():
        fall_back()
    turned, by = presenter.pressed()
    if turned == "lecture":
        guide.leave()
    elif turned == "answer":
        url_state.put(guide.GUESS, guide.LAST)
    path, values = frame.asked_for_page()
    if turned == "page":
        path, values = frame.view_beside(here, by)
        url_state.bring(values)
    if path and path != here.path:
        # As a link, so all of it counts, and as the page writes it, so that Back leads here.
        st.switch_page(pages[path], query_params=url_state.written_beside(here.params) | values)
    touring = bool(url_state.get(guide.TOUR) or url_state.get(guide.LECTURE))
    stop = guide.current_stop() if touring else None
    lecturing = stop is not None and stop.tour.lecture
    view = draw_sidebar(asks=here.model != "absent" or touring)
    guided = stop is not None and guide.fits(view)
    if guided and (stop_page := guide.follow(view, by if turned == "stop" else 0)) is not None:
        st.switch_page(pages[stop_page.path])
    with corner:
        presenter.draw_presenter(guided, lecturing, guide.evidence() if guided else "")
    frame.draw_door(here, view)
    if stop is not None and lecturing:
        lecture.draw_scene(stop, view)
    elif guided:
        guide.draw_bar(view, here)
    elif touring and view.checkpoint:
        guide.draw_unfit(view)
    if here.model != "absent":
        if view.entry.updates is not None and (view.entry.stack or here.path != "family"):
            through_time.draw_bar(view)
        if view.entry.ref.edits:
            editing.draw_bar(view)
    why = None if lecturing and here.path == "tours" else frame.why_not(view, here)
    if here.model == "needed" and not view.checkpoint:
        st.header("No model to look into")
        st.text(
            f"Nothing in {checkpoints_root().name}/ can be loaded.\n"
            "Train a model (python -m transformer train --help), "
            "or set HEADLIGHT_CHECKPOINTS to a folder of checkpoints."
        )
    elif why is not None:
        frame.draw_not_offered(view, here, why)
    else:
        page.run()
    url_state.write_url()


if __name__ == "__main__":
    with run_in_turn():
        main()
else:
    # `streamlit run` finds this by its name and serves it; the app then runs this file as above.
    st.secrets.load_if_toml_exists()  # some hosts set environment variables by this file
    if unfit := problems():
        sys.exit("Headlight does not start.\n" + "\n".join(f"  {why}" for why in unfit))
    app = st.App(__file__, middleware=[Middleware(Gate)], lifespan=begin)
