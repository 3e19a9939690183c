"""What the Family page computes, for the cache."""

from __future__ import annotations

from transformer.one_stack.tracer import Guesses, StackModel
from transformer.search.sampling import Sampling
from transformer.trace.records import Trace
from ui.family.exhibits import TOP, opened
from ui.work.results import Computation

#: The guesses of a model that fills in, at each place.
GUESSES: Computation[tuple[Guesses, ...]] = Computation(
    "guesses", TOP, lambda model, trace: model.guesses(trace, TOP)
)


def continued(n: int, seed: int) -> Computation[Trace]:
    """Return the computation of a text's continuation by at most `n` tokens.

    Args: seed: of drawn tokens; 0 takes the most probable ones.
    """

    def make(model: StackModel, trace: Trace) -> Trace:
        if not n:
            return trace
        start = opened(trace.source)
        room = model.max_tokens - len(model.tokenize(start).ids) - 1
        if room < 1:
            return trace
        sampling = Sampling(top_p=0.9, seed=seed) if seed else None
        return model.trace(start, new_tokens=min(n, room), sampling=sampling, top_k=TOP)

    return Computation("continued", (n, seed), make)
