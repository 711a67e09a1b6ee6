# SPDX-License-Identifier: MIT
"""Finds the TCP header in a captured frame, below Ethernet, VLAN tags, Linux's cooked headers, IPv4 and IPv6.

A packet is a row of PACKET. Its payload is what its IP header says, because a capture may have cut the frame.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from typing import NamedTuple

import numpy as np

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MOST_SACKS = 4
PACKET = np.dtype(
    [
        ("time_us", "<u8"),
        ("seq", "<u4"),
        ("ack", "<u4"),
        ("bytes", "<u4"),  # of payload
        ("stamp", "<u4"),  # TSval
        ("echo", "<u4"),  # TSecr
        ("window", "<u2"),
        ("ip_id", "<u2"),  # 0 in IPv6
        ("flags", "u1"),
        ("direction", "u1"),  # 0: of the first packet of the connection
        ("stamped", "u1"),  # whether it has timestamps
        ("sacks", "u1"),  # blocks, at most MOST_SACKS
        *((f"{end}{n}", "<u4") for n in range(MOST_SACKS) for end in ("left", "right")),
    ]
)
_ROW = struct.Struct("<QIIIIIHHBBBB8I")

ETHERNET, RAW_TYPES, SLL, SLL2 = 1, (12, 14, 101, 228, 229), 113, 276
LOOPBACK_TYPES = (0, 108)
_VLAN = (0x8100, 0x88A8, 0x9100)
_IPV4, _IPV6 = 0x0800, 0x86DD
_EXTENSIONS = (0, 43, 60, 135, 139, 140)  # each: next header, length in 8 bytes without the first 8
_FRAGMENT, _AUTHENTICATION, _TCP = 44, 51, 6
_PROTOCOLS = {1: "ICMP", 17: "UDP", 58: "ICMPv6", 50: "ESP", 47: "GRE", 4: "IP in IP", 41: "IPv6 in IP", 132: "SCTP"}
_ETHER_TYPES = {0x0806: "ARP", 0x8847: "MPLS", 0x8864: "PPPoE", 0x88CC: "LLDP", 0x88E5: "MACsec"}
_LEAST_ETHER_TYPE = 0x0600
_NO_BLOCKS = (0,) * (2 * MOST_SACKS)
_STAMPS_ALONE = b"\x01\x01\x08\x0a"


class Options(NamedTuple):
    """TCP options. 0 for those that are absent; scale -1: no window scaling."""

    stamped: bool = False
    stamp: int = 0
    echo: int = 0
    mss_bytes: int = 0
    scale: int = -1
    blocks: tuple[int, ...] = ()
    cut: bool = False


class Segment(NamedTuple):
    """A TCP segment: its addresses and ports as bytes of the headers, and the fields of PACKET."""

    source: bytes
    target: bytes
    seq: int
    ack: int
    flags: int
    window: int
    payload_bytes: int
    ip_id: int
    options: Options

    def row(self, time_us: int, direction: int) -> bytes:
        """The bytes of a row of PACKET."""
        options = self.options
        blocks = options.blocks[: 2 * MOST_SACKS]
        return _ROW.pack(
            time_us, self.seq, self.ack, self.payload_bytes, options.stamp, options.echo, self.window, self.ip_id,
            self.flags, direction, options.stamped, len(blocks) // 2, *(blocks + _NO_BLOCKS)[: 2 * MOST_SACKS],
        )  # fmt: skip


def end_name(end: bytes) -> str:
    """The name of an end: address and port."""
    address, (port,) = end[:-2], struct.unpack("!H", end[-2:])
    if len(address) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, address)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, address)}]:{port}"


def segment_of(link_type: int, frame: bytes, wire_bytes: int, left_out: Counter[str]) -> Segment | None:
    """The segment within a frame. None: there is no whole TCP header, and `left_out` counts the reason."""
    found = _network(link_type, frame)
    if found is None:
        left_out[f"of link type {link_type}, which is not supported"] += 1
        return None
    ether_type, at = found
    if at + 20 > len(frame):
        left_out["cut off within their headers"] += 1
    elif ether_type == _IPV4 and frame[at] >> 4 == 4:
        return _of_ipv4(frame, at, wire_bytes, left_out)
    elif ether_type == _IPV6 and frame[at] >> 4 == 6:
        return _of_ipv6(frame, at, wire_bytes, left_out)
    else:
        left_out[f"of {_kind_of(ether_type)}"] += 1
    return None


def _kind_of(ether_type: int) -> str:
    """The name of a frame that is not IP. Values below 0x0600 are lengths of IEEE 802.3, as of spanning tree."""
    if ether_type < _LEAST_ETHER_TYPE:
        return "IEEE 802.3 LLC"
    return _ETHER_TYPES.get(ether_type, f"Ethernet type {ether_type:#06x}")


def _network(link_type: int, frame: bytes) -> tuple[int, int] | None:
    """The EtherType and where the network's header begins; None: the link type is unknown."""
    if link_type == ETHERNET:
        at = 12
    elif link_type == SLL:
        at = 14
    elif link_type == SLL2:
        return int.from_bytes(frame[:2], "big"), 20
    elif link_type in RAW_TYPES or link_type in LOOPBACK_TYPES:
        at = 0 if link_type in RAW_TYPES else 4
        return (_IPV6 if frame[at : at + 1] >= b"\x60" else _IPV4), at
    else:
        return None
    ether_type = int.from_bytes(frame[at : at + 2], "big")
    while ether_type in _VLAN:
        at += 4
        ether_type = int.from_bytes(frame[at : at + 2], "big")
    return ether_type, at + 2


