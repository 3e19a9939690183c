"""Settings of decoding in the URL: beam search, greedy decoding, or sampling."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.search.decoding import PAPER_DECODING
from transformer.search.sampling import Sampling
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import Param

#: Largest values that the app offers; the search itself accepts more.
MAX_BEAM, MAX_ALPHA = 10, 2.0


@dataclass(frozen=True)
class SearchChoice(Choice):
    """The defaults are the paper's; a checkpoint may have its own, see `ui.frame.decoding`."""

    beam: Param[int] = Param("beam", url_state.whole(1, MAX_BEAM), PAPER_DECODING.beam_size)
    alpha: Param[float] = Param("alpha", url_state.number(0, MAX_ALPHA), PAPER_DECODING.alpha)
    sample: Param[bool] = url_state.switch("sample")
    temperature: Param[float] = Param("temperature", url_state.number(0.05, 3), 1.0)
    top_k: Param[int] = Param("top_k", url_state.whole(0, 100), 0)
    top_p: Param[float] = Param("top_p", url_state.number(0.05, 1), 1.0)
    seed: Param[int] = Param("seed", url_state.whole(0, 999_999), 0)

    @property
    def sampling(self) -> Sampling | None:
        """The settings of sampling, None if it is off."""
        if not self.sample:
            return None
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    def beam_size(self, samples: bool = True) -> int:
        """Return the beam size; 1 for sampling, which not every model supports (`samples`)."""
        return 1 if samples and self.sample else self.beam
