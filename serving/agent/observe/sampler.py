# SPDX-License-Identifier: MIT
"""Chooses a share of this server's connections, and samples them.

    every `every_ms`   tcp_info of the chosen connections is read, one by one, and what changed is written
    every `find_s`     the list of all connections is read, in which new ones are found

The list costs the more, the more connections there are. It is read more rarely where it would take more than 0.5 % of
a core. A connection is seen only if it lives when the list is read: of those that live D seconds a share of
min(1, D / find_s). The files have the counts with which this can be corrected.
"""

from __future__ import annotations

import operator
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kmod.observations import COLUMNS, Ends
from serving.agent.observe.acks import Ack, Acks
from serving.agent.observe.addresses import is_of_this_machine
from serving.agent.observe.diag import SENDING_STATES, Diag, Found, Looked

_MOST_LISTING_SHARE = 0.005
_SNMP = Path("/proc/self/net/snmp")
# The columns of tcp_info in the order of the structure, and their places in a row.
_READ = sorted((at, code, place) for place, (_, _, at, code) in enumerate(COLUMNS) if at >= 0)
_N_READ = len(_READ)
_BBR = struct.Struct("=QIII")  # bandwidth in two halves, the lower one first; minimum RTT; two gains of 8 bits
_VEGAS = struct.Struct("=IIII")  # enabled, number of RTTs, RTT, minimum RTT
_APP_LIMITED = next(place for place, (_, name, _, _) in enumerate(COLUMNS) if name == "is_app_limited")
_RATE = next(place for place, (_, name, _, _) in enumerate(COLUMNS) if name == "delivery_rate_bytes_per_s")
_OF_ACKS = COLUMNS[-1][1]
_NO_BBR = (0, 0, 0, 0)
_NO_VEGAS = (0, 0)


def _layout() -> tuple[struct.Struct, Callable[[tuple[int, ...]], tuple[int, ...]]]:
    """Return what unpacks tcp_info, and what puts its numbers into the order of COLUMNS."""
    code, end = "=", 0
    for at, letter, _ in _READ:
        code += f"{at - end}x{letter}"
        end = at + struct.calcsize("=" + letter)
    places = [place for _, _, place in _READ]
    return struct.Struct(code), operator.itemgetter(*(places.index(place) for place in range(_N_READ)))


_INFO, _IN_ORDER = _layout()


def missing_columns(info_bytes: int, *, has_acks: bool = False) -> list[str]:
    """Return the names of the columns that a tcp_info of so many bytes, and samples without ACKs, do not have."""
    lacking = [name for _, name, at, code in COLUMNS if at >= 0 and at + struct.calcsize("=" + code) > info_bytes]
    return lacking if has_acks else [*lacking, _OF_ACKS]


def row_of(looked: Looked, *, last_rtt_us: int = 0) -> tuple[int, ...]:
    """Return a value for each column. A column that this kernel does not have is 0.

    last_rtt_us: that of the last sample of an ACK, because tcp_info does not have it.
    """
    values = list(_IN_ORDER(_INFO.unpack_from(looked.info.ljust(_INFO.size, b"\0"))))
    values[_APP_LIMITED] &= 1
    # More digits say nothing about a rate that varies from ACK to ACK, and take most of the space of a file.
    values[_RATE] = int(float(f"{values[_RATE]:.3g}"))
    bbr = _BBR.unpack_from(looked.bbr) if len(looked.bbr) >= _BBR.size else _NO_BBR
    vegas = _VEGAS.unpack_from(looked.vegas)[2:] if len(looked.vegas) >= _VEGAS.size else _NO_VEGAS
    return (*values, int(float(f"{bbr[0]:.3g}")), *bbr[1:], *vegas, last_rtt_us)


def _any_info() -> bytes:
    with socket.socket() as one:
        return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)


def opened_connections() -> int:
    """Return how many TCP connections this network namespace opened or accepted since it exists. Raises OSError."""
    lines = [line.split() for line in _SNMP.read_text(encoding="ascii").splitlines() if line.startswith("Tcp:")]
    names, values = lines[:2]
    figures = dict(zip(names, values, strict=True))
    return int(figures["ActiveOpens"]) + int(figures["PassiveOpens"])


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """What to sample. share: of the connections, over 0 to 1. most: connections that are sampled at once.

    algorithms: their names, none for all. has_loopback: also connections within this machine. has_peer_ports: keep
    the peers' ports. hide: makes an address unrecognisable.
    """

    hide: Callable[[bytes], str]
    share: float = 0.01
    every_ms: int = 200
    find_s: float = 5.0
    most: int = 1000
    algorithms: Sequence[str] = ()
    has_loopback: bool = False
    has_peer_ports: bool = False


@dataclass
class Counts:
    """What was done so far.

    matching: connections in the last list. present: those that are sampled. flows: all that were. samples: times that
    one was looked at. skipped: times that could not be kept. new, opened, left_out: see kmod/observations.py.
    acks: samples of ACKs. acks_over_limit, acks_lost: ACKs that were not sampled because of the limit, or because
    earlier samples were not read in time.
    """

    matching: int = 0
    present: int = 0
    flows: int = 0
    samples: int = 0
    skipped: int = 0
    new: int = 0
    opened: int = 0
    left_out: int = 0
    acks: int = 0
    acks_over_limit: int = 0
    acks_lost: int = 0


