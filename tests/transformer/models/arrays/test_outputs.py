import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headlight import show
from tests.forks import ROOT
from tests.transformer.models.huggingface.models import ENCODERS, EVERY
from transformer.models.arrays.trace_file import trace_of
from transformer.trace.records import Trace
from transformer.types import AttentionKind, CheckpointError

#: The library cannot cache the steps of a T5 with fewer layers in its encoder.
NAMES = ("byt5", "marian", "bart", "gpt2", "llama", "bert", "roberta")
WRITERS = tuple(name for name in NAMES if name not in ENCODERS)
KINDS: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self", "cross")
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "no cache": {"use_cache": False},
    "drawn": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 4},
    "beams, no cache": {"num_beams": 2, "use_cache": False},
    "several of the beams": {"num_beams": 5, "num_return_sequences": 3},
    "early ends": {
        "num_beams": 4,
        "num_return_sequences": 4,
        "eos_token_id": [*range(5, 70)],
        "min_new_tokens": 1,
    },
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("outputs")
    return {name: EVERY[name](folder / name)[0] for name in NAMES}


def prompt(n_rows: int = 1, n: int = 6) -> Any:
    return torch.randint(5, 60, (n_rows, n), generator=torch.manual_seed(n))


def generated(model: Any, ids: Any, **settings: Any) -> Any:
    torch.manual_seed(1)
    given = {"max_new_tokens": 7, "min_new_tokens": 2, "do_sample": False, "pad_token_id": 2}
    given |= {"attention_mask": torch.ones_like(ids), "return_dict_in_generate": True}
    return model.generate(ids, output_attentions=True, **given | settings)


def forced(model: Any, ids: Any, tokens: Any) -> Trace:
    if model.config.is_encoder_decoder:
        more = {"decoder_input_ids": tokens[None]}
    else:
        ids, more = tokens[None], {}
    output = model(
        input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True,
        use_cache=False, **more,
    )  # fmt: skip
    return trace_of({name: output[name] for name in output if name.endswith("attentions")})


def close(one: Trace, other: Trace) -> None:
    for kind in KINDS:
        np.testing.assert_allclose(one.attention(kind), other.attention(kind), atol=2e-5)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", WRITERS)
