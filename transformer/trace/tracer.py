"""The interface every model offers to pages: a trace, and what else it can do.

`transformer.translator.Translator` can do everything. A model of another library offers attention
only; a file of arrays offers the one sentence it holds. Nothing here imports PyTorch.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args, runtime_checkable

from transformer.trace.records import Trace
from transformer.types import AttentionKind

Ability = Literal["search", "steering", "internals", "heads", "vocabulary", "any_sentence"]

#: Abilities a model may lack: a record of its beam search; prefixes, given targets and sampling;
#: gates, the residual stream and all else of encoder and decoder; queries, keys and values of a
#: head; a tokenizer of this project; sentences other than its own.
ABILITIES: tuple[Ability, ...] = get_args(Ability)


@runtime_checkable
class Tracer(Protocol):
    """Anything that turns a sentence into a `Trace`.

    Parts that a model does not have are empty. A model without an encoder has no source:
    `src_tokens` is empty, `encoder_self` is [0, H, 0, 0] and `cross` [0, H, T, 0]. One without a
    decoder has no target: `tgt_tokens` is empty, `decoder_self` is [0, H, 0, 0] and `cross`
    [0, H, 0, S], with empty `log_probs` and `top_ids`. Depths and head counts of the kinds may
    differ. In every piece `▁` marks the start of a word.

    Attributes:
        name: on screen.
        device: "cpu" or "cuda".
        max_tokens: longest sentence accepted.
        kinds: which of the three kinds of maps its traces hold, in the order of
            `transformer.types.ATTENTION_KINDS`.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - said above

    @property
    def device(self) -> str: ...  # noqa: D102

    @property
    def max_tokens(self) -> int: ...  # noqa: D102

    @property
    def kinds(self) -> tuple[AttentionKind, ...]: ...  # noqa: D102

    def lacks(self, ability: Ability) -> str | None:
        """Return None for an ability the model has, else one plain sentence why it has not."""
        ...

    def trace(self, sentence: str, target: str | None = None, *args: Any, **options: Any) -> Trace:
        """Return the record of one sentence.

        Args:
            sentence: the source, or the text of a model without an encoder.
            target: a translation to follow instead of searching for one.
            options: those of `Translator.trace` that the model supports.

        Raises: `InputError` for a sentence that the model does not accept.
        """
        ...
