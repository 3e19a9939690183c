"""The means of heads beside a checkpoint."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tiny_models import SENTENCES, uneven_model
from transformer.__main__ import main
from transformer.catalogue import inspect_entry, open_tracer, resolve
from transformer.checkpoint.folder import save_checkpoint
from transformer.checkpoint.means import FILE, read_means, write_means
from transformer.edits.means import head_means
from transformer.errors import InputError
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator


@pytest.fixture
def folder(tmp_path: Path, tiny_tokenizer: Tokenizer) -> Path:
    return save_checkpoint(tmp_path / "uneven", uneven_model(tiny_tokenizer), tiny_tokenizer)


def test_the_command_writes_what_the_edit_takes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src, ref = tmp_path / "text.en", tmp_path / "text.de"
    src.write_text("\n".join([*SENTENCES[:4], ""]), "utf-8")
    ref.write_text("\n".join([*SENTENCES[4:8], ""]), "utf-8")
    with pytest.raises(InputError, match="means uneven --data DIR` writes them"):
        open_tracer(resolve(folder).edited("mean cross.1"))
    assert main(["means", str(folder), "--src", str(src), "--ref", str(ref)]) == 0
    assert "means over 4 pairs of text.en" in capsys.readouterr().out
    plain = Translator.load(folder, "cpu")
    pairs = [plain.pair(*each) for each in zip(SENTENCES[:4], SENTENCES[4:8], strict=True)]
    means = head_means(plain.model, [(each.src_ids, each.tgt_ids) for each in pairs])
    stored = read_means(resolve(folder), plain.config)
    assert stored.keys() == means.keys()
    assert all(torch.equal(stored[block], means[block]) for block in means)
    given = plain.edited("mean cross; off encoder.1.1", means=means).trace(SENTENCES[5])
    found = plain.edited("mean cross").edited("off encoder.1.1").trace(SENTENCES[5])
    assert np.array_equal(found.log_probs, given.log_probs)
    # Sentences of the visitor's own, in a file.
    words = ["translate", "--checkpoint", str(folder), "--edit", "mean cross", SENTENCES[5]]
    assert main([*words, "--mean-of", str(src)]) == 0
    other = plain.edited("mean cross", sentences=SENTENCES[:4])
    assert capsys.readouterr().out.strip() == other.translate([SENTENCES[5]])[0].text.strip()


def test_means_of_other_weights_or_shapes_and_damaged_ones_are_refused(folder: Path) -> None:
    ref, model = resolve(folder), Translator.load(folder, "cpu").model
    means = head_means(model, [([5, 9, 2], [1, 6])])
    write_means(ref, means, "one sentence", 1)
    assert read_means(ref, model.config)
    with pytest.raises(InputError, match="only the trained model"):
        read_means(ref.after(3), model.config)
    with pytest.raises(InputError, match=r"means\.npz is of another model"):
        read_means(ref, model.config.replace(n_decoder_layers=model.config.n_decoder_layers + 1))
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(whole[:-30])
    with pytest.raises(InputError, match=r"means\.npz is damaged"):
        read_means(ref, model.config)
    (folder / FILE).write_bytes(whole)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(InputError, match=r"means\.npz is of other weights"):
        read_means(ref, model.config)


@pytest.mark.parametrize("name", [
    "everyday-de-en", "everyday-en-de", "everyday-en-fr", "multi30k-en-de", "parsing-gum",
    "reverse-toy", "t5-en-de",
])  # fmt: skip
def test_every_shipped_encoder_decoder_has_means(name: str) -> None:
    folder = Path("checkpoints") / name
    assert (folder / FILE).stat().st_size < 100_000
    assert read_means(resolve(folder), inspect_entry(folder).config)
