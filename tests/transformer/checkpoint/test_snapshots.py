import copy
import hashlib
import math
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.shipped import FOLDER, STACKS, TRANSLATORS
from tests.snapshots import UPDATES, write_snapshots
from tests.tiny_models import SENTENCES, uneven_model
from transformer.__main__ import main
from transformer.checkpoint.folder import FILE as MEANS
from transformer.checkpoint.folder import load_checkpoint, read_means, save_checkpoint, write_means
from transformer.checkpoint.reference import SNAPSHOTS, ModelRef, at, split_name
from transformer.checkpoint.snapshots import pack, read_history, read_snapshot
from transformer.checkpoint.weights import _digest_of, layout_of, weights_digest
from transformer.edits.model import head_means
from transformer.files.safe import fingerprint
from transformer.model import Transformer
from transformer.models.catalogue import inspect_entry, list_entries, open_tracer, resolve
from transformer.text.tokenizer import Tokenizer
from transformer.training.recipe import Recipe
from transformer.training.trainer import snapshot_updates
from transformer.translator import Translator
from transformer.types import CheckpointError, InputError

#: Shipped models that have snapshots.
SHIPPED = [each for each in (*TRANSLATORS, *STACKS) if (FOLDER / each / SNAPSHOTS).exists()]


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "tiny"))


def test_each_is_as_near_as_the_grid_and_errors_do_not_add_up(folder: Path) -> None:
    states = write_snapshots(folder)
    config = load_checkpoint(folder).config
    for updates, state in zip(UPDATES, states, strict=True):
        found = read_snapshot(ModelRef(folder, updates), layout_of(config).stored)
        assert found.keys() == state.keys()
        for name, tensor in state.items():
            if tensor.dim() > 1:
                step = float(states[-1][name].pow(2).mean().sqrt()) / 16
                assert float((found[name] - tensor).abs().max()) <= 0.501 * step, name
            else:
                torch.testing.assert_close(found[name], tensor.half().float())


@given(
    values=st.lists(st.floats(-(2**15), 2**15, width=16), min_size=2, max_size=6),
    end=st.sampled_from([0.0, 1e-6, 1.0]),
)
def test_every_moment_holds_its_largest_weights(values: list[float], end: float) -> None:
    rest = torch.full((63,), end)
    states = [{"w": torch.cat([torch.tensor([each]), rest])[None]} for each in [*values, end]]
    with TemporaryDirectory() as place:
        folder = Path(place)
        arrays = pack(states, 4.0) | {"updates": np.arange(len(states)),
                                      "val_nll": np.zeros(len(states), np.float32)}  # fmt: skip
        np.savez_compressed(folder / SNAPSHOTS, **arrays)  # type: ignore[arg-type]
        step = float(arrays["steps"][0])
        for k, state in enumerate(states):
            (found,) = read_snapshot(ModelRef(folder, k), {"w": (1, 64)}).values()
            off = float((found - state["w"]).abs().max())
            assert off <= 0.501 * step + 2**-23 * float(state["w"].abs().max())
        assert step <= max(end / 4, max(map(abs, values)) / 2**23, 2e-8)


def test_a_file_of_older_versions_is_read(folder: Path) -> None:
    states = write_snapshots(folder)
    with np.load(folder / SNAPSHOTS) as file:
        arrays = {name: file[name] for name in file if name != "about" and "far" not in name}
    np.savez_compressed(folder / SNAPSHOTS, continues=np.array(1, np.uint8), **arrays)
    entry = inspect_entry(folder)
    assert (entry.relation, entry.history.began) == ("", None)
    found = read_snapshot(ModelRef(folder, 20), layout_of(load_checkpoint(folder).config).stored)
    for name, tensor in states[-1].items():
        assert float((found[name] - tensor).abs().max()) <= 0.1 * float(tensor.std().nan_to_num(1))


