"""Studies on this server: one at a time, plus small studies of a visitor's own sentences.

A study continues after its page is left, and resumes after a stop or a killed server. Studies
require the rights to train and import, since results are written in the checkpoint folder.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from transformer.checkpoint.reference import ModelRef
from transformer.models.catalogue import open_tracer
from transformer.models.one_stack.tracer import StackModel
from transformer.study.corpus import DEFAULT
from transformer.study.importance import importance, whole_study
from transformer.study.records import Study
from transformer.study.run import study
from transformer.translator import Translator
from transformer.types import Report
from transformer.worker.job import Job, Register
from transformer.worker.process import start_alone
from ui.core import public
from ui.frame import import_access
from ui.heads.choice import OWN
from ui.work.studies import Opened

#: The study in progress, or the last one.
JOBS: Register[ModelRef, Job[Path]] = Register()


def refusal() -> str | None:
    """Return the reason why this session may not start a study, or None."""
    return public.job_refusal("Studying a model in the app") or import_access.refusal("study")


def begin(ref: ModelRef) -> str | None:
    """Start a study over the default corpus; return a reason if it cannot start, or None."""
    try:
        if JOBS.begin(ref, lambda: start_alone(whole_study, ref, DEFAULT)) is not None:
            return None
    except OSError as error:
        return f"The study cannot start: {error.strerror or error}."
    other = next(iter(JOBS.running()), ref)
    return f"This server is studying {other.name}. You can start yours when it ends."


def study_own(ref: ModelRef, device: str, lines: Sequence[str], report: Report) -> Opened:
    """Study unannotated sentences, with the fast importance measures.

    Args: report: called with (steps done, total steps); may raise to stop.
    """
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / f"{OWN}.txt"
        text.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        result = Study.load(study(ref, text, Path(folder) / OWN, device=device, progress=report))
    tracer = open_tracer(ref, device)
    if isinstance(tracer, Translator | StackModel):
        measures = [*importance(
            tracer, lines, names=("gradient", "removal", "sharpness"), report=report
        )]  # fmt: skip
        about = {"sentences": len(lines), "text": "of your own sentences",
                 "reliability": {name: value for name, _, value in measures}}  # fmt: skip
        result = replace(
            result, importance={name: grids for name, grids, _ in measures},
            notes={"importance": about},
        )  # fmt: skip
    return Opened(result, OWN)
