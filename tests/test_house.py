import pytest

from tests.house import ROOT
from tests.lines import LIMITS, sizes


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git says which files count")
def test_sizes_are_within_their_limits() -> None:
    values = sizes()
    assert {name: values[name] for name in LIMITS if values[name] > LIMITS[name]} == {}
