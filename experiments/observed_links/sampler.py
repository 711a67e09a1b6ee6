# SPDX-License-Identifier: MIT
"""Samples the sending TCP socket of a network namespace through sock_diag: sampler.py EVERY_S, in that namespace.

It prints a JSON line a sample, [s since 1970, bytes of tcp_info in hex], of the established IPv4 socket that has sent
most. tcp_info is that of include/uapi/linux/tcp.h. The program ends when its standard input is closed. It stands in for
`ccatune observe`, and needs the standard library alone.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator

_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _DUMP = 4, 20, 0x301
_INFO, _ESTABLISHED = 2, 1
_HEADER, _MESSAGE_BYTES, _SENT_BYTES_AT = struct.Struct("=IHHII"), 72, 200


def infos(netlink: socket.socket) -> Iterator[bytes]:
    """Yield tcp_info of each established IPv4 socket."""
    request = struct.pack("=BBBBI48x", socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 1 << _ESTABLISHED)
    netlink.send(_HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _DUMP, 1, 0) + request)
    while True:
        data = netlink.recv(1 << 20)
        while data:
            length, kind, *_ = _HEADER.unpack_from(data)
            if kind != _SOCK_DIAG_BY_FAMILY:  # the end of the dump, or an error
                return
            yield from _attributes(data[_HEADER.size + _MESSAGE_BYTES : length])
            data = data[(length + 3) & ~3 :]


def _attributes(data: bytes) -> Iterator[bytes]:
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if kind == _INFO:
            yield data[4:length]
        data = data[(length + 3) & ~3 :]


def main() -> None:
    """Sample until standard input is closed."""
    every_s = float(sys.argv[1])
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG)
    due_s = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due_s - time.monotonic()))[0]:
        due_s += every_s
        at_s = time.time()
        found = max(infos(netlink), key=lambda info: struct.unpack_from("=Q", info, _SENT_BYTES_AT)[0], default=None)
        if found is not None:
            sys.stdout.write(json.dumps([at_s, found.hex()]) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
