# SPDX-License-Identifier: MIT
"""Samples of single ACKs, from a BPF program in the kernel (kmod/bpf/acks.bpf.c).

`ccatune-bpf acks` attaches the program, and returns its samples on request. However this process ends, `ccatune-bpf`
ends with it, because its standard input closes. The kernel then removes the program. Layouts: kmod/bpf/acks.h.
"""

from __future__ import annotations

import contextlib
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from kmod.bpf_host import PROGRAM, find_program
from serving.agent.errors import ObserveError
from serving.agent.observe.diag import Found, hashes_of

_HEAD = struct.Struct("=QQQQ")
_COMMAND = struct.Struct("=QQ")
# Time, cookie, and the columns up to ca_state; the last RTT; the connection's id without its cookie, its family and
# its algorithm.
_RECORD = struct.Struct("=5Q13I4xQI4x3Q2I40sB7x16s")
_RATE = 16  # among the columns
_DRAIN, _REFUSE = 0, 1
# The kernel's verifier delays the start, and a busy machine delays both.
_START_S, _ANSWER_S = 60.0, 10.0
_LEAST_RING_BYTES, _MOST_RING_BYTES = 1 << 16, 1 << 28
_HEAD_OF_RECORD_BYTES = 8  # in the ring
_WITHOUT: Final = "without --acks (`acks` in the settings file) no BPF is needed"


class Ack(NamedTuple):
    """A connection after an ACK. time_us: of CLOCK_MONOTONIC. columns: kmod's COLUMNS from the first to ca_state."""

    time_us: int
    cookie: int
    columns: tuple[int, ...]
    last_rtt_us: int
    id: bytes
    family: int
    name: bytes

    @property
    def found(self) -> Found:
        """The connection as a list of connections has it."""
        return Found(self.family, self.id + self.cookie.to_bytes(8, sys.byteorder))

    @property
    def algorithm(self) -> str:
        """The name of its congestion control."""
        return self.name.split(b"\0")[0].decode("ascii", "replace")


def _ack(values: tuple[int, ...]) -> Ack:
    columns = list(values[2:24])
    # As row_of() does.
    columns[_RATE] = int(float(f"{columns[_RATE]:.3g}"))
    last_rtt_us, own_id, family, name = values[24:]
    return Ack(values[0], values[1], tuple(columns), last_rtt_us, own_id, family, name)  # type: ignore[arg-type]


class Acks:
    """The running program. One thread may use it. All methods raise ObserveError if the program fails.

    over_limit, lost: ACKs that were not sampled since the start, by cause, as of the last `drain`.
    """

    def __init__(self, *, share: float, most_per_s: int, every_s: float, ports: Sequence[int] = ()) -> None:
        """Start it. share: of the connections, over 0 to 1. every_s: about the time between two calls of `drain`.

        most_per_s: most samples in a second; further ACKs are not sampled. ports: local ports, none for all.
        """
        self.over_limit = self.lost = 0
        program = find_program()
        if program is None:
            raise ObserveError(
                f"expected the program {PROGRAM} for samples of ACKs, found none; install the package {PROGRAM}, or "
                f"build it with `make bpf`; {_WITHOUT}"
            )
        needed_bytes = 2 * most_per_s * every_s * (_RECORD.size + _HEAD_OF_RECORD_BYTES)
        ring_bytes = min(max(1 << int(needed_bytes).bit_length(), _LEAST_RING_BYTES), _MOST_RING_BYTES)
        numbers = [hashes_of(share) - 1, most_per_s, ring_bytes, *ports]
        # In a session of its own: a Ctrl-C at the terminal must not end it before the last samples are read.
        self._process = subprocess.Popen(
            [str(program), "acks", *map(str, numbers)], bufsize=0, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            self._answer(_START_S)
        except ObserveError:
            self.close()
            raise

    def close(self) -> None:
        """End the program, and wait until it has ended."""
        process = self._process
        process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.communicate()

    def drain(self) -> list[Ack]:
        """Return the samples since the last call, by time."""
        self._command(_DRAIN, 0)
        return sorted(map(_ack, _RECORD.iter_unpack(self._answer(_ANSWER_S))))

    def refuse(self, cookie: int) -> None:
        """Take no more samples of a connection."""
        self._command(_REFUSE, cookie)

    def _command(self, kind: int, cookie: int) -> None:
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        try:
            self._process.stdin.write(_COMMAND.pack(kind, cookie))
        except BrokenPipeError as error:
            raise self._ended() from error

    def _answer(self, limit_s: float) -> bytes:
        until_s = time.monotonic() + limit_s
        records, record_bytes, self.over_limit, self.lost = _HEAD.unpack(self._read(_HEAD.size, until_s))
        if record_bytes != _RECORD.size:
            raise ObserveError(
                f"{PROGRAM}: expected records of {_RECORD.size} bytes, got {record_bytes}; install the version that "
                f"belongs to this agent; {_WITHOUT}"
            )
        return self._read(records * record_bytes, until_s)

    def _read(self, wanted: int, until_s: float) -> bytes:
        pipe = self._process.stdout
        assert pipe is not None  # noqa: S101 - for the type checker
        parts = bytearray()
        while len(parts) < wanted:
            if not select.select([pipe], [], [], max(0.0, until_s - time.monotonic()))[0]:
                raise ObserveError(f"{PROGRAM}: expected an answer in time, got none")
            piece = pipe.read(wanted - len(parts))
            if not piece:
                raise self._ended()
            parts += piece
        return bytes(parts)

    def _ended(self) -> ObserveError:
        """Return the error of a program that ended by itself."""
        assert self._process.stderr is not None  # noqa: S101 - for the type checker
        said = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        why = said[-1].removeprefix(f"{PROGRAM}: ") if said else f"exit status {self._process.wait()}"
        return ObserveError(f"{PROGRAM}: expected samples of ACKs, it ended: {why}; {_WITHOUT}")
