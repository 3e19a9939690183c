"""Small checkpoints, built once per session, and the order of tests."""

from __future__ import annotations

import gc
import random
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from transformer.config import ModelConfig
    from transformer.model import Transformer
    from transformer.text.tokenizer import Tokenizer
    from transformer.translator import Translator

# Examples are the same on every run, more of them in a soak; neither has a clock.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("soak", deadline=None, derandomize=True, max_examples=200)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--order-seed", type=int, default=None,
        help="shuffle the test files, and the tests in each, with this seed",
    )  # fmt: skip


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("--order-seed")
    return None if seed is None else f"order of tests: --order-seed {seed}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle files and their tests, independently of the selection."""
    seed = config.getoption("--order-seed")
    if seed is None:
        return

    def position(item: pytest.Item) -> list[float]:
        file = item.nodeid.partition("::")[0]
        first = "tests/browser/" in file  # the longest share
        parts = file, (file, _shared(item)), item.nodeid
        return [not first, *(random.Random(f"{seed} {part}").random() for part in parts)]

    items.sort(key=position)


#: Tests that ran in this process, in order.
_RAN: list[str] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add the order of earlier tests to a failure's report."""
    report = yield
    seed, file = item.config.getoption("--order-seed"), item.nodeid.partition("::")[0]
    if report.failed and seed is not None:
        files = dict.fromkeys(name.partition("::")[0] for name in _RAN)
        names = [name.removeprefix(f"{file}::") for name in _RAN if name.startswith(f"{file}::")]
        order = f"Files in this process: {' '.join(files)}\nTests of this file: {', '.join(names)}"
        report.sections.append((f"Before it, by --order-seed {seed}", order))
    if report.when == "teardown":
        _RAN.append(item.nodeid)
    return report


def _shared(item: pytest.Item) -> tuple[tuple[str, int], ...]:
    """Return fixture values that a test shares with other tests in its file."""
    call = getattr(item, "callspec", None)
    scopes = getattr(call, "_arg2scope", {})  # has no public name; without it, none is shared
    return tuple(
        (name, call.indices[name]) for name in sorted(scopes) if scopes[name].value != "function"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send whole files to workers, and all browser tests to one worker with the browser."""
    from xdist.scheduler import LoadScopeScheduling

    class OneBrowser(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "browser" if "tests/browser/" in nodeid else nodeid.split("::", 1)[0]

    return OneBrowser(config, log)


def pytest_collection_finish() -> None:
    """Exempt imported modules from garbage collection, which runs before every test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Tokenizer:
    """110 joint pieces; unseen characters become `<unk>`."""
    from tests.tiny_models import SENTENCES
    from transformer.text.tokenizer import train_tokenizer

    return train_tokenizer(SENTENCES, 110)


@pytest.fixture(scope="session")
def tiny_config(tiny_tokenizer: Tokenizer) -> ModelConfig:
    """Unequal depths, three heads, d_k != d_v."""
    from transformer.config import ModelConfig

    return ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=24, n_heads=3, d_k=6, d_v=10, d_ff=40,
        n_encoder_layers=2, n_decoder_layers=3, output_bias=True, max_positions=600,
    )  # fmt: skip


@pytest.fixture(scope="session")
def tiny_parser(
    tmp_path_factory: pytest.TempPathFactory, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> Path:
    from tests.tiny_models import random_parser
    from transformer.checkpoint.folder import save_checkpoint

    made = {"training": {"recipe": {"data": {"src": "en", "tgt": "tree"}}}}
    return save_checkpoint(
        tmp_path_factory.mktemp("trees") / "parser",
        *random_parser(tiny_config, tiny_tokenizer),
        metrics={**made, "default_decoding": {"beam_size": 2, "alpha": 0.3, "extra_length": 300}},
    )


@pytest.fixture(scope="session")
def tiny_model(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> Transformer:
    """A read-only model trained for a second, so that its translations end."""
    from tests.tiny_models import trained_model

    return trained_model(tiny_config, tiny_tokenizer)


@pytest.fixture(scope="session")
def tiny_translator(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> Translator:
    from transformer.translator import Translator

    return Translator(tiny_model, tiny_tokenizer, device="cpu", name="tiny")


@pytest.fixture(scope="session")
def tiny_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> Path:
    """The tiny model's folder; copy it before changing a file."""
    from transformer.checkpoint.folder import save_checkpoint

    folder = tmp_path_factory.mktemp("checkpoints") / "tiny"
    return save_checkpoint(folder, tiny_model, tiny_tokenizer, metrics={"bleu": 0.0})
