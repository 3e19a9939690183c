"""The import form of the Models page, and the progress of an import."""

from collections.abc import Callable

import streamlit as st

from figures.labels import code, in_bytes, plain
from transformer.files.hub import HubModel, is_name, look_up, missing_client
from transformer.models.catalogue import Entry
from transformer.models.importers.registry import FORMATS, Format
from transformer.models.importers.torch_content import explanation, hint
from transformer.models.kinds import format_of
from transformer.types import CheckpointError
from transformer.worker.limits import free_memory
from ui.core import url_state
from ui.core.public import is_public
from ui.core.url_state import Param, one_of
from ui.core.widgets import bound, fill
from ui.frame.import_access import admit, refusal, take_token, wants_token
from ui.frame.page import page_at, streamlit_page
from ui.models import import_plan
from ui.models.import_plan import Import, Plan, begin, plan_folder, plan_hub
from ui.work.desk import Progress, attend
from ui.work.roots import checkpoint_roots, without_root

#: Session state: the running or last import, and the hub models looked up.
_JOB, _HUB_MODELS = "headlight_import", "headlight_hub_model"

FORMAT: Param[str] = Param("format", one_of(FORMATS), next(iter(FORMATS)))
FROM: Param[str] = Param("from", one_of(("folder", "hub")), "folder")
FOLDER: Param[str] = Param("folder", url_state.text(200), "")
HUB: Param[str] = Param("hub", url_state.text(200), "")
NEW_NAME: Param[str] = Param("as", url_state.text(200), "")


def bring(entry: Entry) -> None:
    """Fill the form with a folder that is not imported yet."""
    kind = format_of(entry.ref)
    url_state.store({
        FORMAT: kind.name if kind else url_state.get(FORMAT), FROM: "folder",
        FOLDER: without_root(str(entry.path)),
        NEW_NAME: url_state.get(NEW_NAME) or import_plan.free_name(entry.name),
    })  # fmt: skip


def draw_import(use: Callable[[str], None]) -> None:
    """Draw the form, this session's import, or say why imports are not available."""
    take_token()
    job: Import | None = st.session_state.get(_JOB)
    if (why := refusal() or import_plan.cannot_write()) is not None:
        _draw_refusal(why)
    elif job is not None:
        _draw_running(job) if job.running else _draw_end(job, use)
    else:
        kind, plan = _draw_choices()
        if plan is not None:
            _draw_plan(plan)
        else:
            st.caption(f"A {plain(kind.title)} model consists of {plain(kind.holds)}.")


def _draw_refusal(why: str) -> None:
    st.info(plain(why), icon=":material/lock:")
    if wants_token():

        def take() -> None:
            typed = st.session_state.pop("import_token", "")
            if typed and not admit(typed):
                st.toast("That is not this server's token.", icon=":material/error:")

        st.text_input("Token", type="password", max_chars=200, key="import_token", on_change=take)
    if not is_public():  # visitors of a public server have no command line there
        st.caption("You can still import on the server's command line:")
        command = "python -m transformer import marian DIR --out checkpoints/NAME"
        st.code(command, language="shell", wrap_lines=True)


def _draw_choices() -> tuple[Format, Plan | None]:
    """Draw format, source and name; return the format, and the plan if all three are valid."""
    url_state.show(FORMAT, FROM, NEW_NAME)
    left, middle, right = st.columns([2, 3, 2])
    with left:
        name = st.selectbox(
            "Format", tuple(FORMATS), format_func=lambda key: FORMATS[key].title, **bound(FORMAT)
        )
        place = st.segmented_control(
            "From", ("folder", "hub"), required=True,
            format_func={"folder": "This server", "hub": "Hugging Face hub"}.__getitem__,
            **bound(FROM),
        )  # fmt: skip
    kind = FORMATS[name]
    with middle:
        source = _draw_folder(kind) if place == "folder" else _draw_hub(kind)
    with right:
        new_name = st.text_input(
            "New checkpoint name", max_chars=64, placeholder="my-model", **bound(NEW_NAME)
        )
    if source and new_name:
        try:
            if isinstance(source, HubModel):
                return kind, plan_hub(kind, source, new_name)
            return kind, plan_folder(kind, source, new_name)
        except CheckpointError as error:
            _warn(error)
    return kind, None


def _draw_folder(kind: Format) -> str:
    url_state.show(FOLDER)
    folders, chosen, key = import_plan.folders_for(kind), url_state.get(FOLDER), "folder_box"
    if folders:
        fill(key, chosen or None)
        st.selectbox(
            "Folder", folders if chosen in ("", *folders) else [chosen, *folders], index=None,
            key=key, accept_new_options=True, placeholder="Choose a folder or type its name",
            on_change=lambda: url_state.put(FOLDER, (st.session_state[key] or "")[:200]),
        )  # fmt: skip
    else:
        st.text_input("Folder", max_chars=200, placeholder="folder name", **bound(FOLDER))
    roots = ", ".join(f"{root.name}/" for root in checkpoint_roots())
    count = f"{len(folders)} found" if folders else "None found"
    st.caption(f"{count} in {plain(roots)}. The app cannot open other folders on the server.")
    return url_state.get(FOLDER)


