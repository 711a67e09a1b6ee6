# SPDX-License-Identifier: MIT
"""The axes of network states, as a study file gives them: `throughput`, `min_rtt`, `limit`."""

from __future__ import annotations

from pydantic import Field

from kmod.abi import Algorithm
from kmod.ensemble import Axis
from training.fields import StudyPart

BYTES_PER_S = 125  # of one kbit/s


class ThroughputAxis(StudyPart):
    """Measured throughput in equal steps (PQSA, eq. 2)."""

    count: int = Field(40, ge=1, le=64, description="N: levels; what is faster belongs to the last one")
    step_kbps: int = Field(1000, ge=8, description="omega: width of a level")

    def axis(self, name: str) -> Axis:
        """As an ensemble has it."""
        return Axis(name, "linear", self.step_kbps * BYTES_PER_S, self.count)


class RttAxis(StudyPart):
    """Minimum RTT in octaves, each in equal parts; what is shorter belongs to the first level."""

    shortest_ms: int = Field(20, ge=1, le=10_000)
    per_octave: int = Field(1, ge=1, le=8)
    count: int = Field(4, ge=1, le=8, description="levels; what is longer belongs to the last one")

    def axis(self, name: str) -> Axis:
        """As an ensemble has it."""
        return Axis(name, "log", self.shortest_ms * 1000, self.count, self.per_octave)


class LimitAxis(StudyPart):
    """Estimated rate limit in octaves. What is lower, and a flow without a limit, belongs to the first level."""

    lowest_kbps: int = Field(250, ge=8, le=1_000_000, description="of payload, as R-TCP counts")
    per_octave: int = Field(1, ge=1, le=8)
    count: int = Field(5, ge=1, le=16, description="levels; what is higher belongs to the last one")

    def axis(self, name: str) -> Axis:
        """As an ensemble has it."""
        return Axis(name, "log", self.lowest_kbps * BYTES_PER_S, self.count, self.per_octave)


class AxesSettings(StudyPart):
    """The levels of each axis of the algorithm (kmod/core/params.def, CCA_AXIS)."""

    throughput: ThroughputAxis | None = None
    min_rtt: RttAxis | None = None
    limit: LimitAxis | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The axes that are given."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)

    def of(self, algorithm: Algorithm) -> dict[str, Axis]:
        """The axes in the algorithm's order, by their names here.

        Raises:
            ValueError: axes that the algorithm does not have, or without its first one.
        """
        found: dict[str, Axis] = {}
        for spec in algorithm.axes:
            for name in self.names:
                if spec.name.startswith(name):
                    found[name] = getattr(self, name).axis(spec.name)
        has = [name for spec in algorithm.axes for name in type(self).model_fields if spec.name.startswith(name)]
        if not found or list(found) != has[: len(found)] or set(found) != set(self.names):
            raise ValueError(f"expected the axes of {algorithm.name} ({', '.join(has) or 'none'}) in this order, the "
                             f"first at least, got {', '.join(self.names) or 'none'}")  # fmt: skip
        return found


def level_bounds(axis: Axis, level: int) -> tuple[float, float]:
    """The lower and upper end of a level, in the axis' unit.

    The last level ends where another one would begin. The first of a linear axis begins at half its width.
    """
    if axis.scale == "linear":
        return axis.step * max(level, 0.5), float(axis.step * (level + 1))
    octave, part = divmod(level, axis.per_octave)
    low, high = (axis.step * 2**octave * (1 + p / axis.per_octave) for p in (part, part + 1))
    return low, high
