"""Fixtures that run the app as a script, on small random or shipped checkpoints."""

import functools
import inspect
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import AppTest, local_script_runner
from streamlit.testing.v1.local_script_runner import LocalScriptRunner
from streamlit.util import calc_hash

from tests.factories import make_trace
from tests.forks import ROOT
from transformer.config import ModelConfig
from transformer.execution.packed import PackedEncoder
from transformer.execution.steps import PackedSteps
from transformer.model import Transformer
from transformer.models.arrays.trace_file import save_arrays
from transformer.models.one_stack.config import Task
from transformer.text.tokenizer import Tokenizer
from ui.heads import setup
from ui.hosting.gate import libraries
from ui.models import import_plan
from ui.work import results
from ui.work.lru import Lru

RunApp = Callable[..., AppTest]
CAT = "The cat sat on the mat."


@pytest.fixture(scope="session")
def random_checkpoints(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    root = tmp_path_factory.mktemp("root")
    for name in ("alpha", "beta", "cut", "no-weights"):
        shutil.copytree(tiny_checkpoint, root / name)
    weights = root / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    (root / "no-weights" / "model.safetensors").unlink()
    return root


@pytest.fixture(scope="session")
def family(
    tmp_path_factory: pytest.TempPathFactory, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer,
    tiny_model: Transformer,
) -> Path:  # fmt: skip
    from tests.random_stacks import SHAPES, random_stack
    from transformer.checkpoint.folder import save_checkpoint
    from transformer.models.one_stack.model import save_stack

    data = {"training": {"recipe": {"data": {"corpora": ["x"], "src": "en", "tgt": "de"}}}}
    folder = tmp_path_factory.mktemp("family")
    save_checkpoint(folder / "two", tiny_model, tiny_tokenizer, metrics=data)
    names: dict[str, Task] = {"writer": "continue", "reader": "fill", "one": "translate"}
    for name, task in names.items():
        shape = "later" if task != "translate" else "2017"
        model, tokenizer = random_stack(task, tiny_config.replace(**SHAPES[shape]), tiny_tokenizer)
        errors = {
            "sentences": 1, "diagonal": {"error": 0.5, "interval": [0.4, 0.6]},
            "reading": [[0.9] * 3] * 3, "predicting": [[0.9, 0.8, 0.9]] * 2 + [[0.9, 0.9, 0.3]],
        }  # fmt: skip
        metrics = data if task != "translate" else {**data, "alignment": errors}
        save_stack(folder / name, model, tokenizer, metrics=metrics)
    return folder


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory, random_checkpoints: Path, family: Path) -> Path:
    root = tmp_path_factory.mktemp("kinds")
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    for name in ("reader", "writer", "one"):
        shutil.copytree(family / name, root / name)
    text = ("The", "שלום", "<script>alert(1)</script>", "$x$ **b**", "w" * 200, ".")
    save_arrays(make_trace(S=6, T=4, src_tokens=text[:5]), root / "both.npz")
    trace = make_trace(S=7, T=6, n_encoder_layers=2, n_decoder_layers=4, n_heads=5)
    decoded, read = np.array([f"Ġ{token}" for token in text]), ["[CLS]", *text[:5], "[SEP]"]
    np.savez(root / "text.npz", attention=trace.decoder_self, tokens=decoded)
    np.savez(root / "read.npz", attentions=trace.encoder_self[:, None], tokens=np.array(read))
    np.savez(root / "maps.npz", decoder_self=trace.decoder_self, cross=make_trace(S=5, T=6).cross)
    (root / "broken.npz").write_bytes((root / "both.npz").read_bytes()[:-200])
    np.savez(root / "objects.npz", attention=np.array([[None]]))
    np.savez(root / "off.npz", attention=np.full((1, 3, 3), 0.5))
    if find_spec("transformers"):
        from tests.transformer.models.huggingface import models as huggingface

        for name in ("t5", "gpt2", "bert", "marian"):
            (root / name).mkdir()
            huggingface.EVERY[name](root / name)
    return root


#: Compiled scripts and components; one search for each process, as in a server.
_SCRIPTS = ScriptCache()
_components = functools.cache(manifest_scanner.scan_component_manifests)