def test_a_model_replaced_under_its_snapshots_is_noticed(
    folder: Path, tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> None:
    run = {"recipe": {"training": {"init": "some/where", "seed": 3}}, "updates": 20}
    write_snapshots(folder, about={"end": True, "recipe": run["recipe"]})
    assert inspect_entry(folder).relation == "end"
    write_snapshots(folder, about={"recipe": run["recipe"]})
    assert inspect_entry(folder).relation == "other"
    for shift, (parts, relation) in enumerate((
        ([{"recipe": {}}, run], "further"), ([run | {"updates": 19}], ""),
        (["", None, 3], ""), ("many", ""),
    ), start=1):  # fmt: skip
        write_snapshots(folder, about={"end": True, "recipe": run["recipe"]})
        model = copy.deepcopy(tiny_model)
        model.encoder[0].feed_forward.w_1.bias.data += shift / 100  # type: ignore[union-attr, operator]
        save_checkpoint(folder, model, tiny_tokenizer, metrics={"earlier_parts": parts})
        assert inspect_entry(folder).relation == relation, parts


def test_a_snapshot_is_a_checkpoint_of_its_own_name(folder: Path) -> None:
    write_snapshots(folder)
    path = folder.with_name("tiny@3")
    loaded, whole = load_checkpoint(path), load_checkpoint(folder)
    assert loaded.ref.name == "tiny@3" and loaded.config == whole.config
    held = hashlib.sha256((folder / "snapshots.npz").read_bytes()).hexdigest()[:12]
    assert weights_digest(path) == f"{held}@3" != weights_digest(folder)
    expected = read_snapshot(ModelRef(folder, 3), layout_of(whole.config).stored)
    for name, tensor in expected.items():
        assert torch.equal(loaded.model.state_dict()[name], tensor)
    trace = Translator.load(path, device="cpu").trace("The cat sat on the mat.")
    again = Translator.load(folder, device="cpu").trace("The cat sat on the mat.")
    assert trace.src_ids == again.src_ids
    assert np.abs(trace.encoder_self - again.encoder_self).max() > 1e-3


def test_the_listing_shows_the_checkpoint_with_its_moments(folder: Path) -> None:
    before = fingerprint(folder)
    write_snapshots(folder)  # a change of the file is one of the checkpoint
    assert fingerprint(folder) != before
    assert resolve(folder.with_name("tiny@3")).mark == fingerprint(folder)
    (entry,) = list_entries([folder.parent])
    assert entry.name == "tiny" and entry.updates is None
    assert [each.updates for each in entry.history.snapshots] == list(UPDATES)
    assert [each.val_nll for each in entry.history.snapshots] == [9.0, 5.0, 2.0]
    moment = entry.after(3)
    assert (moment.name, moment.whole, moment.updates) == ("tiny@3", "tiny", 3)
    assert moment.path == folder.with_name("tiny@3") and moment.history == entry.history
    assert inspect_entry(moment.path) == moment
    assert entry.after(None) is entry
    with pytest.raises(CheckpointError, match="tiny: no snapshot after 4 updates"):
        entry.after(4)


def test_a_missing_snapshot_names_the_existing_ones(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="no snapshot after 3 updates; there are: none"):
        load_checkpoint(folder.with_name("tiny@3"))
    (folder / SNAPSHOTS).write_bytes(b"not an archive")
    assert inspect_entry(folder).history.snapshots == ()
    with pytest.raises(CheckpointError, match=SNAPSHOTS):
        read_history(folder)
    write_snapshots(folder)
    with pytest.raises(CheckpointError, match="no snapshot after 4 updates; there are: 0, 3, 20"):
        load_checkpoint(folder.with_name("tiny@4"))
    assert "no snapshot after 4" in str(inspect_entry(folder.with_name("tiny@4")).error)
    with pytest.raises(CheckpointError, match="no such checkpoint folder"):
        load_checkpoint(folder.with_name("other@3"))


def test_a_folder_with_the_sign_in_its_name_is_itself(folder: Path) -> None:
    write_snapshots(folder)
    shutil.copytree(folder, folder.with_name("tiny@3"))
    assert ModelRef.of(folder.with_name("tiny@3")) == ModelRef(folder.with_name("tiny@3"))
    whole = load_checkpoint(folder.with_name("tiny@3"))
    for name, tensor in load_checkpoint(folder).model.state_dict().items():
        assert torch.equal(whole.model.state_dict()[name], tensor)


def test_a_version_of_weights_is_hashed_once(folder: Path) -> None:
    """Listing models hashes nothing, since the app lists every folder on each run."""
    write_snapshots(folder)
    _digest_of.cache_clear()
    (entry,) = list_entries([folder.parent])
    assert not _digest_of.cache_info().misses
    assert [entry.relation, entry.relation, inspect_entry(folder).relation] == ["other"] * 3
    assert _digest_of.cache_info().misses == 1
    (folder / "model.safetensors").write_bytes(b"")
    assert [entry.relation, entry.relation] == ["", ""] and _digest_of.cache_info().misses == 2


@given(name=st.text(min_size=1), updates=st.integers(0, 10**9))
def test_names_are_split_as_they_are_written(name: str, updates: int) -> None:
    assert split_name(at(name, updates)) == (name, updates)
    assert at(name, None) == name
    for end in ("", "05", "-1", "٣", "1e3", "9999999999", " 3", "9" * 5000):
        assert split_name(f"a@{end}") == (f"a@{end}", None)
    assert split_name("@5") == ("@5", None)


@pytest.mark.parametrize(("changed", "line"), [
    ({"updates": np.array([0, 3, 3])}, "must ascend"),
    ({"updates": np.array([-1, 3, 4])}, "must ascend"),
    ({"updates": np.array([0, 3, 10**10])}, "must ascend"),
    ({"updates": np.array([0.0, 3, 20])}, "lists of equal length"),
    ({"val_nll": None}, "lists of equal length"),
    ({"updates": np.arange(65), "val_nll": np.zeros(65, np.float32)}, "1 to 64"),
    ({"change_1": np.zeros(5, np.int8)}, "'change_1' should be"),
    ({"steps": np.zeros(2, np.float32)}, "'steps' should be"),
    ({"rest_2": None}, "'rest_2' should be"),
    ({"far_2": np.zeros((3, 4), np.int32)}, "'far_2' should be"),
    ({"far_2": np.zeros((2, 4), np.int8)}, "'far_2' should be"),
    ({"far_2": np.full((2, 1), 10**9, np.int32)}, "places of 'far_2' must be"),
    ({"far_2": np.full((2, 1), -1, np.int32)}, "places of 'far_2' must be"),
    ({"about": np.array("{")}, "'about' must be a JSON object"),
    ({"about": np.array('{"cosine": "<b>"}')}, "'about' must be a JSON object"),
    *(({"steps": step}, "'steps' must be between 0") for step in (np.inf, np.nan, 1e38, 0, -1)),
    ({"rest_2": np.inf}, "NaN or infinite"),
    ({"rest_2": np.nan}, "NaN or infinite"),
])  # fmt: skip
def test_damage_leaves_the_model_usable(changed: dict[str, Any], line: str, folder: Path) -> None:
    shapes = layout_of(load_checkpoint(folder).config).stored.values()
    for name, size, kind in (
        ("steps", sum(len(shape) > 1 for shape in shapes), np.float32),
        ("rest_2", sum(math.prod(shape) for shape in shapes if len(shape) == 1), np.float16),
    ):  # fmt: skip
        if isinstance(changed.get(name), int | float):
            changed = {name: np.full(size, changed[name], kind)}
    write_snapshots(folder, **changed)
    with pytest.raises(CheckpointError, match=line):
        load_checkpoint(folder.with_name("tiny@20"))
    assert load_checkpoint(folder).ref.name == "tiny"
    assert inspect_entry(folder).error is None


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_snapshots_name_their_run_and_their_model(name: str) -> None:
    entry = inspect_entry(FOLDER / name)
    recipe = Recipe.load(str(FOLDER.parent / f"recipes/through-time/{name}.toml"))
    moments = [each.updates for each in entry.history.snapshots]
    how = recipe.training
    kept = snapshot_updates(how.snapshots, how.first_snapshot, moments[-1]) | {how.max_updates}
    assert moments in (sorted(kept), sorted(kept - {0}))
    recorded = Recipe.from_record(entry.history.about["recipe"])
    assert (recorded.model, recorded.data) == (recipe.model, recipe.data)
    # Since then, the first weights were published, and are kept with the snapshots.
    assert Path(recorded.training.init).name == Path(how.init).name
    assert replace(recorded.training, init=how.init, snapshots=how.snapshots) == how
    weights = hashlib.sha256((FOLDER / name / "model.safetensors").read_bytes()).hexdigest()
    assert weights.startswith(digest := entry.history.about["weights"]) and len(digest) == 12
    assert entry.relation == {"reverse-toy": "end", "everyday-de-en": "further"}.get(name, "other")


@pytest.mark.parametrize("name", ["reverse-toy", "multi30k-en-de", "decoder-only-en-de"])
def test_what_shipped_snapshots_say_of_the_model_is_so(name: str) -> None:
    entry = inspect_entry(FOLDER / name)
    finished, moment = (
        open_tracer(each.path, "cpu").model.state_dict()  # type: ignore[attr-defined]
        for each in (entry, entry.after(entry.history.snapshots[-1].updates))
    )
    heads = [each for each in finished if "attention" in each and finished[each].dim() > 1]
    one, two = (torch.cat([each[at].flatten() for at in heads]) for each in (finished, moment))
    cosine = float(one @ two / (one.norm() * two.norm()))
    assert entry.history.about["cosine"] == pytest.approx(cosine, abs=2e-3)
    assert entry.history.about["end"] == (cosine > 0.99)


@pytest.fixture
def uneven(tmp_path: Path, tiny_tokenizer: Tokenizer) -> Path:
    return save_checkpoint(tmp_path / "uneven", uneven_model(tiny_tokenizer), tiny_tokenizer)


def test_cli_writes_means(uneven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src, ref = tmp_path / "text.en", tmp_path / "text.de"
    src.write_text("\n".join([*SENTENCES[:4], ""]), "utf-8")
    ref.write_text("\n".join([*SENTENCES[4:8], ""]), "utf-8")
    with pytest.raises(InputError, match="means uneven --data DIR` writes them"):
        open_tracer(resolve(uneven).edited("mean cross.1"))
    assert main(["means", str(uneven), "--src", str(src), "--ref", str(ref)]) == 0
    assert "means over 4 pairs of text.en" in capsys.readouterr().out
    plain = Translator.load(uneven, "cpu")
    pairs = [plain.pair(*each) for each in zip(SENTENCES[:4], SENTENCES[4:8], strict=True)]
    means = head_means(plain.model, [(each.src_ids, each.tgt_ids) for each in pairs])
    stored = read_means(resolve(uneven), plain.config)
    assert stored.keys() == means.keys()
    assert all(torch.equal(stored[block], means[block]) for block in means)
    given = plain.edited("mean cross; off encoder.1.1", means=means).trace(SENTENCES[5])
    found = plain.edited("mean cross").edited("off encoder.1.1").trace(SENTENCES[5])
    assert np.array_equal(found.log_probs, given.log_probs)
    # Sentences of the visitor's own, in a file.
    words = ["translate", "--checkpoint", str(uneven), "--edit", "mean cross", SENTENCES[5]]
    assert main([*words, "--mean-of", str(src)]) == 0
    other = plain.edited("mean cross", sentences=SENTENCES[:4])
    assert capsys.readouterr().out.strip() == other.translate([SENTENCES[5]])[0].text.strip()


def test_means_of_other_weights_or_shapes_and_damaged_ones_are_refused(uneven: Path) -> None:
    ref, model = resolve(uneven), Translator.load(uneven, "cpu").model
    write_means(ref, head_means(model, [([5, 9, 2], [1, 6])]), "one sentence", 1)
    assert read_means(ref, model.config)
    with pytest.raises(InputError, match="only the trained model"):
        read_means(ref.after(3), model.config)
    with pytest.raises(InputError, match=r"means\.npz belongs to another model"):
        read_means(ref, model.config.replace(n_decoder_layers=model.config.n_decoder_layers + 1))
    whole = (uneven / MEANS).read_bytes()
    (uneven / MEANS).write_bytes(whole[:-30])
    with pytest.raises(InputError, match=r"means\.npz is damaged"):
        read_means(ref, model.config)
    (uneven / MEANS).write_bytes(whole)
    weights = uneven / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(InputError, match=r"means\.npz belongs to other weights"):
        read_means(ref, model.config)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_every_shipped_encoder_decoder_has_means(name: str) -> None:
    folder = FOLDER / name
    assert (folder / MEANS).stat().st_size < 100_000
    assert read_means(resolve(folder), inspect_entry(folder).config)
