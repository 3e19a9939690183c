"""Principal component analysis by singular value decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transformer.types import Floats


@dataclass(frozen=True, eq=False)
class Axes:
    """Orthonormal directions of greatest variance.

    Attributes:
        centre: [d], the mean of the points.
        directions: [k, d], unit vectors at right angles, greatest variance first.
        shares: [k], of the points' variance that lies along each direction, 0..1.
    """

    centre: Floats
    directions: Floats
    shares: Floats


def principal_axes(points: Floats, k: int = 2) -> Axes:
    """Return the `k` principal axes of points [n, d], without sampling or iteration.

    An axis may point either way; here its largest entry is positive. If the points span fewer
    than `k` dimensions, the remaining directions are orthogonal to them, with share 0.

    Raises: `ValueError` if there are no points, or `k` is more than d.
    """
    n, d = points.shape
    if not n or k > d:
        raise ValueError(f"{n} points in {d} dimensions have no {k} axes")
    wide = points.astype(np.float64)
    centre = wide.mean(axis=0)
    _, strengths, directions = np.linalg.svd(wide - centre, full_matrices=n < k)
    directions = directions[:k]
    signs = np.sign(directions[np.arange(k), np.abs(directions).argmax(axis=1)])
    signs[signs == 0] = 1
    variance = np.zeros(k)
    known = min(k, len(strengths))
    variance[:known] = strengths[:known] ** 2
    total = float((strengths**2).sum())
    return Axes(
        centre=centre.astype(np.float32),
        directions=(directions * signs[:, None]).astype(np.float32),
        shares=(variance / total if total else variance).astype(np.float32),
    )


def project(points: Floats, axes: Axes) -> Floats:
    """Return coordinates along the axes, (points - centre) V: [n, d] to [n, k]."""
    coordinates = (points - axes.centre) @ axes.directions.T
    return coordinates.astype(np.float32)
