"""Settings of decoding in the URL: beam search, greedy decoding, or sampling."""

from __future__ import annotations

from transformer.search.decoding import PAPER_DECODING
from transformer.search.sampling import Sampling
from ui.core import url_state
from ui.core.url_state import Param

#: Largest values that the app offers; the search itself accepts more.
MAX_BEAM, MAX_ALPHA = 10, 2.0

#: The defaults are the paper's; a checkpoint may have its own, see `ui.frame.decoding`.
BEAM: Param[int] = Param("beam", url_state.whole(1, MAX_BEAM), PAPER_DECODING.beam_size)
ALPHA: Param[float] = Param("alpha", url_state.number(0, MAX_ALPHA), PAPER_DECODING.alpha)
SAMPLE: Param[bool] = url_state.switch("sample")
TEMPERATURE: Param[float] = Param("temperature", url_state.number(0.05, 3), 1.0)
TOP_K: Param[int] = Param("top_k", url_state.whole(0, 100), 0)
TOP_P: Param[float] = Param("top_p", url_state.number(0.05, 1), 1.0)
SEED: Param[int] = Param("seed", url_state.whole(0, 999_999), 0)


def sampling() -> Sampling | None:
    """Return the settings of sampling, None if it is off."""
    if not url_state.get(SAMPLE):
        return None
    return Sampling(
        url_state.get(TEMPERATURE), url_state.get(TOP_K), url_state.get(TOP_P), url_state.get(SEED)
    )  # fmt: skip


def beam_size(samples: bool = True) -> int:
    """Return the beam size; 1 for sampling, which not every model supports (`samples`)."""
    return 1 if samples and url_state.get(SAMPLE) else url_state.get(BEAM)
