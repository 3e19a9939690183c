"""How a signal travels between two positions through layers of one kind (section 4, table 1).

A node is (level, position): level 0 is the input and each layer adds one level. The recurrent layer
adds steps inside its one level.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

PathKind = Literal["recurrent", "convolution", "dilated", "restricted", "attention"]

Node = tuple[int, int]

#: Names on screen, and the paper's bound in LaTeX.
PATHS: dict[PathKind, tuple[str, str]] = {
    "recurrent": ("Recurrent", "n"),
    "convolution": ("Convolution", "n/k"),
    "dilated": ("Dilated convolution", r"\log_k(n)"),
    "restricted": ("Restricted self-attention", "n/r"),
    "attention": ("Self-attention", "1"),
}


def successors(kind: PathKind, node: Node, n: int, size: int) -> Iterator[Node]:
    """Yield the nodes that read `node` directly, of `n` positions from 0.

    Args:
        size: k of convolutions, odd without dilation, or r of restricted self-attention, even. It
            has no effect on the others. Dilated convolutions look back only, 1, k, k^2, ...
            positions apart from layer to layer.
    """
    level, position = node
    if kind == "recurrent":
        # Into the layer at its own position, then along it in reading order.
        if level == 0:
            yield 1, position
        elif position + 1 < n:
            yield 1, position + 1
        return
    places: range = range(n)
    if kind == "dilated":
        places = range(position, position + size ** (level + 1), size**level)
    elif kind != "attention":
        places = range(position - size // 2, position + size // 2 + 1)
    yield from ((level + 1, place) for place in places if 0 <= place < n)


def path_length(kind: PathKind, distance: int, size: int) -> int:
    """Return how many layers, or steps of the recurrent one, a signal needs to come this far.

    Args:
        distance: positions to later ones, at least 1.

    Entering the recurrent layer is not counted: as in the paper, n positions take n steps at most.
    """
    if kind == "recurrent":
        return distance
    if kind == "attention":
        return 1
    if kind == "dilated":
        layers = 1
        while size**layers <= distance:
            layers += 1
        return layers
    return -(-distance // (size // 2))


def route(kind: PathKind, start: int, end: int, size: int) -> list[Node]:
    """Return the nodes of a shortest path from position `start` to a later one, both included.

    The recurrent one starts inside its layer.
    """
    if kind == "recurrent":
        return [(1, place) for place in range(start, end + 1)]
    nodes, place = [(0, start)], start
    for level in range(path_length(kind, end - start, size)):
        left = end - place
        if kind == "dilated":
            # Digits of the distance to the base k, from the last one.
            place += left % size ** (level + 1)
        else:
            place += left if kind == "attention" else min(size // 2, left)
        nodes.append((level + 1, place))
    return nodes


def spread(kind: PathKind, start: int, steps: int, n: int, size: int) -> list[set[Node]]:
    """Return the nodes that hold the signal after 0, 1, ..., `steps` steps."""
    nodes = {(1, start) if kind == "recurrent" else (0, start)}
    found = [nodes]
    for _ in range(steps):
        nodes = {each for node in nodes for each in successors(kind, node, n, size)}
        found.append(nodes)
    return found
