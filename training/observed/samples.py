# SPDX-License-Identifier: MIT
"""Flows from samples: the files of `ccatune observe`, and logs of `ss -tin` (ss_logs.py).

Between two samples, dt apart, the kernel's clocks say how long the sender was busy (it had data that was not
acknowledged), and how much of that its receiver's window or its send buffer stopped it:

    idle = dt - busy,   network = busy - receiver - send buffer

    NETWORK       idle, receiver and send buffer take at most a tenth of dt together, and neither sign below
    APPLICATION   idle is the largest of the three; or the kernel's delivery rate was limited by the application, and
                  not at both samples data waited to be sent; or at neither it waited, and at neither the window was
                  full. (The kernel's sign is about packets that were sent a round trip ago, or more after losses.)
    RECEIVER, SEND_BUFFER   it is the largest of the three
    UNKNOWN       the first sample, and samples without these clocks (Linux before 4.10, iproute2 before 4.11)

The clocks advance by jiffies of up to 10 ms, hence the tolerance. Samples of single ACKs (`observe --acks`) may be
less than a jiffy apart. dt is therefore at least CLOCK_US: it is the time since the last row that is at least so old.

    delivered     bytes acknowledged, and selectively acknowledged packets times the MSS
    lost          retransmissions, and packets that are taken for lost and not retransmitted yet
    in flight     packets: not acknowledged - selectively acknowledged - taken for lost + retransmitted, times the MSS
    RTT           smoothed; where the kernel's minimum fell, that minimum, as in the first row. In samples of ACKs it is
                  that of the packet sent last among those that the ACK delivered
    a transfer    begins after at least one whole interval in which nothing was outstanding or acknowledged

Limits: a pause that is shorter than an interval is not seen, nor what happened within one. Needless retransmissions
count as losses, as the sender took them for lost.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kmod.observations import NAMES, Observations, Observed, files_in, is_observations, read_observations
from training.errors import TrainingError
from training.observed.flow import STEP, Flow, Limit
from training.observed.ss_logs import SsFlow, looks_like_ss, read_ss

_TOLERANCE = 0.1
_JIFFY_US = 4000
CLOCK_US = 90_000  # below the least time between two samples of all connections
_START_BYTES = 1 << 16
_FOUND_SHARE = 0.9
_NO_RTT = 0xFFFFFFFF  # the kernel's minimum before the first sample
_MOST, _MOST_PKTS, _MOST_MSS_BYTES = 1 << 62, 1 << 32, 1 << 17
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, eq=False)
class _Table:
    """The samples of a connection. columns: of kmod's NAMES, int64 [n], without those that the source lacks."""

    name: str
    source: str
    kind: Literal["ss", "observe", "acks"]
    start_s: float
    times_us: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.int64]]
    algorithm: str = ""
    remarks: tuple[str, ...] = field(default=())

    def get(self, name: str) -> NDArray[np.int64]:
        """The column, or zeros."""
        found = self.columns.get(name)
        return np.zeros(len(self.times_us), np.int64) if found is None else found


def is_samples(path: Path) -> bool:
    """Whether this is a file or folder of `ccatune observe`, or a log that looks like one of ss. Raises OSError."""
    if path.is_dir():
        return bool(files_in(path))
    start = _start_of(path)
    return is_observations(start) or looks_like_ss(_text_of(start))


def read_samples(path: Path) -> list[Flow]:
    """Return the flows in a folder of `observe` or one of its files, or in a log of ss, those that sent data.

    Raises TrainingError where there is none, or the file is neither; ObservationError for a damaged file of `observe`;
    OSError.
    """
    if path.is_dir():
        files = files_in(path)
        if not files:
            raise TrainingError(f"{path}: expected files of `ccatune observe`, found none")
        tables = _observed(read_observations(files), str(path))
    elif is_observations(_start_of(path)):
        tables = _observed(read_observations([path]), str(path))
    else:
        tables = [_of_ss(one, str(path)) for one in read_ss(_all_of(path), source=str(path))]
    flows = [flow for table in tables if (flow := _flow(table)) is not None]
    if not flows:
        raise TrainingError(
            f"{path}: expected a connection that sent data between two samples, found "
            f"{len(tables)} that did not; sample more of them, or for longer"
        )
    return flows


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_START_BYTES)


