import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures import labels, outcomes
from figures.labels import ARROW, code, plain, probability, row_labels, show_token, signed
from tests.factories import make_trace
from tests.searched import PIECES, searched
from transformer.measures.beam import Tree, beam_tree
from transformer.measures.finish import ranking, score_at, winning_ranges
from transformer.search.rules import Sampling, hugging_face
from transformer.types import ATTENTION_KINDS


@pytest.mark.parametrize(("write", "given", "written"), [
    (labels.signed, (-1.234, -0.001, 0.5), ("−1.23", "0.00", "0.50")),
    (labels.probability, (0.0, -2.4, -20.0), ("100%", "9.1%", "<0.1%")),
    (labels.percent, (1.0, 0.9337, 0.00099), ("100.0%", "93.4%", "<0.1%")),
    (lambda n: labels.count(n, "token"), (0, 1, 2048), ("0 tokens", "1 token", "2,048 tokens")),
    (labels.parameters, (48_211, 100_000, 64_960_000), ("48k", "0.1M", "65.0M")),
    (labels.in_words, (28_202_280, 999), ("28.2 million", "999")),
    (labels.decimal, (2.3e-6, 0.25, 0.0), ("0.000002", "0.2", "0")),
    (lambda x: labels.decimal(x, 2), (100.0, 36.4, 0.00515), ("100", "36", "0.0052")),
    (labels.in_bytes, (5, 1_500, 312_000_000, 9e9), ("5 bytes", "1.5 kB", "312 MB", "9.0 GB")),
])  # fmt: skip
def test_numbers(
    write: Callable[[Any], str], given: tuple[float, ...], written: tuple[str, ...]
) -> None:
    assert tuple(map(write, given)) == written


#: Text full of the characters of Markdown and Streamlit's directives.
nasty = st.text(alphabet=st.one_of(st.sampled_from("`*_$:[]()<>!#\\ \n|~a:red"), st.characters()))


@given(nasty)
def test_plain_escapes_every_mark_and_reads_back_as_typed(text: str) -> None:
    shown, mark = plain(text), r"\\([!-/:-@\[-`{-~])"
    assert "\n" not in shown and not set(re.sub(mark, "", shown)) & set(string.punctuation)
    read = re.sub(mark, r"\1", shown).replace("\u2060", "")
    assert read == " ".join(text.split()).replace("\u2060", "")


def test_plain_breaks_emoji_codes_and_directives() -> None:
    assert plain(":smile:") == "\\:\u2060smile\\:"
    assert plain(":red[x]") == r"\:red\[x\]"
    assert plain("<b>") == r"\<b\>"


@given(nasty)
def test_code_holds_the_text_between_fences_that_it_does_not_contain(text: str) -> None:
    span = code(text, limit=1000)
    fence = re.match("`+", span)
    assert fence is not None
    inner = span[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inner)
    line = " ".join(text.split())
    assert inner in (line, f" {line} ")


@given(st.text(), st.integers(1, 30))
def test_shorten_keeps_the_limit(text: str, limit: int) -> None:
    short = labels.shorten(text, limit)
    assert len(short) <= limit
    assert short == text or short.endswith("…")


@given(st.text(max_size=60))
def test_escaping_can_be_undone_and_leaves_nothing_to_format(text: str) -> None:
    escaped = labels.escape_plotly(text)
    assert not set(escaped) & set("<>$")
    undone = escaped.replace("&#36;", "$").replace("&gt;", ">").replace("&lt;", "<")
    assert undone.replace("&amp;", "&") == text


@given(st.text(max_size=300), st.integers(4, 40))
def test_labels_are_short_visible_and_keep_their_direction(token: str, limit: int) -> None:
    label = show_token(token, limit)
    inner = label.removeprefix("\u2068").removesuffix("\u2069")
    assert 0 < len(inner) <= limit
    assert (label != inner) == any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in inner)
    for character in inner:
        assert unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        # Direction marks and other invisible characters; a joiner inside emoji may stay.
        assert unicodedata.category(character) != "Cf" or character == "\u200d"


