"""Untrusted folders of the `transformers` library: data, never code, no way out of the folder."""

from __future__ import annotations

import json
import pickle
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.transformer.damage import Damage, Evil, cut, edit, plant_code, remove, weights, write
from tests.transformer.huggingface.models import EVERY, transformers
from transformer.errors import CheckpointError
from transformer.huggingface import HuggingFaceModel
from transformer.huggingface.files import check_folder

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for name in ("bart", "bert", "gpt2", "m2m100"):
        EVERY[name](folder / name)
    return folder


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Copies to be damaged."""
    return lambda name: Path(shutil.copytree(whole / name, tmp_path / name))


def index(**weight_map: object) -> Damage:
    def damage(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        written = json.dumps({"weight_map": weight_map})
        (folder / "model.safetensors.index.json").write_text(written)

    return damage


CONFIG, SETTINGS = "config.json", "tokenizer_config.json"
FC = "model.encoder.layers.0.fc1.weight"
#: How BART's folder is damaged, and the message.
DAMAGES: dict[str, tuple[Damage, str]] = {
    "code of its own": (edit(CONFIG, auto_map={"AutoConfig": "evil.Config"}), "auto_map asks for"),
    "code further in": (edit(CONFIG, text_config={"auto_map": {"AutoModel": "a.B"}}), "auto_map"),
    "a tokenizer's code": (edit(SETTINGS, auto_map={"AutoTokenizer": ["evil.T", None]}),
                           r"tokenizer_config\.json: auto_map asks for"),
    "a billion layers": (edit(CONFIG, encoder_layers=10**9), "encoder_layers=1,000,000,000"),
    "a billion heads": (edit(CONFIG, encoder_attention_heads=10**9), "at most 10,000 are"),
    "a billion labels": (edit(CONFIG, num_labels=10**9), "num_labels=1,000,000,000"),
    "a vast number": (edit(CONFIG, d_model=10**30), "d_model="),
    "many parameters": (edit(CONFIG, d_model=60_000, encoder_ffn_dim=100_000), "asks for|shape"),
    "a huge vocabulary": (edit(CONFIG, vocab_size=90_000_000), "has shape|asks for"),
    "more than is stored": (edit(CONFIG, max_position_embeddings=900_000),
                            "has shape|parameters, but the weights"),
    "no type": (edit(CONFIG, model_type=...), "model_type is missing"),
    "an unknown type": (edit(CONFIG, model_type="<b>nonsense</b>"), "is not one that the transf"),
    "no text": (write(CONFIG, b'{"model_type": "whisper"}'),
                r"'whisper' reads input features and no tokens; it is not supp.*\(BERT, T5\w+\)$"),
    "none of the families": (write(CONFIG, b'{"model_type": "dpr"}'), "'dpr' is not supported"),
    "quantised": (edit(CONFIG, quantization_config={"quant_method": "bitsandbytes"}), "quantised"),
    "a size as text": (edit(CONFIG, d_model="18"), r"config\.json: "),
    "heads that do not fit": (edit(CONFIG, encoder_attention_heads=4), r"config\.json: no model"),
    "another width": (edit(CONFIG, encoder_ffn_dim=24), r"has shape .*config\.json asks for"),
    "a layer less": (edit(CONFIG, encoder_layers=2), "'model.encoder.layers.2.* does not belong"),
    "a layer more": (edit(CONFIG, decoder_layers=2), "'model.decoder.layers.1.* missing"),
    "start outside": (edit("generation_config.json", decoder_start_token_id=10**6),
                      "decoder_start_token_id=1000000 is not a token"),
    "end as text": (edit("generation_config.json", eos_token_id="</s>"), "eos_token_id='</s>'"),
    "bad words": (edit("generation_config.json", bad_words_ids=[[5], ["x"]]), "bad_words_ids='x'"),
    "bad words nested": (edit("generation_config.json", bad_words_ids={"a": 1}), "bad_words_ids"),
    "config cut": (cut(CONFIG, 0.5), r"config\.json: not valid JSON"),
    "config a list": (write(CONFIG, b"[]"), r"config\.json: expected a JSON object"),
    "config nested": (write(CONFIG, b"[" * 100_000), r"config\.json: not valid JSON"),
    "no config": (remove(CONFIG), r"config\.json: the file is missing"),
    "no weights": (remove("model.safetensors"), r"model\.safetensors: the file is missing"),
    "half copied": (cut("model.safetensors", 0.5), r"model\.safetensors: not a whole"),
    "empty": (write("model.safetensors", b""), r"model\.safetensors: not a whole"),
    "NaN": (weights(lambda s: s[FC].view(-1).__setitem__(3, float("nan"))), f"{FC}.* holds NaN"),
    "a tensor less": (weights(lambda s: s.pop(FC)), f"{FC}' is missing"),
    "a shape": (weights(lambda s: s.update({FC: s[FC][:5].clone()})), f"{FC}' has shape"),
    "complex": (weights(lambda s: s.update({FC: s[FC].double()})), "stored as F64"),
    "whole numbers": (weights(lambda s: s.update({FC: s[FC].int()})), "is missing"),
    "no tokenizer": (lambda f: [remove(n)(f) for n in ("tokenizer.json", SETTINGS)],
                     "tokenizer's files are missing"),
    "tokenizer cut": (cut("tokenizer.json", 0.6), "the tokenizer cannot be read"),
    "tokenizer a list": (write("tokenizer.json", b"[1]"), "the tokenizer cannot be read"),
    "settings cut": (cut(SETTINGS, 0.6), r"tokenizer_config\.json: not valid JSON"),
    "index to elsewhere": (index(**{FC: "../../etc/model-1.safetensors"}), "is not the name of"),
    "index to another kind": (index(**{FC: "evil.bin"}), "is not the name of"),
    "index of nothing": (index(), "does not say which"),
    "index of a file that is not there": (index(**{FC: "model-2.safetensors"}), "file is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_wrong_is_said_in_one_line(name: str, copied: Callable[[str], Path]) -> None:
    folder = copied("bart")
    damage, reason = DAMAGES[name]
    damage(folder)
    with pytest.raises(CheckpointError, match=reason) as caught:
        HuggingFaceModel.load(folder, "cpu")
    said = str(caught.value)
    assert "\n" not in said and len(said) < 600
    assert str(folder) in said and "headlight-tokenizer" not in said


def test_what_shows_without_the_library(copied: Callable[[str], Path]) -> None:
    folder = copied("bert")
    check_folder(folder)
    edit(CONFIG, num_hidden_layers=10**9)(folder)
    with pytest.raises(CheckpointError, match="num_hidden_layers=1,000,000,000; at most 200"):
        check_folder(folder)


@pytest.mark.parametrize("bare", [False, True])
def test_a_pickle_cannot_run_code(
    copied: Callable[[str], Path], tmp_path: Path, bare: bool
) -> None:
    folder = copied("bart")
    plant_code(folder, tmp_path / "ran", bare)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: .*it could run code"):
        HuggingFaceModel.load(folder, "cpu")
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Evil(tmp_path / "ran")))  # noqa: S301
    assert (tmp_path / "ran").exists()


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
    state = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    from_torch = HuggingFaceModel.load(folder, "cpu").trace("A dog runs.", "Ein Hund.")
    (folder / "pytorch_model.bin").unlink()
    names = sorted(state)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in parts.items():
        safetensors.torch.save_file({name: state[name] for name in part}, folder / file)
    weight_map = {name: file for file, part in parts.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    from_shards = HuggingFaceModel.load(folder, "cpu").trace("A dog runs.", "Ein Hund.")
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


def test_large_numbers_that_make_nothing_large(copied: Callable[[str], Path]) -> None:
    folder = copied("gpt2")
    edit(CONFIG, rope_theta=10**9, total_params=7 * 10**9, max_length=10**30)(folder)
    assert HuggingFaceModel.load(folder, "cpu").max_tokens == 48


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


def test_a_tokenizer_that_would_cut_in_silence(copied: Callable[[str], Path]) -> None:
    folder = copied("bert")
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    edit("tokenizer.json", truncation=truncation)(folder)
    trace = HuggingFaceModel.load(folder, "cpu").trace("A dog runs across the green grass.")
    assert len(trace.src_ids) > 8


def test_a_tokenizer_of_another_model(copied: Callable[[str], Path], tmp_path: Path) -> None:
    folder, other = copied("bert"), copied("gpt2")
    shutil.copy(other / "tokenizer.json", folder)
    with pytest.raises(CheckpointError, match=r"tokenizer has \d+ pieces, but the model's"):
        HuggingFaceModel.load(folder, "cpu")


def test_no_network(copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading and tracing use no network, even if the hub is not switched off."""
    from huggingface_hub import constants

    asked: list[object] = []

    def refuse(*arguments: object, **_: object) -> Any:
        asked.append(arguments)
        raise OSError("no network")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("bart", "bert", "gpt2", "m2m100"):
        HuggingFaceModel.load(copied(name), "cpu").trace("A dog runs.", max_length=3)
    assert not asked