@dataclass
class _Chosen:
    """A sampled connection. others, last_rtt_us: its figures of BBR and Vegas, and the RTT of its last ACK."""

    number: int
    found: Found
    ends: Ends
    others: tuple[int, ...] = _NO_BBR + _NO_VEGAS
    last_rtt_us: int = 0


class Sink(Protocol):
    """What takes the samples: kmod's ObservationWriter, or one that prints them."""

    def tick(self, time_us: int) -> bool: ...
    def flow(self, number: int, ends: Ends) -> None: ...
    def row(self, number: int, values: tuple[int, ...]) -> None: ...
    def end(self, number: int, word: str) -> None: ...
    def listed(self, *, matching: int, sampled: int, new: int, opened: int, left_out: int) -> None: ...
    def finish(self) -> None: ...


class Sampler:
    """Samples until it is stopped. begin: makes the sink once the first connection was read, from its tcp_info.

    acks: the source of samples of single ACKs. All samples are written in the order of their times.

    Raises ObserveError where the kernel does not answer, and OSError where a file cannot be written.
    """

    def __init__(
        self, sampling: Sampling, *, diag: Diag, begin: Callable[[int], Sink],
        on_finished: Callable[[], None] = lambda: None, on_sample: Callable[[], None] = lambda: None,
        acks: Acks | None = None,
    ) -> None:  # fmt: skip
        self.counts = Counts()
        self._acks = acks
        # Samples of ACKs that are later than the last sample of all connections.
        self._waiting: list[Ack] = []
        self._sampling, self._diag, self._begin = sampling, diag, begin
        self._on_finished, self._on_sample = on_finished, on_sample
        self._sink: Sink | None = None
        self._chosen: dict[int, _Chosen] = {}
        self._refused: set[int] = set()
        self._known: set[int] | None = None
        self._opened = 0
        self._begun_ns = self._written_us = 0
        # When all connections were sampled last, by CLOCK_MONOTONIC.
        self._sampled_us = 0

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set."""
        if self._acks is not None:
            self._start(len(_any_info()))
        every_s = self._sampling.every_ms / 1000
        next_s = find_at_s = time.monotonic()
        while not stop.is_set():
            if next_s >= find_at_s:
                spent_s = time.thread_time()
                self._find()
                spent_s = time.thread_time() - spent_s
                find_at_s = next_s + max(self._sampling.find_s, spent_s / _MOST_LISTING_SHARE)
            else:
                self._sample()
            self._on_sample()
            next_s += every_s
            skipped = max(0, int((time.monotonic() - next_s) / every_s))
            self.counts.skipped += skipped
            next_s += skipped * every_s
            stop.wait(max(0.0, next_s - time.monotonic()))

    def close(self) -> None:
        """Finish the present file."""
        if self._sink is not None:
            self._sink.finish()
            self._on_finished()

    def _now_us(self) -> int:
        return (time.monotonic_ns() - self._begun_ns) // 1000

    def _sample(self) -> None:
        if self._sink is None:
            return
        chosen = list(self._chosen.values())
        time_us = self._now_us()
        answers = self._diag.look([one.found for one in chosen])
        # The answers may contain an ACK after this time, which also has a sample of its own.
        later = self._take_acks(time_us)
        self._tick(time_us)
        for one, looked in zip(chosen, answers, strict=True):
            if one.found.cookie not in later:
                self._take(one, looked)
        self.counts.samples += len(chosen)

    def _tick(self, time_us: int) -> None:
        """Begin a sample. Times never decrease."""
        assert self._sink is not None  # noqa: S101 - its callers have one
        self._written_us = max(self._written_us, time_us)
        if self._sink.tick(self._written_us):
            self._on_finished()

    def _take_acks(self, until_us: int) -> set[int]:
        """Write the samples of ACKs up to a time, and return the cookies of those after it."""
        if self._acks is None:
            return set()
        self._waiting += self._acks.drain()
        # The clock of the session is the kernel's, from its beginning on.
        end_us = until_us + self._begun_ns // 1000
        for ack in self._waiting:
            if ack.time_us <= end_us:
                self._take_ack(ack)
        self._waiting = [ack for ack in self._waiting if ack.time_us > end_us]
        self._sampled_us = end_us
        self.counts.acks_over_limit, self.counts.acks_lost = self._acks.over_limit, self._acks.lost
        return {ack.cookie for ack in self._waiting}

    def _take_ack(self, ack: Ack) -> None:
        one = self._chosen.get(ack.cookie)
        if one is None and not self._is_admitted(ack):
            return
        # The last ACK before a pause is sampled only after the pause. The sample of all connections has it already.
        if one is not None and ack.time_us <= self._sampled_us:
            return
        self._tick(ack.time_us - self._begun_ns // 1000)
        if one is None:
            is_new = self._known is not None and ack.cookie not in self._known
            one = self._choose(ack.found, ack.algorithm, is_new=is_new)
        one.last_rtt_us = ack.last_rtt_us
        assert self._sink is not None  # noqa: S101 - run() made it
        self._sink.row(one.number, (*ack.columns, *one.others, ack.last_rtt_us))
        self.counts.acks += 1

    def _is_admitted(self, ack: Ack) -> bool:
        """Whether to sample a connection that an ACK shows first."""
        if ack.cookie in self._refused or len(self._chosen) >= self._sampling.most:
            return False
        if self._is_refused(ack.found, ack.algorithm):
            assert self._acks is not None  # noqa: S101 - the ACK is from there
            self._acks.refuse(ack.cookie)
            return False
        return True

    def _choose(self, found: Found, algorithm: str, *, is_new: bool) -> _Chosen:
        self.counts.flows += 1
        one = _Chosen(self.counts.flows, found, self._ends_of(found, algorithm, is_new=is_new))
        self._chosen[found.cookie] = one
        assert self._sink is not None  # noqa: S101 - its callers have one
        self._sink.flow(one.number, one.ends)
        return one

    def _start(self, info_bytes: int) -> None:
        """Make the sink. Time 0 of the session is that of its first file, which takes the time of day now."""
        self._sink = self._begin(info_bytes)
        self._begun_ns = time.monotonic_ns()

    def _take(self, one: _Chosen, looked: Looked | None) -> None:
        sink = self._sink
        assert sink is not None  # noqa: S101 - it exists from the first connection on
        if looked is None or not looked.info or looked.state not in SENDING_STATES:
            sink.end(one.number, "closed")
            del self._chosen[one.found.cookie]
            self._refused.add(one.found.cookie)
            return
        if looked.algorithm != one.ends.algorithm:
            one.ends = self._ends_of(one.found, looked.algorithm, is_new=one.ends.is_new)
            sink.flow(one.number, one.ends)
        self._row(one, looked)

    def _row(self, one: _Chosen, looked: Looked) -> None:
        row = row_of(looked, last_rtt_us=one.last_rtt_us)
        one.others = row[-7:-1]
        assert self._sink is not None  # noqa: S101 - its callers have one
        self._sink.row(one.number, row)

    def _find(self) -> None:
        """Sample, and sample new connections, too."""
        opened = opened_connections()
        cookies, chosen = self._diag.dump(share=self._sampling.share)
        is_first, known = self._known is None, self._known or set()
        self._refused &= cookies
        new = [one for one in chosen if one.cookie not in self._chosen and one.cookie not in self._refused]
        free = max(0, self._sampling.most - len(self._chosen))
        new, left_out = new[:free], len(new[free:])
        answers = [*zip(new, self._diag.look(new), strict=True)]
        wanted = [(one, looked) for one, looked in answers if looked is not None and self._is_wanted(one, looked)]
        if self._sink is None and wanted:
            self._start(len(wanted[0][1].info))
        self._sample()
        for one, looked in wanted:
            # An ACK may have shown it meanwhile.
            if one.cookie not in self._chosen:
                is_new = not is_first and one.cookie not in known
                self._row(self._choose(one, looked.algorithm, is_new=is_new), looked)
        self._count(cookies, opened, left_out=left_out)

    def _count(self, cookies: set[int], opened: int, *, left_out: int) -> None:
        counts = self.counts
        counts.matching, counts.present, counts.left_out = len(cookies), len(self._chosen), left_out
        n_new = n_opened = 0
        if self._known is not None:
            n_new, n_opened = len(cookies - self._known), opened - self._opened
        self._known, self._opened = cookies, opened
        counts.new, counts.opened = counts.new + n_new, counts.opened + n_opened
        if self._sink is not None:
            self._sink.listed(
                matching=counts.matching, sampled=counts.present, new=n_new, opened=n_opened, left_out=left_out
            )

    def _is_wanted(self, one: Found, looked: Looked) -> bool:
        """Whether to sample it. One that is not wanted is not looked at again."""
        return not self._is_refused(one, looked.algorithm) and bool(looked.info) and looked.state in SENDING_STATES

    def _is_refused(self, one: Found, algorithm: str) -> bool:
        """Whether the filters exclude its ends or its algorithm. If so, it is not looked at again."""
        sampling = self._sampling
        is_refused = (not sampling.has_loopback and any(map(is_of_this_machine, one.addresses))) or (
            bool(sampling.algorithms) and algorithm not in sampling.algorithms
        )
        if is_refused:
            self._refused.add(one.cookie)
        return is_refused

    def _ends_of(self, one: Found, algorithm: str, *, is_new: bool) -> Ends:
        local, peer = one.addresses
        local_port, peer_port = one.ports
        return Ends(
            local=self._sampling.hide(local), local_port=local_port, peer=self._sampling.hide(peer),
            peer_port=peer_port if self._sampling.has_peer_ports else 0, algorithm=algorithm, is_new=is_new,
        )  # fmt: skip