def _draw_hub(kind: Format) -> HubModel | None:
    """Draw the choice of a model on the hub; return it if its size is known."""
    url_state.show(HUB)
    why = missing_client()
    name = st.text_input(
        "Name on the hub", max_chars=200, placeholder="Helsinki-NLP/opus-mt-en-de",
        disabled=why is not None, **bound(HUB),
    ).strip()  # fmt: skip
    if why is not None:
        st.caption(f":material/cloud_off: Not available: {plain(why)}.")
        return None
    models: dict[tuple[str, str], HubModel] = st.session_state.setdefault(_HUB_MODELS, {})
    model = models.get((kind.name, name))
    if model is not None:
        size = f"{len(model.files)} files, {in_bytes(model.size)}"
        st.caption(f"{size}, at commit {code(model.revision[:8])}.")
        return model
    pressed = st.button(
        "Look up its size", icon=":material/cloud:", disabled=not is_name(name),
        help="This does not download the model.",
    )  # fmt: skip
    if name and not is_name(name):
        st.caption("Model names on the hub have the form owner/name.")
    if pressed:
        try:
            models[kind.name, name] = attend(
                lambda: look_up(name, kind.files), Progress(("look up", name))
            )
        except CheckpointError as error:
            _warn(error)
        else:
            st.rerun()
    return None


def _draw_plan(plan: Plan) -> None:
    verb = "Downloads" if isinstance(plan.source, HubModel) else "Reads"
    free = [import_plan.free_disk(), free_memory()]
    disk, memory = (f" ({in_bytes(size)} free)" if size is not None else "" for size in free)
    st.markdown(
        f"{verb} **{in_bytes(plan.read)}** from {code(plan.called)}; takes up to "
        f"**{in_bytes(plan.disk)}** of disk space{disk} and "
        f"**{in_bytes(plan.memory)}** of memory{memory}."
    )
    try:
        import_plan.check_room(plan)
    except CheckpointError as error:
        _warn(error)
        return
    st.button(
        f"Import as {plain(plan.name)}", type="primary", icon=":material/download:",
        on_click=_begin, args=(plan,), key="import_button",
    )  # fmt: skip


def _begin(plan: Plan) -> None:
    try:
        st.session_state[_JOB] = begin(plan)
    except CheckpointError as error:
        st.toast(plain(without_root(str(error))), icon=":material/error:")


@st.fragment(run_every=0.5)
def _draw_running(job: Import) -> None:
    if not job.running:
        st.rerun()
    done, most = job.progress
    words = {
        "waiting": "Waiting for another import to finish",
        "fetching": f"Downloading {in_bytes(done)} of {in_bytes(most)}",
        "reading": f"Reading and checking tensors, {done} of {most}",
    }
    share = done / most if most > 0 else 0.0
    st.markdown(f"Importing {code(job.plan.called)} as **{plain(job.plan.name)}**")
    st.progress(min(1.0, share), words[job.step])
    st.button("Stop", icon=":material/stop:", on_click=job.stop, key="stop_import")
    st.caption("You can use other pages in the meantime.")


def _draw_end(job: Import, use: Callable[[str], None]) -> None:
    if job.phase == "done":
        name = plain(job.plan.name)
        st.success(f"Imported {code(job.plan.called)} as **{name}**.", icon=":material/check:")
    elif job.phase == "stopped":
        st.info("Stopped. Nothing was kept.", icon=":material/stop_circle:")
    else:
        st.error(f"{plain(job.error)}. Nothing was kept.", icon=":material/error:")
        if hint(job.plan.format) in job.error:
            with st.expander("How to convert it", icon=":material/build:"):
                st.caption(
                    "If you trust the file's author, run this program beside the file. It keeps "
                    "the weights and the plain settings. The app itself never runs it."
                )
                st.code(explanation(job.plan.format), language="python", height=240)
    with st.container(horizontal=True):
        if job.phase == "done" and st.button(
            "Use it", type="primary", icon=":material/arrow_forward:", key="use_import"
        ):
            use(job.plan.name)
            _clear()
            st.switch_page(streamlit_page(page_at("translate")))
        st.button("Import another", key="again_import", on_click=_clear)


def _clear() -> None:
    st.session_state.pop(_JOB, None)
    url_state.forget(FOLDER, HUB, NEW_NAME)


def _warn(error: CheckpointError) -> None:
    st.warning(f"{plain(without_root(str(error)))}.", icon=":material/error:")
