# SPDX-License-Identifier: MIT
"""The raw results of a run over Mahimahi as arrays: mm-link's logs, tcp_info of both ends, the policers' counters.

Times count from the scenario's beginning, in whole ms in the log and in s in samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation.errors import EmulationError
from emulation.mahimahi.logs import parse_link_log
from emulation.scenario.model import Scenario
from emulation.scenario.path import AckPath

Values = NDArray[np.float64]
Times = NDArray[np.int64]

WIRE_BYTES = 1500
TUN_BYTES = 4
# The headers of the tun device, IPv4 and TCP with all options. A packet up to this size is taken to carry no data.
_CONTROL_BYTES = TUN_BYTES + 20 + 60


def find_drops(
    arrivals_ms: Values, departures_ms: Values, delays_ms: Values, *, most_queued_pkts: int | None
) -> tuple[Values, Times]:
    """Return (times in ms, numbers of dropped packets), [n] each, for a log that states no drops.

    The arrival time of a packet is its departure less its delay. The packets that arrived in a ms and never left were
    dropped. Of the packets that arrived last, up to most_queued_pkts (None: all) are still in the queue and were not
    dropped.
    """
    came_ms, came = np.unique(arrivals_ms, return_counts=True)
    left_ms = departures_ms - delays_ms
    stayed = came - np.diff(np.searchsorted(np.sort(left_ms), np.append(came_ms, np.inf)))
    tail = int(np.searchsorted(came_ms, left_ms.max())) if len(left_ms) else 0
    # The tail begins in the ms of the latest arrival that has left.
    # The packets that stayed since then fill the queue before any is dropped.
    queued = np.cumsum(stayed[tail:])
    if most_queued_pkts is not None:
        over = np.maximum(queued - most_queued_pkts, 0)
        stayed[tail:] = np.diff(np.append(0, over))
    else:
        stayed[tail:] = 0
    dropped = stayed > 0
    return came_ms[dropped], stayed[dropped]


class LinkArrays:
    """The log as arrays, in ms of the scenario's time. Events before and after the scenario are left out.

    text: the log. of_acks: it has only packets without data (handshakes, ACKs); otherwise these are left out.

    Raises EmulationError if the text is not a log of mm-link. `name` names it in the message.
    """

    def __init__(
        self,
        text: str,
        *,
        name: str,
        lead_ms: int,
        end_ms: int,
        of_acks: bool = False,
        most_queued_pkts: int | None = None,
    ) -> None:
        log = parse_link_log(text.encode(), name=name)
        if log.base_ms is None:
            raise EmulationError(f"{name}: expected the log of mm-link with its base timestamp, got none")
        zero_ms = log.base_ms + lead_ms

        def within(times_ms: Values, *others: Values | Times) -> list[Times]:
            times = np.asarray(times_ms - zero_ms, dtype=np.int64)
            chosen = (times > 0) & (times <= end_ms)
            return [times[chosen], *(np.asarray(other, dtype=np.int64)[chosen] for other in others)]

        came = (log.entered.bytes <= _CONTROL_BYTES) == of_acks
        left = (log.left.bytes <= _CONTROL_BYTES) == of_acks
        arrivals_ms, departures_ms = log.entered.times_ms[came], log.left.times_ms[left]
        sizes, delays_ms = log.left.bytes[left] - TUN_BYTES, log.left.delay_ms[left]
        drops_ms, dropped = log.dropped.times_ms, log.dropped.pkts
        if not len(log.dropped):  # Debian's mm-link logs none
            drops_ms, dropped = find_drops(arrivals_ms, departures_ms, delays_ms, most_queued_pkts=most_queued_pkts)
        (self.opportunities_ms,) = within(log.capacity.times_ms)
        (self.arrivals_ms,) = within(arrivals_ms)
        self.departures_ms, self.departed_bytes, self.delays_ms = within(departures_ms, sizes, delays_ms)
        self.drops_ms, self.dropped_pkts = within(drops_ms, dropped)


def link_arrays(scenario: Scenario, result: dict[str, Any], *, of_acks: bool = False) -> LinkArrays:
    """Read the run's log of the data or of the ACKs. Raises EmulationError if it is not a log of mm-link."""
    link = scenario.link
    limits = [] if link.buffer_pkts is None else [link.buffer_pkts]
    limits += [] if link.buffer_bytes is None else [link.buffer_bytes // WIRE_BYTES]
    return LinkArrays(
        result["ack_log" if of_acks else "log"],
        name=f"{scenario.name}: mm-link's log",
        lead_ms=result["lead_ms"],
        end_ms=round(scenario.duration_s * 1000),
        of_acks=of_acks,
        # One more packet is being transmitted. The queue of the ACKs has no limit.
        most_queued_pkts=min(limits) + 1 if limits and not of_acks else None,
    )


class Samples:
    """Samples of tcp_info of one flow at one end: columns by name, float [n], sampled at time_s."""

    def __init__(self, end: dict[str, Any], number: int) -> None:
        rows = np.asarray([row for row in end["rows"] if row[0] == number], dtype=np.float64)
        rows = rows.reshape(-1, len(end["fields"]) + 2)
        self.time_s: Values = rows[:, 1]
        self.columns: dict[str, Values] = {name: rows[:, 2 + at] for at, name in enumerate(end["fields"])}

    def at(self, name: str, time_s: float | Values) -> Values:
        """Return the values of a counter at these times, interpolated between samples; 0 without samples."""
        if not len(self.time_s):
            return np.zeros_like(np.asarray(time_s, dtype=np.float64))
        return np.asarray(np.interp(time_s, self.time_s, self.columns[name]), dtype=np.float64)

    def last(self, name: str, time_s: Values) -> Values:
        """Return the latest sampled values at these times; 0 without samples."""
        if not len(self.time_s):
            return np.zeros_like(time_s)
        index = np.searchsorted(self.time_s, time_s + 1e-9, side="right") - 1
        return self.columns[name][np.maximum(index, 0)]

    def gained(self, name: str, start_s: float, end_s: float) -> float:
        """Return how much a counter grew between two times."""
        return float(self.at(name, end_s) - self.at(name, start_s))


class PolicerCounts:
    """Samples of the policers' counters: packets that arrived at and passed each policer since the run's beginning."""

    def __init__(self, result: dict[str, Any]) -> None:
        self._columns: dict[tuple[str, str], Values] = {}
        self._time_s: dict[str, Values] = {}
        for side, samples in result["policers"].items():
            rows = np.asarray(samples["rows"], dtype=np.float64).reshape(-1, len(samples["names"]) + 1)
            self._time_s[side] = rows[:, 0]
            self._columns |= {(side, name): rows[:, 1 + at] for at, name in enumerate(samples["names"])}

    def at(self, side: str, element: int, what: str, flow: int, time_s: float | Values) -> Values:
        """Return a flow's packets that arrived at a policer (what: `in`) or passed it (`out`) by these times.

        side, element: the side of the link, and the policer's index among the elements of that side.
        """
        column = self._columns[side, f"{what}_{element}_{flow}"]
        return np.asarray(np.interp(time_s, self._time_s[side], column), dtype=np.float64)


class RunArrays:
    """A scenario and the raw results of its run."""

    def __init__(self, scenario: Scenario, result: dict[str, Any]) -> None:
        self.scenario = scenario
        self.result = result
        self.link = link_arrays(scenario, result)
        self.acks = None if scenario.link.acks == AckPath() else link_arrays(scenario, result, of_acks=True)
        self.policers = PolicerCounts(result)
        flows = range(len(scenario.flows))
        self.ends = [(Samples(result["sent"], n), Samples(result["received"], n)) for n in flows]

    def arrived_pkts(self, flow: int, time_s: Values) -> Values:
        """Return a flow's data segments that had passed the link and its random loss by these times."""
        if self.scenario.link.behind:
            return self.policers.at("behind", 0, "in", flow, time_s)
        return self.ends[flow][1].at("segments_in", time_s)

    def left_link_pkts(self, flow: int, time_s: Values) -> Values:
        """Return a flow's data segments that left the link by these times.

        With random loss this is an estimate: the segments that arrived / (1 - loss).
        """
        return self.arrived_pkts(flow, time_s) / (1 - self.scenario.link.loss)

    def at_policer(self, side: str, at: int, time_s: Values) -> tuple[Values, Values, Values]:
        """Return the row of a policer. It never holds packets."""
        flows = range(len(self.scenario.flows))
        came, passed = (sum(self.policers.at(side, at, what, n, time_s) for n in flows) for what in ("in", "out"))
        # The two counters are not read at the same instant, so the difference may be slightly negative.
        return np.asarray(came), np.maximum(came - passed, 0), np.zeros_like(time_s)

    def at_link(self, time_s: Values) -> tuple[Values, Values, Values]:
        """Return the row of the link."""
        link, ms = self.link, time_s * 1000
        came = np.searchsorted(link.arrivals_ms, ms, side="right")
        left = np.searchsorted(link.departures_ms, ms, side="right")
        dropped = np.append(0, np.cumsum(link.dropped_pkts))[np.searchsorted(link.drops_ms, ms, side="right")]
        return came.astype(float), dropped.astype(float), np.maximum(came - left - dropped, 0).astype(float)

    def at_random_loss(self, time_s: Values) -> tuple[Values, Values, Values]:
        """Return the row of the link's random loss."""
        left = np.searchsorted(self.link.departures_ms, time_s * 1000, side="right").astype(float)
        arrived = sum(self.arrived_pkts(number, time_s) for number in range(len(self.scenario.flows)))
        return left, np.maximum(left - arrived, 0), np.zeros_like(time_s)

    def elements(self, time_s: Values) -> list[tuple[Values, Values, Values]]:
        """Return a row for each element of the path, in order: packets entered, dropped and inside at these times."""
        link = self.scenario.link
        before = [self.at_policer("before", number, time_s) for number in range(len(link.before))]
        behind = [self.at_policer("behind", number, time_s) for number in range(len(link.behind))]
        loss = [self.at_random_loss(time_s)] if link.loss else []
        return [*before, self.at_link(time_s), *loss, *behind]