def _text_of(start: bytes) -> bytes:
    if not start.startswith(_GZIP):
        return start
    try:
        return zlib.decompressobj(31).decompress(start, _START_BYTES)
    except zlib.error:
        return b""


def _all_of(path: Path) -> bytes:
    content = path.read_bytes()
    if not content.startswith(_GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise TrainingError(f"{path}: expected a log of ss, got a damaged gzip file ({error})") from error


def _observed(found: Observations, source: str) -> list[_Table]:
    remarks = []
    if found.is_cut:
        remarks.append("A file ends within a line, as after a crash. Its last seconds are missing.")
    # Samples of ACKs also show connections that begin and end between two listings.
    if found.opened and found.found < _FOUND_SHARE * found.opened and not found.has_acks:
        remarks.append(
            f"The server opened {found.opened} connections meanwhile, and {found.found} of them were found. Short "
            "connections, and those that do not match the filters, are missing."
        )
    return [_of_observed(one, source, remarks) for one in found.flows]


def _of_observed(one: Observed, source: str, remarks: Iterable[str]) -> _Table:
    values = np.frombuffer(one.values, np.int64).reshape(-1, len(NAMES))
    ends = one.ends
    kind: Literal["observe", "acks"] = "acks" if one.facts.acks_per_s else "observe"
    own = [] if ends.is_new else ["The connection began before the sampling."]
    peer_port = f":{ends.peer_port}" if ends.peer_port else ""
    return _Table(
        name=f"{ends.local}:{ends.local_port} > {ends.peer}{peer_port} #{one.number}",
        source=source, kind=kind, start_s=one.start_s, times_us=np.array(one.times_us, np.int64),
        columns={name: values[:, place] for place, name in enumerate(NAMES) if name not in one.missing},
        algorithm=ends.algorithm, remarks=(*remarks, *own),
    )  # fmt: skip


def _of_ss(one: SsFlow, source: str) -> _Table:
    return _Table(
        name=one.name, source=source, kind="ss", start_s=0.0, times_us=np.array(one.times_us, np.int64),
        columns={name: np.array(values, np.int64) for name, values in one.columns.items()},
        algorithm=one.algorithm, remarks=one.remarks,
    )  # fmt: skip


def _flow(table: _Table) -> Flow | None:
    """Return the flow, or None if it sent nothing between two samples. Raises TrainingError for impossible numbers."""
    for name, values in table.columns.items():
        most = _MOST_MSS_BYTES if name == "snd_mss_bytes" else _MOST_PKTS if name.endswith("_pkts") else _MOST
        if len(values) and not 0 <= values.min() <= values.max() < most:
            raise TrainingError(
                f"{table.source}: {table.name}: expected {name} from 0 to {most - 1}, got {values.max()}"
            )
    mss_bytes = np.maximum(table.get("snd_mss_bytes"), 1)
    acked = table.get("bytes_acked") + table.get("sacked_pkts") * mss_bytes
    delivered = np.maximum.accumulate(acked) - acked[0]
    flight = table.get("unacked_pkts") - table.get("sacked_pkts") - table.get("lost_pkts") + table.get("retrans_pkts")
    lost_now = np.maximum(table.get("lost_pkts") - table.get("retrans_pkts"), 0)
    lost = np.maximum.accumulate(table.get("total_retrans_pkts") + lost_now)
    is_idle = _is_idle(table, delivered)
    if is_idle[1:].all():
        return None
    # An idle time before the first transfer belongs to none.
    first = int(np.argmin(is_idle[1:]))
    steps = np.zeros(len(delivered) - first, STEP)
    steps["time_us"] = table.times_us[first:] - table.times_us[first]
    steps["delivered_bytes"] = (delivered - delivered[first])[first:]
    steps["lost_pkts"] = (lost - lost[first])[first:]
    steps["rtt_us"] = _rtts(table, delivered)[first:]
    least_us = int(table.get("min_rtt_us")[first])
    if 0 < least_us < _NO_RTT:
        steps["rtt_us"][0] = least_us
    steps["inflight_bytes"] = (np.maximum(flight, 0) * mss_bytes)[first:]
    steps["limit"] = _limits(table, delivered)[first:]
    steps["limit"][0] = Limit.UNKNOWN
    begins = np.flatnonzero(is_idle[first + 1 : -1] & ~is_idle[first + 2 :]) + 1
    unknown = {"limit"} if not {"busy_us", "is_app_limited"} & set(table.columns) else set()
    return Flow(
        name=table.name, source=table.source, kind=table.kind, steps=steps,
        transfers_us=np.concatenate([[0], steps["time_us"][begins].astype(np.int64)]), algorithm=table.algorithm,
        mss_bytes=int(mss_bytes[-1]), start_s=table.start_s + table.times_us[first] / 1e6,
        has=frozenset(STEP.names or ()) - unknown, remarks=(*table.remarks, *_remarks(table, unknown)),
    )  # fmt: skip


def _remarks(table: _Table, unknown: Collection[str]) -> list[str]:
    remarks = [] if table.kind == "acks" else ["The RTTs are smoothed RTTs of the kernel."]
    if unknown:
        remarks.append(
            "It is unknown what limited the flow, because the log has no busy times. A newer iproute2 prints them."
        )
    needless = table.get("dsack_dups_pkts")
    if len(needless) and needless[-1] > needless[0]:
        remarks.append(f"{needless[-1] - needless[0]} of the retransmissions were spurious (DSACK).")
    return remarks


def _is_idle(table: _Table, delivered: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of each sample, whether since the one before nothing was outstanding or acknowledged. The first is."""
    outstanding = (table.get("unacked_pkts") > 0) | (table.get("notsent_bytes") > 0)
    return np.concatenate([[True], ~outstanding[1:] & ~outstanding[:-1] & (np.diff(delivered) == 0)])


def _rtts(table: _Table, delivered: NDArray[np.int64]) -> NDArray[np.int64]:
    rtts, least = table.get("last_rtt_us" if table.kind == "acks" else "rtt_us").copy(), table.get("min_rtt_us")
    rtts[1:][np.diff(delivered) == 0] = 0
    has_fallen = np.concatenate([[False], (least[1:] < least[:-1]) & (least[1:] > 0)])
    return np.where(has_fallen, least, rtts)


def _limits(table: _Table, delivered: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Of each sample, what limited the sender since the one before."""
    limits = np.full(len(delivered), int(Limit.UNKNOWN), np.uint8)
    is_applications = _is_applications(table)
    if "busy_us" in table.columns:
        times = table.times_us
        rows = np.arange(1, len(times))
        before = np.clip(np.searchsorted(times, times[1:] - CLOCK_US, side="right") - 1, 0, rows - 1)
        dt = times[1:] - times[before]
        busy, receiver, buffer = (
            np.clip(table.get(name)[1:] - table.get(name)[before], 0, dt)
            for name in ("busy_us", "rwnd_limited_us", "sndbuf_limited_us")
        )
        idle = dt - busy
        if table.kind != "observe":
            # ss prints the time before it lists the sockets, and the listing takes a varying time. The clocks of an
            # ACK's sample are read some time after the ACK. If data waits at both ends of an interval, an idle time of
            # less than half of it is more likely an error of the times.
            waits = table.get("notsent_bytes") > 0
            idle = np.where(waits[1:] & waits[before], np.maximum(idle - dt // 2, 0), idle)
        others = np.stack([idle, receiver, buffer])
        kinds = np.array([Limit.APPLICATION, Limit.RECEIVER, Limit.SEND_BUFFER], np.uint8)
        is_network = others.sum(axis=0) <= _TOLERANCE * dt + _JIFFY_US
        limits[1:] = np.where(is_network, int(Limit.NETWORK), kinds[others.argmax(axis=0)])
        limits[1:][is_network & is_applications[1:]] = Limit.APPLICATION
    else:
        limits[is_applications] = Limit.APPLICATION
    limits[_is_idle(table, delivered)] = Limit.APPLICATION
    return limits


def _is_applications(table: _Table) -> NDArray[np.bool_]:
    """Of each sample, whether a sign says that the application had too little to send, other than the clocks."""
    signs = table.get("is_app_limited") > 0
    signs[1:] &= ~_waits_at_both(table)
    if {"notsent_bytes", "snd_cwnd_pkts"} <= set(table.columns):
        has_room = (table.get("notsent_bytes") == 0) & (table.get("unacked_pkts") < table.get("snd_cwnd_pkts"))
        signs[1:] |= has_room[1:] & has_room[:-1]
    return signs


def _waits_at_both(table: _Table) -> NDArray[np.bool_]:
    """Of each sample but the first, whether data waited to be sent, now and at the one before."""
    waits = table.get("notsent_bytes") > 0
    return waits[1:] & waits[:-1]