def _protocol_words(protocol: int) -> str:
    return f"of {_PROTOCOLS.get(protocol, f'IP protocol {protocol}')}"


def _of_ipv4(frame: bytes, at: int, wire_bytes: int, left_out: Counter[str]) -> Segment | None:
    total_bytes, ip_id, fragment = struct.unpack_from("!HHH", frame, at + 2)
    protocol, header_bytes = frame[at + 9], (frame[at] & 15) * 4
    if protocol != _TCP:
        left_out[_protocol_words(protocol)] += 1
        return None
    if fragment & 0x3FFF:
        left_out["of IP fragments"] += 1
        return None
    # A sender that offloads may leave the length to the network card.
    total_bytes = total_bytes or wire_bytes - at
    ends = frame[at + 12 : at + 16], frame[at + 16 : at + 20]
    return _of_tcp(frame, at + header_bytes, total_bytes - header_bytes, ends=ends, ip_id=ip_id, left_out=left_out)


def _of_ipv6(frame: bytes, at: int, wire_bytes: int, left_out: Counter[str]) -> Segment | None:
    if at + 40 > len(frame):
        left_out["cut off within their headers"] += 1
        return None
    (payload_bytes,), protocol, header_at = struct.unpack_from("!H", frame, at + 4), frame[at + 6], at + 40
    end_at = at + 40 + (payload_bytes or wire_bytes - at - 40)
    while protocol in _EXTENSIONS or protocol == _AUTHENTICATION:
        if header_at + 2 > len(frame):
            left_out["cut off within their headers"] += 1
            return None
        size = frame[header_at + 1]
        protocol, header_at = frame[header_at], header_at + ((size + 2) * 4 if protocol == 51 else (size + 1) * 8)
    if protocol != _TCP:
        left_out["of IP fragments" if protocol == _FRAGMENT else _protocol_words(protocol)] += 1
        return None
    ends = frame[at + 8 : at + 24], frame[at + 24 : at + 40]
    return _of_tcp(frame, header_at, end_at - header_at, ends=ends, ip_id=0, left_out=left_out)


def _of_tcp(
    frame: bytes, at: int, segment_bytes: int, *, ends: tuple[bytes, bytes], ip_id: int, left_out: Counter[str]
) -> Segment | None:
    if at + 20 > len(frame):
        left_out["cut off within their headers"] += 1
        return None
    seq, ack, offset, flags, window = struct.unpack_from("!IIBBH", frame, at + 4)
    header_bytes = (offset >> 4) * 4
    payload_bytes = segment_bytes - header_bytes
    if header_bytes < 20 or payload_bytes < 0:
        left_out["damaged within their headers"] += 1
        return None
    options = _options(frame[at + 20 : at + header_bytes], header_bytes - 20) if header_bytes > 20 else Options()
    source, target = ends[0] + frame[at : at + 2], ends[1] + frame[at + 2 : at + 4]
    return Segment(source, target, seq, ack, flags, window, payload_bytes, ip_id, options)


def _options(data: bytes, header_bytes: int) -> Options:
    """The options within `data`, which the capture may have cut below header_bytes."""
    if len(data) == 12 and data[:4] == _STAMPS_ALONE:
        stamp, echo = struct.unpack_from("!II", data, 4)
        return Options(stamped=True, stamp=stamp, echo=echo)
    found, at = Options(cut=len(data) < header_bytes), 0
    while at < len(data) and data[at]:
        if data[at] == 1:
            at += 1
            continue
        size = data[at + 1] if at + 1 < len(data) else 0
        if size < 2 or at + size > len(data):
            break
        found = _with_option(found, data[at], data[at + 2 : at + size])
        at += size
    return found


def _with_option(found: Options, kind: int, value: bytes) -> Options:
    if kind == 2 and len(value) == 2:
        return found._replace(mss_bytes=int.from_bytes(value, "big"))
    if kind == 3 and len(value) == 1:
        return found._replace(scale=min(value[0], 14))
    if kind == 5 and len(value) % 8 == 0:
        return found._replace(blocks=struct.unpack(f"!{len(value) // 4}I", value))
    if kind == 8 and len(value) == 8:
        stamp, echo = struct.unpack("!II", value)
        return found._replace(stamped=True, stamp=stamp, echo=echo)
    return found
