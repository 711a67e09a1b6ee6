# SPDX-License-Identifier: MIT
"""Reads the kernel's TCP sockets by sock_diag (netlink), without a library.

    Diag.dump    lists the connections: addresses and cookies, without tcp_info. Its cost grows with their number.
    Diag.look    reads tcp_info of a few connections by address and cookie. Its cost does not depend on the others.

A cookie names a socket until the machine restarts: a later connection with the same addresses has another one.
The layouts are those of <linux/inet_diag.h>, <linux/sock_diag.h> and <linux/tcp.h>. No capability is needed for the
fields that are read here. A socket of family AF_INET6 may carry IPv4, with mapped addresses.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from serving.agent.errors import ObserveError

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLM_F_REQUEST, _NLM_F_DUMP = 0x1, 0x300
_ATTR_INFO, _ATTR_VEGASINFO, _ATTR_CONG, _ATTR_BBRINFO, _ATTR_BYTECODE = 2, 3, 4, 16, 1
# The bit of VEGASINFO makes the kernel add the figures of Vegas or of BBR, whichever the connection uses.
_EXTENSIONS = 1 << (_ATTR_INFO - 1) | 1 << (_ATTR_VEGASINFO - 1) | 1 << (_ATTR_CONG - 1)
ESTABLISHED = 1
# States in which data may still be sent, or wait for its ACK: also FIN_WAIT1, CLOSE_WAIT, LAST_ACK and CLOSING.
SENDING_STATES = frozenset({ESTABLISHED, 4, 8, 9, 11})
_STATES = sum(1 << state for state in SENDING_STATES)

_MESSAGE = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence number, port
_REQUEST = struct.Struct("=BBBxI")  # family, protocol, extensions, states; the id of the socket follows
_ID_BYTES = 48  # inet_diag_sockid: ports, addresses of 16 bytes, interface, cookie
_FOUND = struct.Struct("=IH10x4x40sQ")  # of a message with a socket: its length and type, the socket's id, its cookie
_COOKIE_AT = _ID_BYTES - 8
_STATE_AT = _MESSAGE.size + 1
_ATTRIBUTES_AT = _MESSAGE.size + 72
_BUFFER_BYTES = 1 << 18
# A reply takes about 2 KiB of the receive buffer, whose usual limit is 208 KiB.
_BATCH = 48
_TIMEOUT_S = 5
MOST_PORTS: Final = 64
# inet_diag_bc_op: code, bytes to the next operation if it holds, and if not. The port to compare with stands in the
# `no` of an operation of its own that follows.
_OPERATION = struct.Struct("=BBH")
_SOURCE_AT_LEAST, _SOURCE_AT_MOST, _JUMP = 2, 3, 1


# A connection is chosen by this hash of its cookie. Cookies count up, so the chosen ones are spread evenly over time.
_GOLDEN: Final = 0x9E3779B97F4A7C15
_HASHES: Final = 1 << 64


def hashes_of(share: float) -> int:
    """Return the bound below which the hashes of this share (0 to 1) of the connections are."""
    return round(share * _HASHES)


class Looked(NamedTuple):
    """What the kernel says of a connection. vegas, bbr: their structures, b"" for others."""

    state: int
    info: bytes
    algorithm: str
    vegas: bytes
    bbr: bytes


class Found(NamedTuple):
    """A connection of a dump. id: an inet_diag_sockid, with which `look` finds it again."""

    family: int
    id: bytes

    @property
    def cookie(self) -> int:
        """The number of the socket, from 1."""
        return int.from_bytes(self.id[_COOKIE_AT:], sys.byteorder)

    @property
    def ports(self) -> tuple[int, int]:
        """The local port and the peer's."""
        return int.from_bytes(self.id[:2], "big"), int.from_bytes(self.id[2:4], "big")

    @property
    def addresses(self) -> tuple[bytes, bytes]:
        """The local address and the peer's: 4 bytes of IPv4, also where it is mapped, or 16 of IPv6."""
        local, peer = self.id[4:20], self.id[20:36]
        if self.family == socket.AF_INET:
            return local[:4], peer[:4]
        mapped = bytes(10) + b"\xff\xff"
        if local.startswith(mapped) and peer.startswith(mapped):
            return local[12:], peer[12:]
        return local, peer


def _port_filter(ports: Sequence[int]) -> bytes:
    """Return a program that the kernel runs on each socket: it accepts these local ports, or all if none is given.

    A program accepts by jumping to its end, and refuses by jumping 4 bytes past it. For each port there are
    two comparisons, each with its port, and a jump to the end.
    """
    size = 5 * _OPERATION.size
    parts = []
    for number, port in enumerate(ports):
        left = size * (len(ports) - number)
        is_last = number == len(ports) - 1
        after = left + 4 if is_last else size
        parts += [
            _OPERATION.pack(_SOURCE_AT_LEAST, 2 * _OPERATION.size, after),
            _OPERATION.pack(0, 0, port),
            _OPERATION.pack(_SOURCE_AT_MOST, 2 * _OPERATION.size, after - 2 * _OPERATION.size),
            _OPERATION.pack(0, 0, port),
            _OPERATION.pack(_JUMP, _OPERATION.size, left - 4 * _OPERATION.size),
        ]
    program = b"".join(parts)
    return struct.pack("=HH", 4 + len(program), _ATTR_BYTECODE) + program if program else b""