def test_joined_steps_are_maps_of_one_pass(models: dict[str, Any], name: str, search: str) -> None:
    model, ids = models[name], prompt(2)
    output = generated(model, ids, **SEARCHES[search])
    count = len(output.sequences)
    for batch in range(count):
        length = output.sequences.shape[1]
        if "beam_indices" in output:
            before = 1 if model.config.is_encoder_decoder else ids.shape[1]
            length = before + int((output.beam_indices[batch] >= 0).sum())
        tokens = output.sequences[batch, : length - 1]
        trace = trace_of(output, batch=batch)
        close(trace, forced(model, ids[batch * len(ids) // count][None], tokens))
        assert trace.decoder_self.shape[-1] == len(tokens)
    with pytest.raises(CheckpointError, match=f"of {count} sequences; choose one by batch="):
        show(output)
    with pytest.raises(CheckpointError, match=f"from 0 to {count - 1}"):
        show(output, batch=count)


def test_beams_move_and_end(models: dict[str, Any]) -> None:
    outputs = [generated(models[name], prompt(2), **SEARCHES["early ends"]) for name in WRITERS]
    rows = [output.beam_indices for output in outputs]
    assert any(len({*row.tolist()} - {-1}) > 1 for each in rows for row in each)
    assert any((each < 0).any() for each in rows)


@pytest.mark.parametrize("name", WRITERS)
def test_an_output_of_generate_is_shown(models: dict[str, Any], name: str) -> None:
    model, ids = models[name], prompt()
    output = generated(model, ids, max_new_tokens=3)
    assert b"Attention" in show(output).html or b"attention" in show(output).html
    names = [each for each in output if each.endswith("attentions")]
    alone = {each: output[each] for each in names}  # one sentence needs nothing else
    listed = {each: [list(step) for step in output[each]] for each in names}
    close(trace_of(alone), trace_of(output))
    close(trace_of(listed), trace_of(output))
    one = trace_of(generated(model, ids[:, :1], max_new_tokens=1, min_new_tokens=1))
    assert one.decoder_self.shape[2:] == (1, 1)


def test_padding_before_a_prompt_is_left_out(models: dict[str, Any]) -> None:
    ids = prompt(2)
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    for name in ("gpt2", "llama"):
        output = generated(
            models[name], ids, attention_mask=mask, max_new_tokens=4, min_new_tokens=4
        )
        close(trace_of(output, batch=1), forced(models[name], None, output.sequences[1, 3:-1]))
        assert trace_of(output, batch=0).decoder_self.shape[-1] == 9


def test_a_cache_of_fixed_size_has_unused_keys(models: dict[str, Any]) -> None:
    model, ids = models["llama"], prompt()
    output = generated(model, ids, cache_implementation="static")
    assert output.attentions[0][0].shape[-1] > ids.shape[1]
    close(trace_of(output), forced(model, ids, output.sequences[0, :-1]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["marian", "gpt2", "bert"])
def test_passes_of_any_type_are_shown(
    models: dict[str, Any], name: str, dtype: torch.dtype
) -> None:
    model = models[name]
    more = {"decoder_input_ids": prompt()} if model.config.is_encoder_decoder else {}
    model.requires_grad_(True)
    output = model(input_ids=prompt(), output_attentions=True, **more)
    model.requires_grad_(False)
    names = [each for each in output if each.endswith("attentions") and output[each]]
    assert all(output[each][0].requires_grad for each in names)
    assert show(output).html
    cast = {each: [layer.to(dtype) for layer in output[each]] for each in names}
    for kind in KINDS:
        one, other = (trace_of(each).attention(kind) for each in (output, cast))
        np.testing.assert_allclose(one, other, atol=5e-3)
        whole = {each: torch.stack(output[each]) for each in names}
        np.testing.assert_array_equal(trace_of(whole).attention(kind), one)


def test_what_cannot_be_joined_is_said(models: dict[str, Any]) -> None:
    model = models["marian"]
    beams = generated(model, prompt(), num_beams=3)
    greedy = generated(model, prompt(2))
    text = generated(models["gpt2"], prompt())
    for given in (
        {"cross": beams.cross_attentions},  # its rows move from step to step
        type(beams)(sequences=beams.sequences, cross_attentions=beams.cross_attentions),
        {"cross_attentions": greedy.cross_attentions},
        {"cross": beams.cross_attentions, "sequences": beams.sequences},
    ):
        with pytest.raises(CheckpointError, match="pass the whole output of `generate`"):
            show(given)
    with pytest.raises(CheckpointError, match=r"has 1 queries and 7 keys where 1 tokens were read"):
        show({"attentions": text.attentions[1:]})
    encoder = tuple(layer.repeat(3, 1, 1, 1) for layer in greedy.encoder_attentions)
    with pytest.raises(
        CheckpointError, match=r"'encoder_attentions' .* has no batch=1 of 2 sequences"
    ):
        show({**greedy, "encoder_attentions": encoder}, batch=1)
    layers = text.attentions[0]
    with pytest.raises(CheckpointError, match=r"\[1, 3, 6, 6\] beside one of \[1, 2, 6, 6\]"):
        show({"attentions": (layers[0], layers[1][:, :2])})
    with pytest.raises(CheckpointError, match="a batch of 2: choose one"):
        show(forwarded(models["bert"], prompt(2)))


def forwarded(model: Any, ids: Any, implementation: str = "eager") -> Any:
    model.set_attn_implementation(implementation)
    output = model(input_ids=ids, output_attentions=True)
    model.set_attn_implementation("eager")
    return output


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_outputs_without_weights_name_the_way_to_them(models: dict[str, Any], name: str) -> None:
    layers = forwarded(models[name], prompt()).attentions
    for given in (
        forwarded(models[name], prompt(), "sdpa"),
        {"attentions": (None, None)},
        {"attentions": (layers[0], None)},
        {"attentions": ((None,), (None,))},
        {"attentions": ((*layers[:2], None),)},
        models[name](input_ids=prompt()),
        {"attentions": ((), ())},
        {"attentions": None},
    ):
        with pytest.raises(CheckpointError, match=r"'attentions' .*attn_implementation='eager'"):
            show(given)


TEXT = (ROOT / "docs" / "arrays.md").read_text("utf-8")
(PYTORCH,) = re.findall(r"```python\n(import torch\n.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_weights_of_pytorchs_layers_come_by_the_hooks_of_the_docs(padded: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2)
    mask = torch.arange(5) >= torch.tensor([[5], [3], [4]]) if padded else None
    names: dict[str, Any] = {"encoder": encoder, "embedded": torch.randn(3, 5, 16), "mask": mask}
    program = PYTORCH.replace("(embedded)", "(embedded, src_key_padding_mask=mask)")
    with torch.no_grad():
        exec(program, names)  # noqa: S102 - our own program
    assert [layer.shape for layer in names["attention"]] == [(3, 4, 5, 5)] * 2
    assert b"2 layers, 4 heads" in names["page"].html
    mean = torch.nn.MultiheadAttention(16, 4, batch_first=True)(*[names["embedded"]] * 3)[1]
    with pytest.raises(CheckpointError, match=r"\[3, 5, 5\] may be 3 heads or a batch of 3: add"):
        show({"attention": mean})
    assert trace_of(
        {"attention": mean, "axes": "batch, query, key"}, batch=2
    ).encoder_self.shape == (1, 1, 5, 5)
    with pytest.raises(CheckpointError, match="PyTorch's MultiheadAttention with need_weights=Tru"):
        show({"attention": [None, None]})


def test_other_failures_are_not_called_ragged() -> None:
    with pytest.raises(CheckpointError, match=r"'cross' is not an array: .*meta"):
        show({"cross": torch.ones(3, 4, device="meta")})
    with pytest.raises(CheckpointError, match=r"'tokens' is or holds None$"):
        show({"attention": np.eye(2), "tokens": [None, "a"]})
    logs = [torch.tensor(-1.0, requires_grad=True)] * 2
    assert trace_of({"decoder_self": np.eye(2), "log_probs": logs}).score == -2
    with pytest.raises(CheckpointError, match="its rows differ in length"):
        show({"cross": [[1.0], [0.5, 0.5]]})
    with pytest.raises(TypeError, match=r"such as \{'attention': maps\}, not tuple"):
        show((torch.eye(3),))  # type: ignore[arg-type]