@pytest.mark.parametrize(("token", "shown"), [
    ("▁the", "▁the"), ("a\nb", "a↵b"), ("\t", "⇥"), (" ", "␣"), ("\x00", "␀"),
    ("\x7f", "[U+007F]"), ("\u202e", "[U+202E]"), ("", "∅"), ("</s>", "</s>"),
    ("👩\u200d💻", "👩\u200d💻"), ("שלום", "\u2068שלום\u2069"), ("\ud800", "[U+D800]"),
])  # fmt: skip
def test_what_cannot_be_seen_is_named(token: str, shown: str) -> None:
    assert show_token(token) == shown


def test_a_decoder_row_is_named_by_what_it_reads_and_predicts() -> None:
    reads, predicts = ("<s>", "▁weil", "▁es"), ("▁weil", "▁es", "</s>")
    assert row_labels(reads, predicts) == ("<s> → ▁weil", "▁weil → ▁es", "▁es → </s>")
    assert row_labels(reads) == reads  # what follows is unknown
    assert row_labels(["reads"], ["predicts"])[0] == labels.READS_PREDICTS
    with pytest.raises(ValueError, match="shorter"):
        row_labels(reads, predicts[1:])
    label = row_labels(["a" * 60], ["\u05d0" * 3])[0]  # both are shown, and both of their ends
    assert show_token(label, 5) == "aa…aa → \u2068\u05d0\u05d0\u05d0\u2069"


def test_a_long_token_does_not_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(labels, "_shown", lambda part, limit: kept.append(part) or part)
    show_token("x" * 10_000 + ARROW + "y" * 30, 24)
    assert [len(part) for part in kept] == [48, 30]
    assert labels.plain_token("▁weil → ▁es") == "_weil → _es"
    trace = make_trace(S=5, T=4)
    named = {kind: labels.query_labels(trace, kind) for kind in ATTENTION_KINDS}
    assert named["encoder_self"] == trace.src_tokens
    assert named["cross"] == named["decoder_self"]
    shown, next_ones = zip(*(each.split(labels.ARROW) for each in named["cross"]), strict=True)
    assert (shown, next_ones) == (trace.tgt_tokens, trace.predicted_tokens)
    assert shown[1:] == next_ones[:-1]  # shifted right


def decode(ids: Sequence[int]) -> str:
    return "".join(PIECES[token] for token in ids if token > 2).replace("▁", " ").strip()


def explained(tree: Tree) -> str:
    return outcomes.why_the_winner_won(tree, decode)


@given(st.integers(0, 3_000), st.sampled_from([0.0, 0.6, 2.0]), st.integers(2, 5))
def test_the_winner_s_sentence_has_its_numbers(seed: int, alpha: float, beam: int) -> None:
    tree = beam_tree(searched(seed, beam, alpha, end=1.0, max_length=7))
    winner, text = tree.node(tree.leaves[0]), explained(tree)
    sums = outcomes.score_arithmetic(tree, decode)
    assert f"**{signed(winner.score)}**" in text and "log p" not in text
    for place, leaf in enumerate(map(tree.node, tree.leaves[:2]), 1):
        lp = ((5 + leaf.length) / 6) ** alpha
        assert f"((5 + {leaf.length}) / 6)^{alpha:g} = {lp:.3f} gives" in sums
        assert f"- #{place}: {signed(leaf.total)} / " in sums
        assert f"**{signed(leaf.score)}** ({leaf.length} token" in sums
    if winner.outcome == "finished" and len(tree.leaves) > 1:
        assert f"with {signed(tree.node(tree.leaves[1]).score)}." in text


@given(st.integers(0, 3_000))
def test_a_rival_is_quoted_from_a_word_s_start_and_told_apart(seed: int) -> None:
    tree = beam_tree(searched(seed, 4, 0.6, end=1.0))
    for quoted, rest in re.findall(r"#(\d+) `… ([^`]*)`", explained(tree)):
        whole = decode([node.token_id for node in tree.prefix(tree.leaves[int(quoted) - 1])])
        said = rest.removesuffix("…")
        starts = [i + 1 for i, letter in enumerate(whole) if letter == " "]
        assert any(whole[i:].startswith(said) and len(whole) - i >= 14 for i in starts), whole


