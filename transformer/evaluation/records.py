"""Records in metrics.json: figures, and what they were measured on.

A record is a mapping of figures with a stamp under "measured":

    model     digest of the weights' file (see `transformer.checkpoint.weights`), "" without one
    setting   in words, as tables print it: "beam 4, alpha 0.6"
    text      name of the text
    items     number of its sentences, pairs or trees
    sha256    digest of the text: an item a line, a pair as source, tab, target
    date      day of the measurement, UTC
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from transformer.checkpoint.weights import digest
from transformer.models.catalogue import Entry
from transformer.models.one_stack.config import StackConfig
from transformer.search.request import default_decoding

MEASURED = "measured"

#: Key of the scores of test sets, and of further measured decodings, each with its `tests`.
TESTS, OTHER_DECODINGS = "tests", "other_decodings"

#: Keys of a parser's scores on GUM dev, and of the scores of other parsers and settings by name;
#: names of the same parser with other settings start with `OWN`.
PARSING, BASELINES, OWN = "parsing", "parsing_baselines", "this model"

#: Keys of the figures of models that continue or fill in, by text, and of typed sentences.
PREDICTIONS, TYPED = "predictions", "typed"

#: Words of model cards and tables by their use; "measures" and "texts" name figures and texts.
WORDS = tomllib.loads(Path(__file__).with_name("cards.toml").read_text("utf-8"))
TEXTS: Mapping[str, str] = WORDS["texts"]


@dataclass(frozen=True)
class Record:
    """Scores read from metrics.json, which is untrusted."""

    kind: str  # key of metrics.json
    name: str  # text name
    figures: Mapping[str, Any]
    setting: str  # see `setting_of`

    @property
    def text(self) -> str:
        """The text's display name."""
        return text_name(self.name)

    def words(self, *keys: str) -> list[str]:
        """Return the figures under these keys in words, without NaN and huge ones."""
        values = ((key, self.figures.get(key)) for key in keys)
        return [
            WORDS["measures"][key].format(value)
            for key, value in values
            if isinstance(value, int | float) and value is not True and -1e9 < value < 1e9
        ]


def stamped(
    figures: Mapping[str, Any], model: str, setting: object, text: str, items: Sequence[object]
) -> dict[str, Any]:
    """Return figures measured today as a record.

    Args:
        model: `digest` of the weights' file.  setting: in words, as `str` makes them.
        text: its name.  items: its lines, or tuples of their parts.
    """
    lines = ["\t".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in items]
    return {
        **figures,
        MEASURED: {
            "model": model,
            "setting": str(setting),
            "text": text,
            "items": len(lines),
            "sha256": digest("".join(f"{line}\n" for line in lines).encode()),
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
        },
    }


def text_name(name: str) -> str:
    """Return a text's display name, by default its own name."""
    return TEXTS.get(name, name)


def setting_of(values: Mapping[str, Any]) -> str:
    """Return the setting of a record in words, "setting not recorded" without a stamp."""
    return str(mapping(values.get(MEASURED)).get("setting", "setting not recorded"))


def stamps(metrics: Mapping[str, Any], *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every stamp with the keys that lead to its record."""
    for key, value in metrics.items():
        for record in filter(mapping, value if isinstance(value, list) else [value]):
            if key == MEASURED:
                yield path, record
            else:
                yield from stamps(record, *path, key)


def records(metrics: Mapping[str, Any]) -> list[Record]:
    """Return everything measured of a model, by its default decoding first."""
    others = metrics.get(OTHER_DECODINGS)
    groups: list[tuple[str, object]] = [
        (TESTS, metrics.get(TESTS)),
        *((TESTS, mapping(o).get(TESTS)) for o in (others if isinstance(others, list) else ())),
        (PREDICTIONS, metrics.get(PREDICTIONS)),
        (PARSING, {"GUM dev": metrics.get(PARSING)}),
        *(
            (PARSING, {"GUM dev": values})
            for name, values in mapping(metrics.get(BASELINES)).items()
            if name.startswith(OWN)
        ),
        (TYPED, {"typed sentences": metrics.get(TYPED)}),
    ]
    measured = [
        Record(kind, str(name), values, setting_of(values))
        for kind, group in groups
        for name, values in mapping(group).items()
        if isinstance(values, Mapping)
    ]
    return sorted(measured, key=lambda record: record.setting != str(default_decoding(metrics)))


def mapping(value: object) -> Mapping[str, Any]:
    """Return an untrusted value, or nothing unless it is a mapping."""
    return value if isinstance(value, Mapping) else {}


_KEYS = {TESTS: ("bleu", "lc_tok_bleu"), PREDICTIONS: ("perplexity", "right"), PARSING: ("f1",)}


def summary_table(entries: Sequence[Entry]) -> str:
    """Tabulate checkpoints in Markdown: shape, and a row of figures for each setting.

    metrics.json is untrusted: invalid figures are left out.
    """
    lines = ["| checkpoint | shape | setting | measured |", "|---|---|---|---|"]
    for entry in entries:
        model = entry.stack or entry.config
        if model is None or entry.error is not None:
            lines.append(f"| {entry.name} | cannot be loaded | | |")
            continue
        if isinstance(model, StackConfig):
            kept = "encoder" if model.task == "fill" else "decoder"
            layers = "1 layer" if model.n_layers == 1 else f"{model.n_layers} layers"
            layers, heads = f"{layers}, {kept} only", model.blocks.heads_in_words
        else:
            layers = f"{model.n_encoder_layers}+{model.n_decoder_layers} layers"
            heads = model.heads_in_words
        millions = f"{model.n_parameters / 1e6:.1f}M parameters"
        first = f"{entry.name} | {layers}, {heads}, d_model {model.d_model}, {millions}"
        rows: dict[str, list[str]] = {}
        for record in records(entry.metrics):
            if figures := _figures(record):
                rows.setdefault(record.setting, []).append(figures)
        for setting, measured in (rows or {"": ["nothing measured"]}).items():
            lines.append(f"| {first} | {setting} | {'; '.join(measured)} |")
            first = "|"
    return "\n".join(lines)


def _figures(record: Record) -> str:
    """Return the figures of a record, "" if they are invalid."""
    match record.kind, record.figures:
        case "typed", {"right": int(right), "sentences": int(sentences)}:
            return f"{right} of {sentences} typed sentences right"
    keys = ("exact_match",) if record.name == "reverse_test" else _KEYS.get(record.kind, ())
    words = record.words(*keys)
    return f"{record.text}: {', '.join(words)}" if words else ""
