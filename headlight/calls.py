"""Every figure of the app as a call: `headlight.attention(trace, kind="cross", layer=2, head=1)`.

Each returns an exhibit, which `headlight.save` writes and `headlight.show` displays. Downloaded
programs make the same calls.
"""

from ui.attention.exhibits import attention
from ui.beam.exhibits import length_penalty, search_branches, search_node, search_tree
from ui.compare.exhibits import (
    attention_differences,
    attention_evenness,
    compared_numbers,
    matched_heads,
)
from ui.complexity.exhibits import bytes_of_maps, layer_costs, path_lengths
from ui.export.html import save
from ui.family.exhibits import expected_tokens, one_stack_or_two
from ui.floor.exhibits import feed_forward, residual_stream
from ui.head.exhibits import inside_head
from ui.parsing.exhibits import parse
from ui.positions.exhibits import (
    added_positions,
    content_and_position,
    learned_positions,
    position_curves,
    position_products,
    position_shift,
    positions,
    positions_beyond,
    relative_positions,
    stored_positions,
    stored_positions_beyond,
)
from ui.tokens.exhibits import embeddings, neighbours, pieces, traced_pieces, vocabulary
from ui.tours.training_exhibits import training
from ui.training.exhibits import ablations
from ui.translate.exhibits import decoding

__all__ = [
    "ablations",
    "added_positions",
    "attention",
    "attention_differences",
    "attention_evenness",
    "bytes_of_maps",
    "compared_numbers",
    "content_and_position",
    "decoding",
    "embeddings",
    "expected_tokens",
    "feed_forward",
    "inside_head",
    "layer_costs",
    "learned_positions",
    "length_penalty",
    "matched_heads",
    "neighbours",
    "one_stack_or_two",
    "parse",
    "path_lengths",
    "pieces",
    "position_curves",
    "position_products",
    "position_shift",
    "positions",
    "positions_beyond",
    "relative_positions",
    "residual_stream",
    "save",
    "search_branches",
    "search_node",
    "search_tree",
    "stored_positions",
    "stored_positions_beyond",
    "traced_pieces",
    "training",
    "vocabulary",
]
