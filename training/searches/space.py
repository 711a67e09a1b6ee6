# SPDX-License-Identifier: MIT
"""The box of parameter values that a search moves in.

A search sees every parameter as a position from 0 to 1 on a logarithmic scale
between the ends of its range; the box turns positions into the integers that
the core takes. Equal ratios of a window or an interval are then equal steps.
A range that begins at 0, such as a flag's, has the scale of the value plus one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kmod.abi import Algorithm
from training.errors import TrainingError

Point = tuple[int, ...]
"""One value for each dimension of a space, in its order and in the core's units."""


@dataclass(frozen=True)
class Dimension:
    """One parameter: integers from `low` to `high` on a log scale."""

    name: str
    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise TrainingError(f"range of {self.name}: expected 0 <= low < high, got {self.low} to {self.high}")

    @property
    def _shift(self) -> int:
        """The number that is added to values, so that their logarithm exists."""
        return 0 if self.low else 1

    def value(self, position: float) -> int:
        """The integer at a position; positions outside [0, 1] are clamped."""
        inside = min(max(position, 0.0), 1.0)
        low, high = self.low + self._shift, self.high + self._shift
        exact = low * math.exp(inside * math.log(high / low)) - self._shift
        return min(max(round(exact), self.low), self.high)

    def position(self, value: int) -> float:
        """Where a value of the range lies, from 0 (low) to 1 (high)."""
        low, high = self.low + self._shift, self.high + self._shift
        return math.log((value + self._shift) / low) / math.log(high / low)


@dataclass(frozen=True)
class Space:
    """The dimensions that a search sets together.

    held: further parameters with a fixed value, as (place among a point's values, value), in ascending order. They are
    part of every point, and no dimension.
    """

    dimensions: tuple[Dimension, ...]
    held: tuple[tuple[int, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return tuple(d.name for d in self.dimensions)

    def holding(self, values: Mapping[str, int]) -> Space:
        """The space in which these of its parameters are held. Parameters that are held already must come last."""
        held = [(place, values[d.name]) for place, d in enumerate(self.dimensions) if d.name in values]
        return Space(tuple(d for d in self.dimensions if d.name not in values), (*held, *self.held))

    def point(self, positions: Sequence[float]) -> Point:
        """The parameter values at a position in each dimension, with the held ones."""
        return self._with_held([d.value(p) for d, p in zip(self.dimensions, positions, strict=True)])

    def positions(self, point: Point) -> list[float]:
        """Where the values of a point lie in the ranges of the dimensions."""
        return [d.position(v) for d, v in zip(self.dimensions, self._free(point), strict=True)]

    def nearest(self, point: Point) -> Point:
        """The point with each value moved into its range, or to the held value."""
        free = zip(self.dimensions, self._free(point), strict=True)
        return self._with_held([min(max(value, d.low), d.high) for d, value in free])

    def _free(self, point: Point) -> list[int]:
        places = {place for place, _ in self.held}
        return [value for place, value in enumerate(point) if place not in places]

    def _with_held(self, values: list[int]) -> Point:
        for place, value in self.held:
            values.insert(place, value)
        return tuple(values)


def space_of(
    algorithm: Algorithm, ranges: Mapping[str, tuple[int, int]], fixed: Mapping[str, int] | None = None
) -> Space:
    """The space of an algorithm's tuned parameters, narrowed to a study's ranges.

    fixed: values of parameters that ensembles may contain and no search sets. They follow the tuned ones in a point.

    Raises:
        TrainingError: a range for a parameter that is not tuned, a fixed value for a parameter of another kind than
            `given`, or values outside the core's range.
    """
    tuned = {spec.name: spec for spec in algorithm.tuned}
    if not tuned:
        raise TrainingError(f"{algorithm.name}: expected an algorithm with tuned parameters, it has none")
    for name in ranges:
        if name not in tuned:
            raise TrainingError(f"ranges: expected parameters of {algorithm.name} ({', '.join(tuned)}), got {name!r}")
    dimensions = []
    for name, spec in tuned.items():
        low, high = ranges.get(name, (spec.minimum, spec.maximum))
        if low < spec.minimum or high > spec.maximum:
            raise TrainingError(
                f"range of {name}: expected within {spec.minimum} to {spec.maximum} {spec.unit}, got {low} to {high}"
            )
        dimensions.append(Dimension(name, low, high))
    return Space(tuple(dimensions), tuple(enumerate(_fixed(algorithm, fixed or {}), start=len(dimensions))))


def _fixed(algorithm: Algorithm, values: Mapping[str, int]) -> list[int]:
    given = {spec.name: spec for spec in algorithm.params if spec.kind == "given"}
    for name, value in values.items():
        spec = given.get(name)
        if spec is None:
            raise TrainingError(f"fixed: expected parameters of {algorithm.name} that tables may contain and searches "
                                f"do not set ({', '.join(given) or 'none'}), got {name!r}")  # fmt: skip
        if not spec.minimum <= value <= spec.maximum:
            raise TrainingError(f"fixed: expected {name} from {spec.minimum} to {spec.maximum}, got {value}")
    return list(values.values())
