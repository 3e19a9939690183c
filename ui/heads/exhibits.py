"""The figure of a role: each head's score minus the best control."""

import numpy as np

from figures.exhibit import Exhibit, Numbers, Panel, file_stem
from figures.labels import KIND_NAMES
from transformer.study.records import Role, Study
from ui.export.programs import Source, start_of

_RESOLVE = "from transformer.models.catalogue import resolve"
_STUDY = "from transformer.study.records import Study"
_LOAD = """ref = resolve(path_of({name!r})).edited({edits!r})
study = Study.load(next(path for path in studies_of(ref) if path.name == {folder!r}))
"""
_ROLE = """role = study.role({role!r})
{kind} = study.grid(role, {kind!r}) - study.grid(role, {kind!r}, "bar")  # [layers, heads]
"""


def name_of(role: Role) -> str:
    """Return the name of a role's figure."""
    return file_stem("role", role.name)


def role_exhibit(study: Study, role: Role, source: Source, folder: str) -> Exhibit:
    """Return scores in a role minus the best control as a figure, [layers, heads] by kind.

    Args: folder: name of the study folder.
    """
    panels: list[Panel] = []
    arrays: dict[str, Numbers] = {}
    for kind in study.kinds:
        values = study.grid(role, kind) - study.grid(role, kind, "bar")
        if np.isnan(values).all():
            continue
        arrays[kind] = values
        panels.append(
            Panel.of_heads(KIND_NAMES[kind], values, "diverging", "score minus best control")
        )
    program = start_of((), _RESOLVE, f"{_STUDY}, studies_of")
    program += _LOAD.format(name=source.checkpoint, edits=source.edits, folder=folder)
    program += "".join(_ROLE.format(role=role.name, kind=kind) for kind in arrays)
    best = study.in_role(role)[0]
    return Exhibit(
        name_of(role), f"Heads in the role: {role.title}",
        "Share of trials in which a head follows the role, minus the best control. Best: "
        f"{best.head.off.place}, {best.score:.3f} of {best.pairs:,}, control {best.bar:.3f}. "
        f"Measured on {study.read}.",
        tuple(panels), arrays, program, facts={"Checkpoint": study.checkpoint},
    )  # fmt: skip
