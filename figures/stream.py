"""Labels of the residual stream's blocks."""

from __future__ import annotations

from transformer.trace.records import StackStream

_BLOCKS = {"self": "self-attention", "cross": "cross-attention", "feed_forward": "feed-forward"}


def block_labels(stream: StackStream) -> tuple[str, ...]:
    """Return the block names of a stack, such as "1 self-attention"."""
    return tuple(
        f"{layer} {_BLOCKS[block]}"
        for layer in range(1, len(stream.hidden) + 1)
        for block in stream.blocks
    )
