# SPDX-License-Identifier: MIT
"""Sums of R-TCP's clients by prefix of their addresses, for an operator who lets R-TCP only detect (docs/rtcp.md).

    module   file `clients`: a line for each client in the table of the network namespace, which all R-TCP shares
    BPF      file `flows`: a line for each live connection, because there each connection has a client of its own

The sums are those of the moment of reading. A client that leaves the table takes its segments along, so a sum can
become smaller. An address is cut to its prefix when its line is read, and kept nowhere.
"""

from __future__ import annotations

import socket
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import add
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal

from kmod.abi import ALGORITHMS
from serving.agent.errors import AgentError
from serving.agent.observe.addresses import cut

if TYPE_CHECKING:
    from serving.agent.kernel import Tree

RTCP: Final = tuple(name for name in ALGORITHMS if name.startswith("rtcp_"))
# How many prefixes have sums of their own: in the end, and while the lines are read, which bounds the memory.
SHOWN: Final = 20
_MOST_READ: Final = 65_536
COUNTS: Final = ("segments", "retransmitted", "limited_segments", "limited_retransmitted")
_MAPPED: Final = bytes(10) + b"\xff\xff"
_BYTES_PER_MEGABIT: Final = 125_000
_HEADS: Final = ("limited", "R, Mbit/s", "B, kB", "segments", "to limited", "retransmitted", "saves, permille")
_SHOWN_LAST: Final = ("segments", "limited_segments", "limited_retransmitted", "capping_saves_permille")

# The address, whose other bits are 0, and the length of the prefix in bits.
Network = tuple[bytes, int]
Unit = Literal["clients", "connections"]
ByPrefix = dict[str, Any]
# In which field of a line the class of its client is.
_CLASS: Final[Mapping[Unit, str]] = {"clients": "class", "connections": "limiter"}


@dataclass(slots=True)
class _Sums:
    """The sums of some clients. rates_bytes_per_s, buckets_bytes: R and B of each limited one. counts: as COUNTS."""

    clients: int = 0
    rates_bytes_per_s: array[int] = field(default_factory=lambda: array("Q"))
    buckets_bytes: array[int] = field(default_factory=lambda: array("Q"))
    counts: list[int] = field(default_factory=lambda: [0] * len(COUNTS))

    def add(self, line: Mapping[str, str], *, is_limited: bool) -> None:
        """Add a client. Raises KeyError and ValueError for a line without the numbers of R-TCP."""
        self.clients += 1
        if is_limited:
            self.rates_bytes_per_s.append(int(line["limit_bytes_per_s"]))
            self.buckets_bytes.append(int(line["bucket_bytes"]))
        for index, name in enumerate(COUNTS):
            self.counts[index] += int(line[name])

    def include(self, other: _Sums) -> None:
        self.clients += other.clients
        self.rates_bytes_per_s.extend(other.rates_bytes_per_s)
        self.buckets_bytes.extend(other.buckets_bytes)
        self.counts = list(map(add, self.counts, other.counts))

    def to_json(self) -> dict[str, Any]:
        counts = dict(zip(COUNTS, self.counts, strict=True))
        return {
            "clients": self.clients,
            "limited_clients": len(self.rates_bytes_per_s),
            "limit_bytes_per_s": _spread(self.rates_bytes_per_s),
            "bucket_bytes": _spread(self.buckets_bytes),
            **counts,
            "capping_saves_permille": round(1000 * counts["limited_retransmitted"] / max(counts["segments"], 1), 1),
        }


def _spread(values: array[int]) -> tuple[int, float, int] | None:
    """Return the least value, the median and the largest one; None without values."""
    return (min(values), median(values), max(values)) if values else None


