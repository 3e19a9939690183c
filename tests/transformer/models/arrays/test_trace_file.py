import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.factories import make_trace
from transformer.models.arrays.maps import ALIASES
from transformer.models.arrays.trace_file import describe_arrays, load_arrays, save_arrays, trace_of
from transformer.trace.records import Trace
from transformer.types import CheckpointError

#: Any text but one that ends in a null character, which NumPy does not keep.
texts = st.text(max_size=8).filter(lambda text: not text.endswith("\0"))


def same(one: Trace, other: Trace) -> None:
    for field in dataclasses.fields(Trace):
        if field.name == "search":
            continue
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape, field.name
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b)), field.name


def rows(shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1]).astype("f4")


@given(data=st.data(), S=st.integers(1, 6), T=st.integers(1, 5), K=st.integers(1, 3))
def test_a_trace_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, S: int, T: int, K: int
) -> None:
    trace = make_trace(S=S, T=T, K=K, n_heads=2, seed=S * T)
    tokens, sampled = data.draw(st.tuples(*[texts] * S)), data.draw(st.booleans())
    trace = dataclasses.replace(
        trace, src_tokens=tokens, tgt_tokens=data.draw(st.tuples(*[texts] * T)),
        predicted_tokens=data.draw(st.tuples(*[texts] * T)),
        top_tokens=data.draw(st.tuples(*[st.tuples(*[texts] * K)] * T)), source=data.draw(texts),
        text=data.draw(texts), src_special=data.draw(st.sampled_from([(), (0,), (S - 1,)])),
        complete=data.draw(st.booleans()), forced=data.draw(st.booleans()),
        n_forced=data.draw(st.integers(0, T)), forcing_gap=data.draw(st.none() | st.floats(0, 1)),
        allowed=trace.top_log_probs > -1 if sampled else None,
        n_allowed=np.arange(T) if sampled else None,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("arrays") / "a.npz"
    same(load_arrays(save_arrays(trace, path)), trace)
    assert all(array.dtype.kind != "O" for array in np.load(path).values())


def test_one_sided_traces_come_back_and_some_text_is_refused(tmp_path: Path) -> None:
    trace = make_trace(S=4, T=3, n_heads=2)
    nothing = np.zeros((0, 2, 0, 0), dtype="f4")
    reads = dataclasses.replace(
        trace, tgt_tokens=(), predicted_tokens=(), tgt_ids=(), predicted_ids=(), tgt_special=(),
        decoder_self=nothing, cross=np.zeros((0, 2, 0, 4), dtype="f4"),
        log_probs=trace.log_probs[:0],
        top_ids=trace.top_ids[:0, :0], top_log_probs=trace.top_log_probs[:0, :0], top_tokens=(),
        entropy=trace.entropy[:0], text="", score=math.nan, penalties=trace.penalties[:0],
    )  # fmt: skip
    writes = dataclasses.replace(
        trace, src_tokens=(), src_ids=(), src_special=(), encoder_self=nothing,
        cross=np.zeros((0, 2, 3, 0), dtype="f4"),
    )  # fmt: skip
    for each in (reads, writes):
        same(load_arrays(save_arrays(each, tmp_path / "x")), each)
    with pytest.raises(ValueError, match="source: a text ends in a null character"):
        save_arrays(dataclasses.replace(trace, source="a\0"), tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists()


def test_axes_of_one_entry_may_be_left_out_and_a_batch_of_one_is_no_axis() -> None:
    for lead, expected in (((), (1, 1)), ((1,), (1, 1)), ((2, 3), (2, 3)), ((2, 1, 3), (2, 3))):
        maps = rows((*lead, 4, 4))
        trace = trace_of({"attentions": maps})
        assert trace.encoder_self.shape == (*expected, 4, 4)
        np.testing.assert_array_equal(trace.encoder_self.reshape(-1), maps.reshape(-1))
        assert trace.cross.size == trace.decoder_self.size == 0
    lower = np.tril(np.ones((2, 1, 3, 4, 4))) / np.arange(1, 5)[:, None]
    for name, kind in ALIASES.items():  # the library's own names
        assert trace_of({name: lower}).attention(kind).shape == (2, 3, 4, 4)


def test_what_is_missing_is_not_made_up() -> None:
    maps = rows((2, 3, 4, 5)).astype("f2")  # half precision is taken, and not renormalised
    trace = trace_of({"cross": maps})
    np.testing.assert_array_equal(trace.cross, maps.astype("f4"))
    assert trace.src_tokens == ("▁1", "▁2", "▁3", "▁4", "▁5")
    assert trace.tgt_tokens == ("▁1", "▁2", "▁3", "▁4")
    assert trace.src_ids == (-1,) * 5 and trace.predicted_tokens == ()
    assert not trace.log_probs.size and not trace.entropy.size and not trace.top_ids.size
    assert math.isnan(trace.score)
    assert trace.encoder_self.shape == (0, 3, 5, 5) and trace.decoder_self.shape == (0, 3, 4, 4)


def test_one_stack_is_causal_where_nothing_looks_ahead() -> None:
    causal = np.tril(np.ones((2, 3, 4, 4)))
    causal /= causal.sum(-1, keepdims=True)
    words = np.array(["Ġa", "Ġdog", "gy", "."])
    trace = trace_of({"attention": causal, "tokens": words})
    assert trace.tgt_tokens == ("▁a", "▁dog", "gy", ".") and trace.src_tokens == ()
    assert trace.text == trace.source == "a doggy."
    trace = trace_of({"attention": rows((2, 3, 4, 4)), "tokens": words})
    assert trace.src_tokens == ("▁a", "▁dog", "gy", ".") and trace.tgt_tokens == ()


@pytest.mark.parametrize(("tokens", "expected", "special"), [
    (("[CLS]", "play", "##ing", "[SEP]"), ("[CLS]", "▁play", "ing", "[SEP]"), (0, 3)),
    (("<|endoftext|>", "A", "Ġdog"), ("<|endoftext|>", "A", "▁dog"), (0,)),
    (("__de__", "play@@", "ing", "dogs"), ("__de__", "▁play", "ing", "▁dogs"), (0,)),
    (("play", "ing</w>", "dogs</w>", "</s>"), ("▁play", "ing", "▁dogs", "</s>"), (3,)),
])  # fmt: skip
def test_words_begin_where_other_tokenizers_say(
    tokens: tuple[str, ...], expected: tuple[str, ...], special: tuple[int, ...]
) -> None:
    n = len(tokens)
    maps = np.full((n, n), 1 / n)
    trace = trace_of({"attention": maps, "tokens": np.array(tokens)})
    assert trace.src_tokens == expected
    assert trace.src_special == special
    # An explicit choice wins over a guess.
    given = {"attention": maps, "tokens": np.array(tokens), "src_special": np.array([1])}
    assert trace_of(given).src_special == (1,)


def test_the_other_side_says_how_few_tokens_are_marked() -> None:
    given = {
        "cross": rows((1, 1, 3, 4)), "src_tokens": np.array(["Ġa", "Ġdo", "gs", "Ġ."]),
        "tgt_tokens": np.array(["<s>", "CafÃ©", "."]),
        "predicted_tokens": np.array(["CafÃ©", ".", "</s>"]),
        "top_log_probs": np.zeros((3, 1)), "top_tokens": np.array([["Ġna"], ["Ã©"], ["</s>"]]),
    }  # fmt: skip
    trace = trace_of(given)
    assert trace.tgt_tokens == ("<s>", "Café", ".") and trace.tgt_special == (0,)
    assert trace.predicted_tokens == ("Café", ".", "</s>")
    assert trace.top_tokens == (("▁na",), ("é",), ("</s>",))
    given |= {
        "src_tokens": np.array(["a", "do@@", "gs", "."]),
        "tgt_tokens": np.array(["<s>", "Ca@@", "fe"]),
        "top_tokens": np.array([["x"], ["y@@"], ["z"]]),
    }
    assert trace_of(given).top_tokens == (("▁x",), ("y",), ("▁z",))


def test_log_probs_and_alternatives_are_kept_as_given() -> None:
    trace = make_trace(S=4, T=3)
    given = {
        "decoder_self": trace.decoder_self, "cross": trace.cross, "log_probs": trace.log_probs,
        "predicted_tokens": np.array(trace.predicted_tokens), "entropy": trace.entropy,
        "top_log_probs": trace.top_log_probs, "top_tokens": np.array(trace.top_tokens),
    }  # fmt: skip
    made = trace_of(given)
    np.testing.assert_array_equal(made.log_probs, trace.log_probs)
    assert made.top_tokens == trace.top_tokens
    assert made.score == pytest.approx(float(trace.log_probs.sum()), abs=1e-5)
    # Without ids, the predicted token is still found among the alternatives.
    for t, token in enumerate(made.predicted_tokens):
        found = [k for k, each in enumerate(made.top_ids[t]) if each == made.predicted_ids[t]]
        assert [made.top_tokens[t][k] for k in found] == [token]


CROSS = np.full((1, 2, 3, 4), 0.25)
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"x": np.ones(3)}, "no attention maps; expected one or more of"),
    "nan": (
        {"cross": CROSS * np.nan},
        "'cross' [1, 2, 3, 4]: NaN or infinite at (0, 0, 0, 0); weights are from 0 to 1. All rows "
        "see nothing: did the model fail, or is every key masked?",
    ),
    "padded": (
        {"cross": CROSS * [[1], [1], [np.nan]]},
        "row (0, 0, 2) sees nothing (its sum is nan). Is it padding? Leave out its rows",
    ),
    "masked": ({"cross": CROSS * [[1], [0], [1]]}, "row (0, 0, 1) sees nothing (its sum is 0)"),
    "one nan": ({"cross": [[0.5, np.nan]]}, "(0, 0, 0, 1); weights are from 0 to 1. Did the model"),
    "dropout": (
        {"cross": [[1.358, 0], [0, 0.9]]},
        "1.358 at (0, 0, 0, 0); weights are from 0 to 1. Was the model in training mode, with "
        "dropout? Call model.eval()",
    ),
    "scores": ({"cross": [[2.5, -1], [3, 0.5]]}, "2.5 at (0, 0, 0, 0); weights are from 0 to 1. "
               "Are these scores in front of the softmax?"),
    "large scores": ({"cross": [[2.5, 7], [3, 0.5]]}, "scores in front of the softmax?"),
    "masked scores": ({"decoder_self": [[2.5, -np.inf], [3, 0.5]]}, "scores in front of the"),
    "logs": ({"cross": np.log(CROSS)}, "Are these log-probabilities? Take exp(maps)"),
    "masked logs": ({"cross": [[0, -np.inf]]}, "Are these log-probabilities? Take exp(maps)"),
    "whole": ({"cross": np.tri(3, dtype=int)}, "Are these counts, ids or a mask (int64)?"),
    "mask": ({"cross": np.tri(3, dtype=bool)}, "Are these counts, ids or a mask (bool)?"),
    "transposed": ({"cross": [[0.9, 0.2], [0.1, 0.8]]}, "sums to 1.1; rows are queries and sum to "
                   "1 within 0.005. Columns do: are queries and keys exchanged?"),
    "percent": ({"cross": CROSS * 100}, "All rows have this sum: are these percentages, or sums"),
    "which axis": (
        {"attention": np.full((3, 5, 5), 0.2)},
        "[3, 5, 5] may be 3 heads or a batch of 3: add axes='heads, queries, keys' or "
        "axes='batch, queries, keys' or axes='layers, queries, keys' to the arrays",
    ),
    "which axis of layers": (
        {"attention": [np.full((3, 5, 5), 0.2)] * 2},
        "[2, 3, 5, 5] may be 3 heads or a batch of 3: add axes='layers, heads, queries, keys' or",
    ),
    "axes of another array": (
        {"attention": np.eye(5), "axes": "batch, query, key"},
        "[5, 5] does not have axes='batch, query, key'; expected 2 different names, among them "
        "queries and keys, of layers, batch, heads, queries, keys",
    ),
    "unknown axes": ({"attention": np.eye(5), "axes": "rows, keys"}, "axes='rows, keys'; expected"),
    "axes twice": ({"attention": np.eye(5), "axes": "key, keys"}, "axes='key, keys'; expected"),
    "a batch by name": (
        {"attention": np.full((3, 5, 5), 0.2), "axes": "batch, query, key"},
        "is a batch of 3: choose one (`batch=0`)",
    ),
    "too large for float32": ({"cross": CROSS * 1e300}, "NaN or infinite"),
    "negative": ({"cross": np.array([[1.5, -0.5]])}, "1.5 at (0, 0, 0, 0); weights are from 0"),
    "above 1": ({"cross": np.array([[1.1, -1e-9]])}, "1.1 at (0, 0, 0, 0); weights are from 0 to"),
    "rows": ({"cross": CROSS * 0.9}, "row (0, 0, 0) sums to 0.9; rows are queries and sum to 1"),
    "text": ({"cross": np.array([["a"]])}, "'cross' [1, 1] has type <U1; expected numbers"),
    "complex": ({"cross": CROSS * 1j}, "complex128; expected numbers"),
    "one axis": ({"cross": np.ones(1)}, "'cross' [1] is not a map; expected [layers, heads,"),
    "a batch": (
        {"cross": np.full((2, 3, 2, 3, 4), 0.25)},
        "[2, 3, 2, 3, 4] is a batch of 3: choose one (`batch=0`)",
    ),
    "one layer of two, or two layers of one": (
        {"cross": np.full((1, 2, 5, 3, 4), 0.25)},
        "[1, 2, 5, 3, 4] is a batch of 2: choose one (`batch=0`), or maps[0] if these are 2 layers",
    ),
    "long": ({"cross": np.full((1, 513), 1 / 513)}, "[1, 513] has 513 tokens; at most 512"),
    "deep": ({"cross": np.ones((201, 1, 1, 1))}, "201 layers of 1 heads; at most 200 layers"),
    "heads": ({"cross": np.ones((100, 50, 1, 1))}, "at most 200 layers and 4,096 heads"),
    "not square": ({"attention": np.full((3, 4), 0.25)}, "'attention' [3, 4] is not square"),
    "ahead": ({"decoder_self": np.full((2, 2), 0.5)}, "has weight above the diagonal"),
    "two names": ({"cross": CROSS, "cross_attentions": CROSS}, "is stored under two names"),
    "beside": ({"attention": np.eye(2), "cross": CROSS}, "beside 'cross'"),
    "sides": (
        {"cross": CROSS, "encoder_self": np.eye(3)},
        "array 'cross' [1, 2, 3, 4] for 3 queries (decoder_self) and 3 keys (encoder_self)",
    ),
    "tokens": ({"cross": CROSS, "src_tokens": np.array(["a"])}, "[1]: the maps have 4 tokens"),
    "one name": ({"cross": CROSS, "tokens": np.array(list("abcd"))}, "expected src_tokens and"),
    "bytes": ({"cross": CROSS, "src_tokens": np.array([b"a"] * 4)}, "|S1; expected text (str)"),
    "long token": (
        {"cross": CROSS, "src_tokens": np.array(["a" * 1_001] * 4)},
        "has a text of 1,001 characters; at most 1,000 are allowed",
    ),
    "log_probs": ({"cross": CROSS, "log_probs": np.zeros(4)}, "'log_probs' [4]: expected [3]"),
    "probabilities": ({"cross": CROSS, "log_probs": np.ones(3)}, "finite numbers up to 0"),
    "special": ({"cross": CROSS, "src_special": np.array([4])}, "positions from 0 to 3"),
    "ids": ({"cross": CROSS, "src_ids": np.zeros(4)}, "float64; expected whole numbers in one row"),
    "top": ({"cross": CROSS, "top_ids": np.zeros((3, 2), int)}, "'top_ids' needs top_log_probs"),
    "top shape": ({"cross": CROSS, "top_log_probs": np.zeros((2, 2))}, "[2, 2]: expected [3, K]"),
    "ragged": ({"cross": [[1.0], [0.5, 0.5]]}, "'cross' is not an array: its rows differ"),
    "objects": ({"cross": np.array([[None]])}, "object; expected numbers and text (str)"),
    "n_forced": ({"cross": CROSS, "n_forced": np.array(4)}, "expected a whole number from 0 to 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_one_line_with_file_array_and_shape(case: str) -> None:
    given, message = BAD[case]
    with pytest.raises(CheckpointError) as raised:
        trace_of(given, "a.npz")
    text = str(raised.value)
    assert text.startswith("a.npz: ") and "\n" not in text
    assert message in text


@given(
    st.dictionaries(
        st.sampled_from(["attention", "cross", "encoder_self", "decoder_self", "src_tokens",
                         "tokens", "tgt_tokens", "log_probs", "top_ids", "top_log_probs", "score",
                         "src_special", "text", "layout", "n_forced", "complete"]),
        hnp.arrays(
            st.one_of(hnp.floating_dtypes(), hnp.integer_dtypes(), hnp.unicode_string_dtypes(),
                      hnp.boolean_dtypes()),
            hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=3),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_any_arrays_give_a_trace_or_one_line(arrays: dict[str, Any]) -> None:
    try:
        trace = trace_of(arrays)
    except CheckpointError as error:
        if "\n" in str(error):
            raise
        return
    for kind in ("encoder_self", "decoder_self", "cross"):
        maps = trace.attention(kind)  # type: ignore[arg-type]
        rows, columns = trace.axis_tokens(kind)  # type: ignore[arg-type]
        assert maps.shape[2:] == (len(rows), len(columns)) and maps.dtype == np.float32
        np.testing.assert_allclose(maps.sum(-1), np.ones(maps.shape[:-1]), atol=6e-3)


def test_headers_alone_say_what_a_file_holds(tmp_path: Path) -> None:
    path = save_arrays(make_trace(S=6, T=4), tmp_path / "a")
    assert describe_arrays(path) == {
        "encoder_self": (3, 3, 6, 6), "decoder_self": (2, 3, 4, 4), "cross": (2, 3, 4, 6),
    }  # fmt: skip
    np.savez(tmp_path / "b.npz", x=np.ones(3))
    with pytest.raises(CheckpointError, match="no attention maps"):
        describe_arrays(tmp_path / "b.npz")


def test_one_sentence_of_a_batch_is_chosen() -> None:
    rng = np.random.default_rng(0)
    shapes = {"encoder_self": (2, 3, 4, 5, 5), "cross": (1, 3, 2, 4, 5)}
    both = {kind: rng.dirichlet(np.ones(shape[-1]), shape[:-1]) for kind, shape in shapes.items()}
    for batch in range(3):
        trace = trace_of(both, batch=batch)
        for kind, maps in both.items():
            np.testing.assert_array_equal(getattr(trace, kind), maps[:, batch].astype(np.float32))
    for none in (3, -1, "a", True, 0.5):
        with pytest.raises(CheckpointError, match=f"has no batch={none!r} of 3 .* from 0 to 2"):
            trace_of(both, batch=none)  # type: ignore[arg-type]


@pytest.mark.parametrize(("axes", "shape", "expected"), [
    ("heads, queries, keys", (3, 5, 5), (1, 3)), ("layers query key", (3, 5, 5), (3, 1)),
    ("query, head, key", (5, 3, 5), (1, 3)), ("batch, heads, queries, keys", (2, 3, 5, 5), (1, 3)),
    ("batch, layers, queries, keys", (2, 4, 5, 5), (4, 1)), ("queries, keys", (5, 5), (1, 1)),
    ("keys, heads, batch, layers, queries", (3, 2, 4, 5, 5), (4, 3)),
])  # fmt: skip
def test_axes_have_names(
    axes: str, shape: tuple[int, ...], expected: tuple[int, int], tmp_path: Path
) -> None:
    names, batch = re.findall(r"\w+", axes), 1 if "batch" in axes else None
    maps = np.moveaxis(rows(shape), -1, [name[:3] for name in names].index("key"))
    trace = trace_of({"cross": maps, "axes": axes}, batch=batch)
    assert trace.cross.shape == (*expected, 5, 5)
    one = maps if batch is None else maps.take(1, names.index("batch"))
    np.testing.assert_array_equal(np.sort(trace.cross, None), np.sort(one, None))
    np.savez(tmp_path / "a.npz", cross=maps, axes=axes)
    same(load_arrays(tmp_path / "a.npz", batch), trace)
    assert batch or describe_arrays(tmp_path / "a.npz") == {"cross": trace.cross.shape}


def test_a_batch_is_refused_without_its_axis() -> None:
    for shape, name in (((3, 4, 5, 5), "batch, heads"), ((3, 5, 5), "batch"), ((5, 5), "batch")):
        with pytest.raises(CheckpointError, match=f"no axis for batch=1: add axes=.*'{name}, q"):
            trace_of({"encoder_self": rows(shape)}, batch=1)
