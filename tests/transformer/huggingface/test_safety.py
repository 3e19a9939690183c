"""Untrusted folders of the `transformers` library: data, never code, no way out of the folder."""

import json
import shutil
import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.transformer.damage import edit, remove, split, torch_file
from tests.transformer.huggingface.models import Pair, transformers
from transformer.errors import CheckpointError
from transformer.huggingface import HuggingFaceModel
from transformer.huggingface.files import check_folder

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

CONFIG, SETTINGS = "config.json", "tokenizer_config.json"


@pytest.fixture
def copied(made: dict[str, Pair], tmp_path: Path) -> Callable[[str], Path]:
    """Copies to be damaged."""
    return lambda name: Path(shutil.copytree(made[name].folder, tmp_path / name))


def test_sizes_without_the_library(copied: Callable[[str], Path]) -> None:
    """Only numbers that make something large are refused."""
    folder = copied("gpt2")
    edit(CONFIG, rope_theta=10**9, total_params=7 * 10**9, max_length=10**30)(folder)
    assert HuggingFaceModel.load(folder, "cpu").max_tokens == 48
    folder = copied("bert")
    check_folder(folder)
    edit(CONFIG, num_hidden_layers=10**9)(folder)
    with pytest.raises(CheckpointError, match="num_hidden_layers=1,000,000,000; at most 200"):
        check_folder(folder)


def test_code_beside_the_model_is_not_run(copied: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copied("gpt2")
    ran = tmp_path / "ran"
    (folder / "custom_generate").mkdir()
    code = f"from pathlib import Path\nPath({str(ran)!r}).touch()\n"
    for name in ("custom_generate/generate.py", "modeling_gpt2.py", "__init__.py", "evil.py"):
        (folder / name).write_text(code)
    edit("generation_config.json", custom_generate="evil")(folder)
    edit(CONFIG, attn_implementation="owner/kernel", fusion_config={"x": True})(folder)
    trace = HuggingFaceModel.load(folder, "cpu").trace("The cat", new_tokens=2)
    assert len(trace.tgt_ids) > 2 and not ran.exists()


def test_torch_files_and_shards_give_the_same(
    copied: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = copied("bart")
    first = HuggingFaceModel.load(folder, "cpu").trace("A dog runs.", "Ein Hund.")
    shutil.copytree(folder, tmp_path / "shards" / "bart")
    torch_file(lambda state: state, "pytorch_model.bin")(folder)
    split()(tmp_path / "shards" / "bart")
    from_torch, from_shards = (
        HuggingFaceModel.load(each, "cpu").trace("A dog runs.", "Ein Hund.")
        for each in (folder, tmp_path / "shards" / "bart")
    )
    for other in (from_torch, from_shards):
        assert (other.cross == first.cross).all() and other.predicted_ids == first.predicted_ids


def test_half_precision_is_computed_in_full(copied: Callable[[str], Path]) -> None:
    folder = copied("bert")
    state = safetensors.torch.load_file(folder / "model.safetensors")
    halves = {name: tensor.half() for name, tensor in state.items()}
    safetensors.torch.save_file(halves, folder / "model.safetensors", {"format": "pt"})
    edit(CONFIG, dtype="float16")(folder)
    trace = HuggingFaceModel.load(folder, "cpu").trace("A dog runs.")
    theirs = transformers.BertModel.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.inference_mode():
        output = theirs(torch.tensor([trace.src_ids]), output_attentions=True)
    torch.testing.assert_close(
        torch.tensor(trace.encoder_self), torch.cat(output.attentions), atol=1e-6, rtol=0
    )


def test_files_of_older_tokenizers(copied: Callable[[str], Path]) -> None:
    """vocab.txt, and vocab.json with merges.txt, give what tokenizer.json does."""
    for name in ("bert", "bart"):
        folder = copied(name)
        before = HuggingFaceModel.load(folder, "cpu").trace("The animal (it) was tired.")
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        remove("tokenizer.json")(folder)
        edit(SETTINGS, tokenizer_class=..., backend=...)(folder)
        if name == "bert":
            pieces = sorted(model["vocab"], key=model["vocab"].get)
            (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
        else:
            (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
            merges = (" ".join(pair) for pair in model["merges"])
            (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        after = HuggingFaceModel.load(folder, "cpu").trace("The animal (it) was tired.")
        assert after.src_tokens == before.src_tokens


def test_settings_name_no_other_file(copied: Callable[[str], Path], tmp_path: Path) -> None:
    """A tokenizer's files lie in its folder, whatever its settings name."""
    folder, other = copied("m2m100"), tmp_path / "other.json"
    other.write_text((folder / "vocab.json").read_text())
    (folder / "vocab.json").unlink()
    edit(SETTINGS, vocab_file=str(other), spm_file="/etc/hostname")(folder)
    with pytest.raises(CheckpointError, match="the tokenizer cannot be read"):
        HuggingFaceModel.load(folder, "cpu")


def test_tokenizers_that_do_not_fit(copied: Callable[[str], Path]) -> None:
    """One that would truncate does not, and one of another model is refused."""
    folder = copied("bert")
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    edit("tokenizer.json", truncation=truncation)(folder)
    trace = HuggingFaceModel.load(folder, "cpu").trace("A dog runs across the green grass.")
    assert len(trace.src_ids) > 8
    shutil.copy(copied("gpt2") / "tokenizer.json", folder)
    with pytest.raises(CheckpointError, match=r"tokenizer has \d+ pieces, but the model's"):
        HuggingFaceModel.load(folder, "cpu")


def test_no_network(made: dict[str, Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading and tracing use no network, even if the hub is not switched off."""
    from huggingface_hub import constants

    asked: list[object] = []
    models = [made[name].folder for name in ("bart", "bert", "gpt2", "m2m100")]

    def refuse(*arguments: object, **_: object) -> Any:
        asked.append(arguments)
        raise OSError("no network")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for folder in models:
        HuggingFaceModel.load(folder, "cpu").trace("A dog runs.", max_length=3)
    assert not asked


def test_loading_is_quiet(made: dict[str, Pair], capfd: pytest.CaptureFixture[str]) -> None:
    transformers.logging.set_verbosity_warning()
    transformers.logging.enable_progress_bar()
    folder = made["bart"].folder
    capfd.readouterr()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        HuggingFaceModel.load(folder, "cpu").trace("A dog.", beam_size=2)
    assert not seen and capfd.readouterr() == ("", "")
