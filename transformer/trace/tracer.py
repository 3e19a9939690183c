"""What a page may ask of a model, whoever made it: a trace, and what else it is able to do.

`transformer.translator.Translator` is able to do everything. A model of another library gives its
attention and no more of its inside; a file of arrays gives the one sentence that it holds. Nothing
here imports PyTorch.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args, runtime_checkable

from transformer.trace.records import Trace
from transformer.types import AttentionKind

Ability = Literal["search", "steering", "internals", "vocabulary", "any_sentence"]

#: What a model may lack: a record of its beam search; prefixes, given targets and sampling;
#: queries, keys, values and gates; a tokenizer of this project; sentences other than its own.
ABILITIES: tuple[Ability, ...] = get_args(Ability)


@runtime_checkable
class Tracer(Protocol):
    """Anything that turns a sentence into a `Trace`.

    A trace holds what there is. A model without an encoder has no source: `src_tokens` is empty,
    `encoder_self` is [0, H, 0, 0] and `cross` [0, H, T, 0]. One without a decoder has no target:
    `tgt_tokens` is empty, `decoder_self` is [0, H, 0, 0] and `cross` [0, H, 0, S], with empty
    `log_probs` and `top_ids`. Depths and head counts of the kinds may differ. In every piece `▁`
    marks the start of a word.

    Attributes:
        name: what it is called on screen.
        device: "cpu" or "cuda".
        max_tokens: longest sentence that it takes.
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
        """None for what it is able to do, else one plain sentence that says why it is not."""
        ...

    def trace(self, sentence: str, target: str | None = None, *args: Any, **options: Any) -> Trace:
        """The record of one sentence.

        Args:
            sentence: the source, or the text of a model without an encoder.
            target: a translation to follow instead of making one, where that is asked for.
            options: those of `Translator.trace`; a tracer ignores what it has no use for.

        Raises: `InputError` for a sentence that it does not take.
        """
        ...
