"""The maps of the Attention page as chosen: which kind, by tokens or words, one or several."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.measures.heads import combine, combine_chosen, mass_by_head
from transformer.measures.words import Groups, maps_by_words
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats
from ui.attention.choice import AttentionChoice, special_keys, to_units
from ui.components.grid import Sheet, Tab, grid_sheet, name_of
from ui.components.lens import Map
from ui.components.lines import Drawing, drawing


@dataclass(frozen=True)
class Story:
    """What one kind of attention is, in words (section 3.2.3).

    Attributes:
        name: on the control.
        about: one or two sentences.
        queries, keys: what the axes hold.
        short: the name where there is little room.
    """

    name: str
    about: str
    queries: str
    keys: str
    short: str = ""


STORIES: dict[AttentionKind, Story] = {
    "encoder_self": Story(
        "Encoder self-attention",
        "Every source token looks at every source token. Nothing is masked: the whole sentence is "
        "there from the start.",
        "source",
        "source",
        "Encoder",
    ),
    "decoder_self": Story(
        "Decoder self-attention",
        "Every token of the translation looks at itself and at those before it. Later ones are "
        "masked (dots): while translating, they do not exist yet.",
        "translation",
        "translation",
        "Decoder",
    ),
    "cross": Story(
        "Cross-attention",
        "Every token of the translation looks at the whole source while the token after it is "
        "predicted. Nothing is masked.",
        "translation",
        "source",
        "Cross",
    ),
}

#: The same where there is one stack only: there is a text, and no translation of it.
ALONE: dict[AttentionKind, Story] = {
    "encoder_self": Story(
        "Self-attention",
        "Every token looks at every token of the text, before and after it. Nothing is masked.",
        "text",
        "text",
    ),
    "decoder_self": Story(
        "Causal self-attention",
        "Every token of the text looks at itself and at those before it, while the token after it "
        "is predicted. Later ones are masked (dots).",
        "text",
        "text",
    ),
}


def story_of(trace: Trace, kind: AttentionKind) -> Story:
    """What a kind of attention is in this model."""
    if trace.src_tokens and trace.tgt_tokens:
        return STORIES[kind]
    return ALONE.get(kind, STORIES[kind])


@dataclass(frozen=True, eq=False)
class Maps:
    """All maps of one kind in the units of the view.

    Attributes:
        weights: [L, H, n, m]; rows are queries and sum to 1.
        queries, keys: [n] and [m] labels.
        query_groups, key_groups: the pieces of each word; None for tokens.
        dimmed: the columns that "dim special tokens" covers, whether or not it is on.
        notes: [n] what each query of the decoder goes on to predict, or nothing.
        story: the kind in words.  causal: later keys are masked.
    """

    weights: Floats
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    query_groups: Groups | None
    key_groups: Groups | None
    dimmed: tuple[int, ...]
    notes: tuple[str, ...]
    story: Story
    causal: bool


def maps_of(trace: Trace, kind: AttentionKind, units: str) -> Maps:
    """The maps of one kind, between "tokens" or "words"."""
    weights, (queries, keys) = trace.attention(kind), trace.axis_tokens(kind)
    special = special_keys(trace, kind)
    predicted = () if kind == "encoder_self" else trace.predicted_tokens
    story, causal = story_of(trace, kind), kind == "decoder_self"
    if units == "tokens":
        notes = tuple(f"predicts {token}" for token in predicted)
        return Maps(weights, queries, keys, None, None, special, notes, story, causal)
    words = maps_by_words(trace, kind)
    rows, columns = words.query_groups, words.key_groups
    notes = tuple(f"predicts {' '.join(predicted[at] for at in row)}" for row in rows if predicted)
    return Maps(
        words.weights, words.queries, words.keys, rows, columns, to_units(special, columns), notes,
        story, causal,
    )  # fmt: skip


def tab_of(trace: Trace, kind: AttentionKind, sheet: Sheet | None) -> Tab:
    """A kind's name and maps in the grid."""
    story = story_of(trace, kind)
    return Tab(story.name, story.short or story.name, sheet)


def sheet_of(maps: Maps, choice: AttentionChoice) -> Sheet:
    """What the grid shows of these maps."""
    return grid_sheet(
        maps.weights, maps.queries, maps.keys, how=choice.how,
        label=f"{maps.story.name}, all layers and heads", dimmed_keys=dimmed(maps, choice),
    )  # fmt: skip


def drawing_of(maps: Maps, choice: AttentionChoice) -> Drawing:
    """The lines of the chosen heads in these maps."""
    return drawing(
        maps.weights, choice.heads, maps.queries, maps.keys, mass=choice.mass,
        query_title=maps.story.queries, key_title=maps.story.keys, query_notes=maps.notes,
        dimmed_keys=dimmed(maps, choice), causal=maps.causal,
    )  # fmt: skip


def dimmed(maps: Maps, choice: AttentionChoice) -> tuple[int, ...]:
    """The columns to cover."""
    return maps.dimmed if choice.dim else ()


def shown_map(maps: Maps, choice: AttentionChoice) -> Map:
    """The one map under the lens: a head, several combined, or the chosen heads combined."""
    weights = (
        combine_chosen(maps.weights, choice.heads, choice.how)
        if choice.chosen
        else combine(maps.weights, choice.how, *choice.cell)
    )
    return Map(
        weights, maps.queries, maps.keys, name_of_map(maps, choice), maps.story.queries,
        maps.story.keys, maps.notes, dimmed(maps, choice), maps.causal,
    )  # fmt: skip


def name_of_map(maps: Maps, choice: AttentionChoice) -> str:
    """What the map under the lens is called."""
    n_layers, n_heads = maps.weights.shape[:2]
    if choice.chosen:
        over = "Mean" if choice.how == "mean" else "Maximum"
        named = ", ".join(f"{layer + 1}.{head + 1}" for layer, head in choice.heads[:8])
        more = f" and {len(choice.heads) - 8} more" if len(choice.heads) > 8 else ""
        return f"{over} of heads {named}{more}" if len(choice.heads) > 1 else f"Head {named}"
    layer, head = choice.cell
    row = n_layers if layer is None else layer
    column = n_heads if head is None else head
    return name_of(row, column, n_layers + 1, n_heads + 1, choice.how)


def selected_mass(maps: Maps, choice: AttentionChoice) -> Floats:
    """Weight of each head on the selected keys, averaged over the selected queries, [L, H]."""
    queries = to_units(choice.queries, maps.query_groups)
    keys = to_units(choice.keys, maps.key_groups)
    return mass_by_head(maps.weights, queries, keys).astype("f4")
