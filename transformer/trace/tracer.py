"""The interface of all models for pages: traces and abilities, without PyTorch.

`transformer.translator.Translator` has all abilities. A model of another library has attention
only; a file of arrays has one sentence.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol, Self, get_args, runtime_checkable

from transformer.trace.records import Trace
from transformer.types import AttentionKind, InputError, literals

Ability = Literal["search", "steering", "internals", "edits", "heads", "vocabulary", "any_sentence"]

#: In order: a record of the beam search; prefixes, targets and sampling; gates and the residual
#: stream; edits (`transformer.edits`); queries, keys and values of a head; a tokenizer of this
#: project; any sentence.
ABILITIES: tuple[Ability, ...] = get_args(Ability)

#: Reasons why kinds of models lack abilities, see lacks.toml, and why they support no edits.
LACKS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("lacks.toml").read_text("utf-8")
)
NO_EDITS = {kind: reasons["edits"] for kind, reasons in LACKS.items()}


class Unedited:
    """A model without edits.

    Attributes: cases: kind of model, and cases of it in `LACKS`.
    """

    cases: tuple[str, ...]

    @literals
    def lacks(self, ability: Ability) -> str | None:
        """Return why the model lacks an ability as one sentence, or None if it has it."""
        kind, *cases = self.cases
        reasons = (LACKS[kind].get(f"{ability} {case}") for case in cases)
        return next(filter(None, reasons), LACKS[kind].get(ability))

    def edited(self, *edits: object, **options: object) -> NoReturn:
        """Raise `InputError` with the reason."""
        raise InputError(f"edit “{'; '.join(map(str, edits))}”: {self.lacks('edits')}")

    def refuse_edits(self, edits: Any) -> None:
        """Raise `InputError` if edits are given."""
        if edits:
            self.edited(*([edits] if isinstance(edits, str) else edits))


@runtime_checkable
class Tracer(Protocol):
    """A model that turns a sentence into a `Trace`.

    Missing parts are empty. Without an encoder there is no source: `src_tokens` is empty,
    `encoder_self` is [0, H, 0, 0] and `cross` [0, H, T, 0]. Without a decoder there is no target:
    `tgt_tokens` is empty, `decoder_self` is [0, H, 0, 0] and `cross` [0, H, 0, S], with empty
    `log_probs` and `top_ids`. Kinds may differ in depth and head count. In pieces `▁` marks the
    start of a word.

    Attributes:
        name: name on screen.
        device: "cpu" or "cuda".
        max_tokens: longest sentence.
        kinds: kinds of maps in its traces, in the order of `transformer.types.ATTENTION_KINDS`.
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
        """Return why the model lacks an ability, or None if it has it."""

    def edited(self, *edits: str) -> Self:
        """Return the edited model. Raises `InputError` for unsupported edits."""

    def trace(self, sentence: str, target: str | None = None, *args: Any, **options: Any) -> Trace:
        """Return the record of one sentence.

        Args:
            sentence: the source, or the text of a model without an encoder.
            target: a translation to follow instead of searching for one.
            options: options of `Translator.trace` that the model supports.

        Raises: `InputError` for a sentence that the model does not accept.
        """
