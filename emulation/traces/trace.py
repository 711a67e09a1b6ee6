# SPDX-License-Identifier: MIT
"""A trace: the delivery opportunities of a link over time, in Mahimahi's format.

Each opportunity lets OPPORTUNITY_BYTES leave the queue. An opportunity that finds the queue empty is lost. The trace
repeats after period_ms. So its n-th opportunity comes at opportunities_ms[n] + k period_ms for k = 0, 1, 2 ...
Source: mm-link's behaviour, where the last line of a file is its period.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emulation.errors import TraceError

OPPORTUNITY_BYTES = 1500
MAX_PERIOD_MS = 2**32 - 1
LINES_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False)
class Trace:
    """The opportunities of one period.

    name: its name in reports. opportunities_ms: uint32 [n_opportunities], n >= 1, never decreasing, ms from the start,
    at most period_ms; made read-only here. period_ms: 1 to 2^32 - 1.

    Two traces are equal if their opportunities and periods are, whatever their names. Raises TraceError for values
    outside these ranges.
    """

    name: str
    opportunities_ms: NDArray[np.uint32] = field(repr=False)
    period_ms: int

    def __post_init__(self) -> None:
        times_ms = self.opportunities_ms
        if times_ms.dtype != np.uint32 or times_ms.ndim != 1:
            raise TraceError(
                f"{self.name}: expected a list of uint32, got {times_ms.ndim} dimensions of {times_ms.dtype}; "
                "convert with numpy.asarray(times, dtype=numpy.uint32)"
            )
        if not len(times_ms):
            raise TraceError(f"{self.name}: expected at least one opportunity, got none; use a longer piece")
        if not 1 <= self.period_ms <= MAX_PERIOD_MS:
            raise TraceError(f"{self.name}: expected a period of 1 to {MAX_PERIOD_MS} ms, got {self.period_ms}")
        if int(times_ms[-1]) > self.period_ms or bool((times_ms[1:] < times_ms[:-1]).any()):
            raise TraceError(
                f"{self.name}: expected times that never decrease and end by {self.period_ms} ms, "
                f"got others (the last is {times_ms[-1]}); sort them, or make the period longer"
            )
        # This view is read-only. The caller's own array stays writable.
        own = times_ms.view()
        own.flags.writeable = False
        object.__setattr__(self, "opportunities_ms", own)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self.period_ms == other.period_ms and np.array_equal(self.opportunities_ms, other.opportunities_ms)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def duration_s(self) -> float:
        """The period in seconds."""
        return self.period_ms / 1000

    @property
    def mean_rate_mbps(self) -> float:
        """Capacity over the whole period, in Mbit/s of wire bytes."""
        return len(self.opportunities_ms) * OPPORTUNITY_BYTES * 8 / (1000 * self.period_ms)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over period and opportunities (little endian, 4 bytes each), in hex; the name is not included."""
        content = hashlib.sha256(b"ccatune-trace/1")
        content.update(np.array([self.period_ms], dtype="<u4").tobytes())
        content.update(np.ascontiguousarray(self.opportunities_ms, dtype="<u4").tobytes())
        return content.hexdigest()

    def as_file(self) -> bytes:
        """The content of a file with this trace. A silence after the last opportunity is lost."""
        times_ms = self.opportunities_ms
        starts = range(0, len(times_ms), LINES_AT_ONCE)
        return b"".join("".join(f"{at}\n" for at in times_ms[i : i + LINES_AT_ONCE].tolist()).encode() for i in starts)

    def capacity_bytes(self, start_ms: int, end_ms: int) -> int:
        """Bytes that the link could carry in [start_ms, end_ms), over as many periods as that spans.

        Raises TraceError unless 0 <= start_ms <= end_ms.
        """
        if not 0 <= start_ms <= end_ms:
            raise TraceError(f"{self.name}: expected 0 <= start <= end, got {start_ms} and {end_ms} ms")
        return OPPORTUNITY_BYTES * (self._count_before(end_ms) - self._count_before(start_ms))

    def slice(self, start_ms: int, end_ms: int) -> Trace:
        """The piece [start_ms, end_ms) as a trace of its own, whose time starts at 0 and whose period is its length.

        The opportunities at the very end of the period belong to the piece that ends there. So the piece from 0 to the
        period is the whole trace. Raises TraceError for a piece outside the trace or without opportunity.
        """
        if not 0 <= start_ms < end_ms <= self.period_ms:
            raise TraceError(
                f"{self.name}: expected a piece within 0 to {self.period_ms} ms, got {start_ms} to {end_ms} ms"
            )
        first = int(np.searchsorted(self.opportunities_ms, start_ms))
        last = len(self.opportunities_ms)
        if end_ms < self.period_ms:
            last = int(np.searchsorted(self.opportunities_ms, end_ms))
        name = f"{self.name}[{start_ms}:{end_ms}]"
        return Trace(name, self.opportunities_ms[first:last] - np.uint32(start_ms), end_ms - start_ms)

    def bin_counts(self, bin_ms: int) -> NDArray[np.int64]:
        """Opportunities in each whole bin of the period: int64 [period_ms // bin_ms]; a partial last bin is left out.

        Opportunities at the very end of the period count in the last bin if that ends there.
        """
        n_bins = self.period_ms // bin_ms
        bins = self.opportunities_ms // np.uint32(bin_ms)
        if n_bins * bin_ms == self.period_ms:
            bins = np.minimum(bins, np.uint32(max(n_bins - 1, 0)))
        return np.bincount(bins[bins < n_bins], minlength=n_bins)

    def _count_before(self, time_ms: int) -> int:
        """Opportunities in [0, time_ms). Those at period_ms come in the first millisecond of the next period."""
        whole = max(time_ms // self.period_ms - 1, 0)
        count = whole * len(self.opportunities_ms)
        for rest_ms in (time_ms - whole * self.period_ms, time_ms - (whole + 1) * self.period_ms):
            if rest_ms > 0:
                count += int(np.searchsorted(self.opportunities_ms, rest_ms))
        return count