def test_the_hub_when_there_is_none(whole: Path) -> None:
    """The tests run with the hub switched off."""
    for name in ("headlight-tests/nothing-here", "headlight-tests/.."):
        with pytest.raises(CheckpointError, match=name) as caught:
            HuggingFaceModel.from_hub(name)
        assert "\n" not in str(caught.value)
    assert HuggingFaceModel.from_hub(str(whole / "bert"), "cpu").kinds == ("encoder_self",)


WITHOUT = """
import sys
from pathlib import Path
import transformer.huggingface.model
print("transformers" in sys.modules)
sys.modules["transformers"] = None
from transformer.catalogue import inspect_entry
from transformer.errors import CheckpointError
from transformer.huggingface import HuggingFaceModel
from transformer.huggingface.files import check_folder
folder = Path(sys.argv[1])
check_folder(folder)
print(inspect_entry(folder).error)
try:
    HuggingFaceModel.load(folder)
except CheckpointError as error:
    print(error)
"""


def test_without_the_extra_one_line_says_how_to_install_it(whole: Path) -> None:
    """Importing the module does not import the library either."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(whole / "bert")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported, *lines = done.stdout.splitlines()
    assert imported == "False" and len(lines) == 2
    assert all("pip install .[hf]" in line and str(whole / "bert") in line for line in lines)


def test_loading_is_quiet(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    transformers.logging.set_verbosity_warning()
    transformers.logging.enable_progress_bar()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        HuggingFaceModel.load(whole / "bart", "cpu").trace("A dog.", beam_size=2)
    assert not seen and capfd.readouterr() == ("", "")
