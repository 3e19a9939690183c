"""Checkpoint folders are read back as written; a broken one is reported in one line."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_models import random_model
from transformer.catalogue import inspect_entry, list_entries
from transformer.checkpoint.folder import (
    load_checkpoint,
    save_checkpoint,
)
from transformer.checkpoint.reference import fingerprint
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.atomic import write_atomic
from transformer.model import Transformer
from transformer.text.tokenizer import Tokenizer


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint, to be damaged."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


def outputs(model: Transformer) -> torch.Tensor:
    src = torch.tensor([[5, 8, 40, 7, 2]])
    return model(src, torch.tensor([[1, 9, 33]]))


def test_what_is_saved_is_loaded(tiny_checkpoint: Path, tiny_model: Transformer) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    assert checkpoint.name == "tiny"
    assert checkpoint.config == tiny_model.config
    assert checkpoint.metrics == {"bleu": 0.0}
    assert not checkpoint.model.training
    assert not any(each.requires_grad for each in checkpoint.model.parameters())
    torch.testing.assert_close(outputs(checkpoint.model), outputs(tiny_model), atol=0, rtol=0)


@pytest.mark.parametrize("tying", ["all", "decoder", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "stored"])
def test_ties_survive(
    tmp_path: Path, tiny_tokenizer: Tokenizer, tying: str, positions: str
) -> None:
    config = ModelConfig(
        vocab_size=110, d_model=12, n_heads=3, d_ff=8, n_encoder_layers=1, n_decoder_layers=2,
        tie_embeddings=tying, positions=positions, norm="pre",  # type: ignore[arg-type]
    )  # fmt: skip
    model = random_model(config)
    save_checkpoint(tmp_path / "it", model, tiny_tokenizer)
    loaded = load_checkpoint(tmp_path / "it").model
    assert loaded.n_parameters == config.n_parameters
    assert (loaded.generator.weight is loaded.tgt_embedding.weight) == (tying != "none")
    assert (loaded.tgt_embedding is loaded.src_embedding) == (tying == "all")
    torch.testing.assert_close(outputs(loaded), outputs(model), atol=0, rtol=0)
    stored = safetensors.torch.load_file(tmp_path / "it" / "model.safetensors")
    assert sum(each.numel() for each in stored.values()) == config.n_numbers
    assert (config.n_numbers > config.n_parameters) == (positions == "stored")


def test_a_stored_table_is_kept_as_it_is(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    """Neither recomputed nor rounded, in half precision or through a torch file."""
    config = ModelConfig(
        vocab_size=110, d_model=12, n_heads=3, d_ff=8, n_encoder_layers=1, n_decoder_layers=2,
        positions="stored", max_positions=9,
    )  # fmt: skip
    model = random_model(config)
    model.src_positions.table.normal_()
    save_checkpoint(tmp_path / "it", model, tiny_tokenizer, dtype="bfloat16")
    loaded = load_checkpoint(tmp_path / "it").model
    for name in ("src_positions", "tgt_positions"):
        table = getattr(loaded, name).table
        assert not isinstance(table, torch.nn.Parameter)
        torch.testing.assert_close(table, getattr(model, name).table, atol=0, rtol=0)
    with pytest.raises(ValueError, match="beyond the 9 stored positions"):
        loaded.encode(torch.full((1, 10), 5))
    state = model.state_dict() | {"tgt_positions.table": torch.full((9, 12), torch.nan)}
    torch.save(state, tmp_path / "it" / "model.pt")
    (tmp_path / "it" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"tgt_positions\.table' holds NaN"):
        load_checkpoint(tmp_path / "it")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_with_in_full(
    tmp_path: Path, tiny_model: Transformer, tiny_tokenizer: Tokenizer, dtype: str
) -> None:
    save_checkpoint(tmp_path / "half", tiny_model, tiny_tokenizer, dtype=dtype)
    loaded = load_checkpoint(tmp_path / "half").model
    assert {each.dtype for each in loaded.parameters()} == {torch.float32}
    weight = tiny_model.src_embedding.weight
    assert torch.equal(loaded.src_embedding.weight, weight.to(getattr(torch, dtype)).float())
    whole = save_checkpoint(tmp_path / "whole", tiny_model, tiny_tokenizer)
    sizes = [(each / "model.safetensors").stat().st_size for each in (tmp_path / "half", whole)]
    assert sizes[0] < 0.6 * sizes[1]


def test_another_way_to_store_is_refused(
    tmp_path: Path, tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> None:
    with pytest.raises(ValueError, match=r"int8.*float32, float16, bfloat16"):
        save_checkpoint(tmp_path / "x", tiny_model, tiny_tokenizer, dtype="int8")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_torch_file_of_weights(
    folder: Path, tiny_model: Transformer, legacy: bool, wrapped: bool
) -> None:
    (folder / "model.safetensors").unlink()
    state = tiny_model.state_dict()
    torch.save(
        {"model": state} if wrapped else state,
        folder / "model.pt",
        _use_new_zipfile_serialization=not legacy,
    )
    torch.testing.assert_close(
        outputs(load_checkpoint(folder).model), outputs(tiny_model), atol=0, rtol=0
    )


def test_a_torch_file_cannot_run_code(folder: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    (folder / "model.safetensors").unlink()
    torch.save({"src_embedding.weight": Evil()}, folder / "model.pt")
    with pytest.raises(CheckpointError, match=r"model\.pt: holds more than weights"):
        load_checkpoint(folder)
    (folder / "model.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError, match=r"model\.pt"):
        load_checkpoint(folder)
    assert not (tmp_path / "ran").exists()


def edit_config(**changes: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(values | changes))

    return edit


def edit_weights(
    change: Callable[[dict[str, torch.Tensor]], object],
) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        state = safetensors.torch.load_file(folder / "model.safetensors")
        change(state)
        safetensors.torch.save_file(state, folder / "model.safetensors")

    return edit


def cut(name: str, keep: float) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * keep)])

    return edit


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def write(name: str, data: bytes) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return edit


def torch_file(content: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "model.pt")

    return edit


def set_value(name: str, value: float) -> Callable[[Path], None]:
    return edit_weights(lambda state: state[name].view(-1).__setitem__(3, value))


def holes(name: str, size: int) -> Callable[[Path], None]:
    """Write a sparse safetensors file of this length, with a matching header."""

    def edit(folder: Path) -> None:
        tensor = {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}
        header = json.dumps({"x": tensor}).encode()
        write(name, len(header).to_bytes(8, "little") + header)(folder)
        os.truncate(folder / name, 8 + len(header) + size)

    return edit


FFN = "encoder.0.feed_forward.w_1.weight"
#: How a checkpoint is damaged, the message, and whether the headers show it.
DAMAGES: dict[str, tuple[Callable[[Path], None], str, bool]] = {
    "no config": (remove("config.json"), r"config\.json: the file is missing", True),
    "config is not JSON": (cut("config.json", 0.5), r"config\.json: not valid JSON", True),
    "config is binary": (write("config.json", b"\xff\xfe\x00"), r"config\.json: not UTF-8", True),
    "config is a list": (write("config.json", b"[]"), r"config\.json: expected a JSON", True),
    "unknown setting": (edit_config(depth=3), r"config\.json: unknown setting 'depth'", True),
    "bad setting": (edit_config(n_heads=0), r"config\.json: n_heads=0", True),
    "text for a number": (edit_config(d_ff="40"), r"config\.json: d_ff='40'", True),
    "too many layers": (edit_config(n_encoder_layers=100_000), r"config\.json: n_encoder", True),
    "too many positions": (edit_config(max_positions=10**12), r"config\.json: max_positions", True),
    "too large": (edit_config(d_ff=10**12), r"config\.json: .* parameters", True),
    "another width": (edit_config(d_ff=48), r"model\.safetensors: .*shape.*config\.json", True),
    "another depth": (edit_config(n_encoder_layers=3), r"model\.safetensors: .*is missing", True),
    "fewer layers": (edit_config(n_encoder_layers=1), r"does not belong", True),
    "another vocabulary": (edit_config(vocab_size=111), r"tokenizer\.model: 110 pieces.*111", True),
    "other special ids": (edit_config(pad_id=5), r"tokenizer\.model: pad_id is 0.*5", True),
    "no weights": (remove("model.safetensors"), r"model\.safetensors: the file is missing", True),
    "weights cut short": (cut("model.safetensors", 0.9), r"model\.safetensors: not a whole", True),
    "weights' header cut": (cut("model.safetensors", 0.001), r"model\.safetensors: not a w", True),
    "empty weights": (write("model.safetensors", b""), r"model\.safetensors: not a whole", True),
    "no weights inside": (write("model.safetensors", b"\x02" + b"\0" * 7 + b"{}"), "missing", True),
    "a tensor is missing": (edit_weights(lambda s: s.pop(FFN)), rf"'{FFN}' is missing", True),
    "a tensor too many": (
        edit_weights(lambda s: s.update(extra=torch.ones(1))), r"'extra' does not belong", True,
    ),
    "more than memory maps": (  # or, where that can be mapped, a tensor too many
        holes("model.safetensors", 2**40), r"more than can be opened|'x' does not belong", True,
    ),
    "a transposed tensor": (
        edit_weights(lambda s: s.update({FFN: s[FFN].T.contiguous()})), r"\[24, 40\].*\[40, 24\]",
        True,
    ),
    "whole numbers": (edit_weights(lambda s: s.update({FFN: s[FFN].int()})), "stored as I32", True),
    "doubles": (edit_weights(lambda s: s.update({FFN: s[FFN].double()})), r"stored as F64", True),
    "NaN": (set_value(FFN, float("nan")), r"safetensors: .*NaN or infinite", False),
    "infinity": (set_value("encoder.0.around_self.norm.bias", float("inf")), r"NaN or inf", False),
    "untied": (
        edit_weights(lambda s: s.update({"generator.weight": s["src_embedding.weight"] + 1})),
        r"differ, but config\.json ties them", False,
    ),
    "no tokenizer": (remove("tokenizer.model"), r"tokenizer\.model: the file is missing", True),
    "tokenizer cut short": (cut("tokenizer.model", 0.5), r"tokenizer\.model: not a Sent", True),
    "tokenizer is text": (write("tokenizer.model", b"hello"), r"tokenizer\.model: not a S", True),
    "torch file of a list": (torch_file([torch.ones(2)]), r"model\.pt: not a state dict", True),
    "torch file of numbers": (torch_file({"a": 1}), r"model\.pt: not a state dict", True),
    "torch file of a sparse tensor": (
        torch_file({FFN: torch.eye(3).to_sparse()}), r"model\.pt: holds more than weights", True,
    ),
    "torch file lacks tensors": (torch_file({}), r"model\.pt: .*is missing", True),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_checkpoint_names_the_file_and_what_is_wrong(folder: Path, damage: str) -> None:
    edit, message, in_header = DAMAGES[damage]
    edit(folder)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_checkpoint(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    entry = inspect_entry(folder)
    assert entry.error == (str(caught.value) if in_header else None)


def test_a_torch_file_that_is_cut_short(folder: Path, tiny_model: Transformer) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(tiny_model.state_dict(), folder / "model.pt")
    for keep in (0.9, 0.5, 0.0):
        cut("model.pt", keep)(folder)
        with pytest.raises(CheckpointError, match=r"model\.pt: ") as caught:
            load_checkpoint(folder)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nowhere", "config.json"])
def test_a_path_that_is_no_folder(tiny_checkpoint: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match=f"{name}: no such checkpoint folder"):
        load_checkpoint(tiny_checkpoint / name)


def test_shapes_are_compared_before_memory_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_config(d_ff=100_000, d_model=2400, d_k=800, d_v=800)(folder)
    taken: list[object] = []
    monkeypatch.setattr("transformer.checkpoint.weights.read_tensors", taken.append)
    with pytest.raises(CheckpointError, match="shape"):
        load_checkpoint(folder)
    assert not taken


def test_bad_metrics_do_not_stop_a_good_model(folder: Path) -> None:
    for data in (b"{", b"[1]", b"\xff", b"[" * 100_000):
        (folder / "metrics.json").write_bytes(data)
        assert load_checkpoint(folder).metrics == {}


def test_the_list_holds_good_and_broken_ones(tiny_checkpoint: Path, tmp_path: Path) -> None:
    for name in ("b-good", "a-broken", "c-good"):
        shutil.copytree(tiny_checkpoint, tmp_path / name)
    (tmp_path / "a-broken" / "tokenizer.model").unlink()
    (tmp_path / "not-a-checkpoint").mkdir()
    (tmp_path / "file.txt").write_text("x")
    entries = list_entries([tmp_path])
    assert [(entry.name, entry.ok) for entry in entries] == [
        ("a-broken", False), ("b-good", True), ("c-good", True),
    ]  # fmt: skip
    assert entries[0].error is not None and "tokenizer.model" in entries[0].error
    assert entries[1].config == load_checkpoint(tmp_path / "b-good").config
    assert entries[1].metrics == {"bleu": 0.0}
    assert list_entries([tmp_path / "nowhere"]) == []


def test_a_repaired_checkpoint_is_seen(folder: Path, tiny_checkpoint: Path) -> None:
    before = fingerprint(folder)
    cut("model.safetensors", 0.5)(folder)
    assert not inspect_entry(folder).ok
    assert fingerprint(folder) != before
    shutil.copy(tiny_checkpoint / "model.safetensors", folder)
    assert inspect_entry(folder).ok


def test_a_file_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_device_is_written_to_and_stays_one() -> None:
    """As with --output /dev/stdout, which must not be replaced by a file."""
    ours, theirs = os.openpty()
    try:
        path = Path(os.ttyname(theirs))
        write_atomic(path, b"new")
        assert os.read(ours, 10) == b"new"
        assert path.is_char_device()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_damaged_bytes_never_get_past_the_checks(
    tiny_checkpoint: Path, tiny_model: Transformer, suffix: str, data: st.DataObject
) -> None:
    """Flipped bytes give a clear refusal or a finite model of the right shape."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(tiny_checkpoint, Path(temporary) / "copy"))
        path = folder / f"model.{suffix}"
        if suffix == "pt":
            (folder / "model.safetensors").unlink()
            torch.save(tiny_model.state_dict(), path)
        content = bytearray(path.read_bytes())
        near_start = data.draw(st.booleans())
        for _ in range(data.draw(st.integers(1, 4))):
            last = 3000 if near_start else len(content) - 1
            content[data.draw(st.integers(0, last))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        refused, model = None, None
        try:
            model = load_checkpoint(folder).model
        except CheckpointError as error:
            refused = str(error)
        if model is None:
            assert refused is not None and str(path) in refused
        else:
            assert all(bool(each.isfinite().all()) for each in model.parameters())