class Diag:
    """A netlink socket. One thread may use it. All methods raise ObserveError where the kernel does not answer."""

    def __init__(self, *, ports: Sequence[int] = ()) -> None:
        """Open it. ports: local ports of the connections that `dump` lists, at most MOST_PORTS; none for all."""
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
        except OSError as error:
            raise ObserveError(
                f"expected a netlink socket of sock_diag, got {error.strerror}; the kernel needs CONFIG_INET_DIAG, and "
                "a container or systemd unit must permit AF_NETLINK (RestrictAddressFamilies)"
            ) from error
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.settimeout(_TIMEOUT_S)
        self._filter = _port_filter(ports)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def dump(self, *, share: float = 1.0) -> tuple[set[int], list[Found]]:
        """List the connections of this network namespace that may send data.

        Returns the cookies of all, and a share of them, 0 to 1, which has the same members each time.
        """
        cookies: set[int] = set()
        chosen: list[Found] = []
        limit = hashes_of(share)
        for family in (socket.AF_INET, socket.AF_INET6):
            self._sequence += 1
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _STATES) + bytes(_ID_BYTES) + self._filter
            flags = _NLM_F_REQUEST | _NLM_F_DUMP
            header = (_MESSAGE.size + len(request), _SOCK_DIAG_BY_FAMILY, flags, self._sequence, 0)
            self._send(_MESSAGE.pack(*header) + request)
            while not self._is_last(family, limit, cookies, chosen):
                pass
        return cookies, chosen

    def _is_last(self, family: int, limit: int, cookies: set[int], chosen: list[Found]) -> bool:
        """Read one datagram of a dump, and return whether it ends the dump."""
        end, at = self._receive(), 0
        buffer, unpack, add = self._buffer, _FOUND.unpack_from, cookies.add
        while at < end:
            if at + _FOUND.size > end:
                # The end of the dump, or an error, is a short message of its own.
                self._require_supported(at, end, family)
                return True
            length, kind, own_id, cookie = unpack(buffer, at)
            if kind != _SOCK_DIAG_BY_FAMILY:
                self._require_supported(at, end, family)
                return True
            add(cookie)
            if cookie * _GOLDEN % _HASHES < limit:
                chosen.append(Found(family, own_id + buffer[at + _FOUND.size - 8 : at + _FOUND.size]))
            at += (length + 3) & ~3
        return False

    def _require_supported(self, at: int, end: int, family: int) -> None:
        """Raise ObserveError if the last message of a dump holds an error."""
        number = 0
        if at + _MESSAGE.size + 4 <= end:
            number = -struct.unpack_from("=i", self._buffer, at + _MESSAGE.size)[0]
        # A kernel without IPv6 knows no such family.
        if number <= 0 or (family == socket.AF_INET6 and number in {errno.ENOENT, errno.EINVAL, errno.EAFNOSUPPORT}):
            return
        advice = "; load the module tcp_diag (`modprobe tcp_diag`), or use a kernel with CONFIG_INET_TCP_DIAG"
        raise ObserveError(
            f"expected the list of TCP connections from the kernel's sock_diag, got {os.strerror(number)}"
            + (advice if number in {errno.ENOENT, errno.EPROTONOSUPPORT, errno.EINVAL} else "")
        )

    def look(self, found: Sequence[Found]) -> list[Looked | None]:
        """Read the connections. Returns one answer for each, in their order: None where there is none any more."""
        answers: list[Looked | None] = []
        for begin in range(0, len(found), _BATCH):
            answers += self._look(found[begin : begin + _BATCH])
        return answers

    def _look(self, batch: Sequence[Found]) -> list[Looked | None]:
        first = self._sequence + 1
        self._sequence = (first + len(batch)) % (1 << 31)
        length = _MESSAGE.size + _REQUEST.size + _ID_BYTES
        parts = []
        for number, one in enumerate(batch):
            parts += [
                _MESSAGE.pack(length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, first + number, 0),
                _REQUEST.pack(one.family, socket.IPPROTO_TCP, _EXTENSIONS, 0),
                one.id,
            ]
        self._send(b"".join(parts))
        answers: list[Looked | None] = [None] * len(batch)
        missing = len(batch)
        while missing:
            end = self._receive()
            _, kind, _, sequence, _ = _MESSAGE.unpack_from(self._buffer)
            if not 0 <= sequence - first < len(batch):
                continue
            missing -= 1
            if kind == _SOCK_DIAG_BY_FAMILY:
                answers[sequence - first] = self._looked(end)
        return answers

    def _receive(self) -> int:
        """Receive a datagram into the buffer, and return its length."""
        try:
            return self._socket.recv_into(self._buffer)
        except OSError as error:
            got = f"none within {_TIMEOUT_S} s" if isinstance(error, TimeoutError) else error.strerror
            raise ObserveError(f"expected an answer of the kernel's sock_diag, got {got}") from error

    def _send(self, request: bytes) -> None:
        try:
            self._socket.send(request)
        except OSError as error:
            raise ObserveError(f"expected the kernel's sock_diag to take a request, got {error.strerror}") from error

    def _looked(self, end: int) -> Looked:
        buffer = self._buffer
        parts = {_ATTR_INFO: b"", _ATTR_CONG: b"", _ATTR_VEGASINFO: b"", _ATTR_BBRINFO: b""}
        at = _ATTRIBUTES_AT
        while at + 4 <= end:
            length, kind = struct.unpack_from("=HH", buffer, at)
            if kind in parts:
                parts[kind] = bytes(buffer[at + 4 : at + length])
            at += (length + 3) & ~3 or 4
        algorithm = parts[_ATTR_CONG].rstrip(b"\0").decode("ascii", "replace")
        return Looked(buffer[_STATE_AT], parts[_ATTR_INFO], algorithm, parts[_ATTR_VEGASINFO], parts[_ATTR_BBRINFO])
