import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.trees.words import agreeing_tag, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't (really).", "Do n't ( really ) ."),
        ("It's Mr. Smith's, isn't it?", "It 's Mr. Smith 's , is n't it ?"),
        ('"Well-known," she said...', '" Well - known , " she said ...'),
        ("It cost $5.50 in the U.S. in 1990.", "It cost $ 5.50 in the U.S. in 1990 ."),
        ("They 'll go .", "They 'll go ."),
        ("the dogs' house", "the dogs ' house"),
    ],
)
def test_splits_as_the_treebank_does(text: str, words: str) -> None:
    assert split_words(text) == words.split()


@given(st.text(alphabet="abS.,'’\"()-! n't", max_size=30))
def test_nothing_is_lost_and_split_text_stays(text: str) -> None:
    words = split_words(text)
    assert "".join(words) == "".join(text.split())
    assert split_words(" ".join(words)) == words


def test_tags_agree_with_punctuation() -> None:
    assert agreeing_tag("NN", ",") == "," and agreeing_tag("NN", "(") == "-LRB-"
    assert agreeing_tag(",", "cat") == "NN" and agreeing_tag(":", "-") == ":"
    assert agreeing_tag("VB", "cat") == "VB"