@given(st.integers(0, 3_000), st.sampled_from([0.0, 0.6, 2.0]))
def test_what_it_says_of_other_alphas_is_true(seed: int, alpha: float) -> None:
    tree = beam_tree(searched(seed, 4, alpha, end=1.0))
    leaves = [tree.node(index) for index in tree.leaves]
    if leaves[0].outcome != "finished" or len(leaves) < 2:
        return
    text, rules = outcomes.score_arithmetic(tree, decode), winning_ranges(leaves)
    likeliest = ranking(leaves, 0.0)[0]
    assert ("also the most probable" in text) == (likeliest == 0)
    if likeliest:
        assert f"(α = 0), #{likeliest + 1} " in text
    assert ("every α from 0 to 2" in text) == (len(rules) == 1)
    for border in re.findall(r"α = (\d\.\d{3})", text):
        below, above = float(border) - 2e-3, float(border) + 2e-3
        assert ranking(leaves, below)[0] != ranking(leaves, above)[0]


def test_greedy_names_its_closest_call() -> None:
    tree = beam_tree(searched(11, beam_size=1, max_length=6))
    close = outcomes.closest_call(tree)
    assert close is not None
    taken, other = close
    assert taken.step == other.step
    assert (taken.fate != "dropped", other.outcome) == (True, "passed")
    leads = []
    for index in tree.winner:
        node = tree.node(index)
        rest = [tree.node(i) for i in tree.steps[node.step] if i != index]
        leads.append(node.log_prob - max(each.log_prob for each in rest))
    assert taken.log_prob - other.log_prob == pytest.approx(min(leads))
    assert f"step {taken.step + 1}" in explained(tree)
    assert probability(taken.log_prob) in explained(tree)


def test_sampled_given_cut_and_lonely_ones_are_told_apart() -> None:
    assert outcomes.score_arithmetic(beam_tree(searched(5, 1)), decode) == ""
    drawn = explained(beam_tree(searched(5, 1, sampling=Sampling(temperature=2.0, seed=4))))
    assert "tokens were sampled" in drawn
    cut = explained(beam_tree(searched(1, 3, max_length=4, end=-30.0)))
    assert cut.startswith("**No hypothesis finished within 4 tokens.**")
    assert "A beam of one" in explained(beam_tree(searched(0, 1, max_length=1, end=30.0)))


@given(st.integers(0, 2_000), st.integers(1, 4), st.sampled_from([-30.0, 0.0, 2.0]))
def test_every_node_has_a_reason_with_true_numbers(seed: int, beam: int, end: float) -> None:
    tree = beam_tree(searched(seed, beam, end=end, max_length=8))
    texts = [explained(tree)]
    for node in tree.nodes:
        text = outcomes.why_it_went(tree, node)
        texts.append(text)
        assert text.startswith("**") and text.endswith(".")
        if node.outcome == "outranked":
            lack = tree.last_in_beam(node.step).total - node.total
            assert lack >= 0 and f"is {signed(lack)} lower" in text
        if node.outcome == "finished":
            assert f"ranks {tree.leaves.index(node.index) + 1} among the {len(tree.leaves)}" in text
    outside = re.sub(r"`[^`]*`", "", " ".join(texts))
    assert "<b>" not in outside and "*a*" not in outside.replace("**", "")


def test_places_penalties_and_counts() -> None:
    tree = beam_tree(searched(4, 4, end=1.0))
    leaves = [tree.node(index) for index in tree.leaves]
    for place, node in enumerate(leaves):
        assert ranking(leaves, tree.alpha, tree.rule).index(place) == place
        assert score_at(node, tree.alpha, tree.rule) == pytest.approx(node.score)
        rank = sum(other.total > node.total for other in leaves)
        assert ranking(leaves, 0.0, tree.rule).index(place) == rank
        assert score_at(node, 0.0, tree.rule) == node.total
    assert outcomes.penalty_of(7, 1.0) == "((5 + 7) / 6)^1 = 2.000"
    assert outcomes.penalty_of(4, 0.5, hugging_face()) == "4^0.5 = 2.000"
    n_kept = sum(node.fate != "dropped" for node in tree.nodes)
    assert f"{len(tree.steps)} steps, beam 4, {n_kept} nodes kept" in outcomes.summary(tree, decode)