@pytest.fixture(scope="module", autouse=True)
def _started_once() -> Iterator[None]:
    """Load libraries and compile each script once, as a server does; fail on any traceback."""
    libraries.set()  # else the first run of a process says that they are being loaded
    ask, run = local_script_runner.require_widgets_deltas, AppTest._run

    def ended(runner: LocalScriptRunner, timeout: float) -> None:
        """Wait for the run without polling."""
        if runner._script_thread is not None:
            runner._script_thread.join(timeout)
        ask(runner, timeout)

    def checked(app: AppTest, *args: Any, **options: Any) -> AppTest:
        run(app, *args, **options)
        assert not app.exception, app.exception[0].message
        return app

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AppTest, "_run", checked)
        patch.setattr(local_script_runner, "require_widgets_deltas", ended)
        patch.setattr(manifest_scanner, "scan_component_manifests", _components)
        patch.setattr(results, "_TIMES", 0)  # a run may follow in no time on a change of files
        for module in ("app_test", "local_script_runner"):
            patch.setattr(f"streamlit.testing.v1.{module}.ScriptCache", lambda: _SCRIPTS)
        yield


class Caches(NamedTuple):
    """Results and pictures, separate from other tests' caches."""

    results: Lru
    pictures: Lru

    @classmethod
    def empty(cls) -> "Caches":
        return cls(Lru(128 * 2**20), Lru(32 * 2**20, attrgetter("nbytes")))

    @contextmanager
    def used(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ui.work.results.CACHE", self.results)
            patch.setattr("ui.work.desk.PICTURES", self.pictures)
            yield


@pytest.fixture(scope="session")
def _shared_caches() -> Caches:
    return Caches.empty()


@pytest.fixture(autouse=True, scope="module")
def _sharing(_shared_caches: Caches) -> Iterator[None]:
    with _shared_caches.used():
        yield


@pytest.fixture
def nothing_cached() -> Iterator[None]:
    with Caches.empty().used():
        yield


@pytest.fixture
def no_job_outlives_its_test() -> Iterator[None]:
    yield
    for job in (*import_plan.JOBS.running().values(), *setup.JOBS.all().values()):
        job.stop()
        job.ended(300)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, str], list[dict[str, Any]]]:
    """Record a function's calls, with arguments by name."""

    def record(owner: object, name: str) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        real = getattr(owner, name)
        named = inspect.signature(real)

        def call(*args: Any, **options: Any) -> Any:
            calls.append(named.bind(*args, **options).arguments)
            return real(*args, **options)

        monkeypatch.setattr(owner, name, call)
        return calls

    return record


@pytest.fixture(scope="session")
def root(random_checkpoints: Path) -> Path:
    return random_checkpoints


@pytest.fixture
def forward_passes(recorded: Any) -> Callable[[], int]:
    """Count encoder and decoder calls, reference and fast, since the last count."""
    whole = [recorded(Transformer, name) for name in ("encode", "decode")]
    calls = [*whole, recorded(PackedEncoder, "encode"), recorded(PackedSteps, "__call__")]

    def count() -> int:
        found = sum(map(len, calls))
        for each in calls:
            each.clear()
        return found

    return count


@pytest.fixture
def run_app(monkeypatch: pytest.MonkeyPatch, root: Path) -> RunApp:
    """Run the app once at a page (`at`, by default the first) with a query and checkpoints."""

    def run(root: Path = root, at: str = "", **query: str) -> AppTest:
        monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(root))
        monkeypatch.setenv("HEADLIGHT_IMPORT", "on")  # no token is needed
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300)
        app.query_params.update(query)
        if at:
            # As `switch_page` does, but without a run before it, and on the same server.
            app._page_hash = calc_hash(at)
            app.session_state["headlight_started"] = True
        return app.run()

    return run


@pytest.fixture
def open_page(run_app: RunApp, request: pytest.FixtureRequest) -> RunApp:
    """Open a page on a sentence, by default the page named by the test file."""
    page = request.path.stem.removeprefix("test_").removesuffix("_page")
    here = {"checkpoint": "alpha", "sentence": CAT}
    return lambda at=page, **given: run_app(at=at, **{**here, **given})