def read_prefixes(tree: Tree, ccas: Iterable[str], *, bits: tuple[int, int], most: int = SHOWN) -> ByPrefix:
    """Read the clients of these algorithms of R-TCP, and return their sums by prefix as JSON data.

    bits: lengths of the prefixes of IPv4 and of IPv6. most: the number of `prefixes`, of which those where a cap saves
    most come first; the others are the sum `rest`. `all` is the sum of all, and `unit` says what `clients` counts.
    R and B are [least, median, most], or None without a limited client. capping_saves_permille: the share of the
    segments that a cap can save, u p of R-TCP 2026, equation 1.

    Raises:
        AgentError: none of the algorithms is loaded, or a line is not one of R-TCP.
        OSError: a file cannot be read.
    """
    flows: list[Iterable[str]] = []
    missing = "no algorithm of R-TCP is set"
    for cca in ccas:
        try:
            return _summed("clients", _opened(tree, cca, "clients"), bits=bits, most=most)
        except FileNotFoundError:
            try:
                flows.append(_opened(tree, cca, "flows"))
            except FileNotFoundError as error:
                missing = error.strerror or str(error)
    if not flows:
        raise AgentError(f"clients: expected {', '.join(RTCP[:-1])} or {RTCP[-1]} to be loaded; {missing}")
    return _summed("connections", chain.from_iterable(flows), bits=bits, most=most)


def _opened(tree: Tree, cca: str, file: str) -> Iterable[str]:
    """Return the lines of a file. The first one is read here, so that a missing file raises here."""
    lines = tree.lines(cca, file)
    return chain([first] if (first := next(lines, "")) else [], lines)


def _summed(unit: Unit, lines: Iterable[str], *, bits: tuple[int, int], most: int) -> ByPrefix:
    found: dict[Network, _Sums] = {}
    rest, total = _Sums(), _Sums()
    for line in lines:
        try:
            address, *words = line.split()
            if unit == "connections":
                # The first two words are the local and the remote address, with their ports.
                address = words.pop(0).rpartition(":")[0].strip("[]")
            network = _network_of(address, bits)
            if (sums := found.get(network)) is None:
                # Making the text of a network takes longer than all the rest, so only those that are shown have one.
                sums = found.setdefault(network, _Sums()) if len(found) < _MOST_READ else rest
            values = dict(word.split("=", 1) for word in words)
            sums.add(values, is_limited=values[_CLASS[unit]] == "limited")
        except (KeyError, ValueError, IndexError, OSError) as error:
            raise AgentError(
                f"{unit}: expected a line of R-TCP with its counts, got another ({error}); "
                "is the module of another version than this agent?"
            ) from error
    order = sorted(found, key=lambda one: (-found[one].counts[3], -found[one].counts[0], one))
    for network in order[most:]:
        rest.include(found[network])
    for sums in (*(found[network] for network in order[:most]), rest):
        total.include(sums)
    return {
        "unit": unit,
        "prefixes": [{"prefix": _text_of(network), **found[network].to_json()} for network in order[:most]],
        "rest": {"prefixes": len(order[most:]), **rest.to_json()},
        "all": total.to_json(),
    }


def _network_of(address: str, bits: tuple[int, int]) -> Network:
    """Return the network of an address, or of a prefix, which is not made longer. Raises OSError for another text."""
    text, _, own_bits = address.partition("/")
    packed = socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text).removeprefix(_MAPPED)
    most = 8 * len(packed)
    kept = min(bits[most != 32], int(own_bits or most))
    low_bits = most - kept
    return (int.from_bytes(packed) >> low_bits << low_bits).to_bytes(len(packed)), kept


def _text_of(network: Network) -> str:
    address, bits = network
    return cut(address, bits_v4=bits, bits_v6=bits)


def table_lines(found: ByPrefix) -> list[str]:
    """Return the lines of a table of these sums."""
    named = [(one["prefix"], one) for one in found["prefixes"]]
    named += [(f"others ({found['rest']['prefixes']})", found["rest"])] * bool(found["rest"]["clients"])
    rows = [("prefix", found["unit"], *_HEADS)]
    for name, its in (*named, ("all", found["all"])):
        rates, buckets = its["limit_bytes_per_s"], its["bucket_bytes"]
        numbers = (its[figure] for figure in _SHOWN_LAST)
        spreads = _in(_BYTES_PER_MEGABIT, rates), _in(1000, buckets)
        rows.append((name, f"{its['clients']}", f"{its['limited_clients']}", *spreads, *map(str, numbers)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def _in(unit: int, spread: tuple[int, float, int] | None) -> str:
    """Return a spread as `median (least-most)`."""
    least, middle, most = (f"{value / unit:.3g}" for value in spread or (0, 0, 0))
    return f"{middle} ({least}-{most})" if spread else "-"
