# SPDX-License-Identifier: MIT
"""Reads the records of a capture: pcap and pcapng, also within gzip or xz, recognised by content and not by name.

    pcap      a header of 24 bytes, then records: seconds, fraction, bytes kept, bytes on the wire, the bytes
    pcapng    blocks; those of packets name an interface, which has its own link type and clock

This module reads the files itself, because dpkt's reader of pcapng uses the first interface's link type and clock for
all of them, gives no length on the wire, and does not report a record that was cut off.
"""

from __future__ import annotations

import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from training.errors import TrainingError

_BUFFER_BYTES = 1 << 20
_MOST_RECORD_BYTES = 1 << 24  # a longer record means that the file is damaged
_MOST_TIME_US = 1 << 62
_PCAP = {  # magic: byte order, fractions of a second
    b"\xa1\xb2\xc3\xd4": (">", 10**6), b"\xd4\xc3\xb2\xa1": ("<", 10**6),
    b"\xa1\xb2\x3c\x4d": (">", 10**9), b"\x4d\x3c\xb2\xa1": ("<", 10**9),
}  # fmt: skip
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_REFUSED = {
    b"\x28\xb5\x2f\xfd": "a zstd archive: unpack it first",
    b"BZh": "a bzip2 archive: unpack it first",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\xa1\xb2\xcd\x34": "a modified pcap file of Kuznetzov's libpcap: convert it with editcap",
    b"\x34\xcd\xb2\xa1": "a modified pcap file of Kuznetzov's libpcap: convert it with editcap",
    b"\x54\x52\x53\x4e": "a snoop file: convert it with editcap",
}
_INTERFACE, _PACKET, _SIMPLE, _STATISTICS, _ENHANCED = 1, 2, 3, 5, 6
_OPTION_RESOLUTION, _OPTION_OFFSET, _OPTION_DROPPED = 9, 14, 5


class Record(NamedTuple):
    """A captured frame. time_us: since 1970. link_type: LINKTYPE_ of the frame. wire_bytes: before it was cut."""

    time_us: int
    link_type: int
    wire_bytes: int
    frame: bytes


class _Interface(NamedTuple):
    link_type: int
    units_per_s: int
    offset_s: int


class _Archive(io.RawIOBase):
    """What an archive of gzip or xz holds, up to where it is cut off or damaged."""

    def __init__(self, file: BinaryIO, make: Callable[[], Any]) -> None:
        self._file, self._make = file, make
        self._unpacker = make()
        self._ready = b""
        self.is_cut = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            packed = self._unpacker.unused_data if self._unpacker.eof else b""
            packed = packed or self._file.read(_BUFFER_BYTES)
            if not packed:
                self.is_cut |= not self._unpacker.eof
                return 0
            if self._unpacker.eof:  # several archives after each other
                self._unpacker = self._make()
            try:
                self._ready = self._unpacker.decompress(packed)
            except (lzma.LZMAError, zlib.error):
                self.is_cut = True
                return 0
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def _unpacked(file: BinaryIO) -> _Archive | None:
    """The content of an archive; None: the file is none."""
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return _Archive(file, lambda: zlib.decompressobj(wbits=31))
    return _Archive(file, lzma.LZMADecompressor) if magic == b"\xfd7zXZ\x00" else None


class CaptureFile:
    """The records of a file, as an iterator. After it ended, `remarks` names what was damaged or dropped.

    Raises TrainingError for a file that is no capture, or that cannot be read at all.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remarks: list[str] = []
        self.records = 0

    def __iter__(self) -> Iterator[Record]:
        try:
            with self.path.open("rb") as raw:
                archive = _unpacked(raw)
                file = raw if archive is None else io.BufferedReader(archive, _BUFFER_BYTES)
                yield from self._records(file, packed=archive is not None)
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if archive is not None and archive.is_cut and self.records:
            self.remarks.append(f"The archive is cut off or damaged after {self.records} packets.")

    def _records(self, file: BinaryIO, *, packed: bool) -> Iterator[Record]:
        magic = file.read(4)
        if not magic:
            got = "an archive that is cut off before its first packet" if packed else "an empty file"
            raise TrainingError(f"{self.path}: expected a capture, got {got}")
        if magic in _PCAP:
            return self._of_pcap(file, *_PCAP[magic])
        if magic == _PCAPNG:
            return self._of_pcapng(file)
        for start, words in _REFUSED.items():
            if magic.startswith(start):
                raise TrainingError(f"{self.path}: expected a capture (pcap or pcapng), got {words}")
        kind = "text, perhaps a log" if magic.isascii() else "other data"
        raise TrainingError(f"{self.path}: expected a capture (pcap or pcapng, also within gzip or xz), got {kind}")

    def _of_pcap(self, file: BinaryIO, order: str, units_per_s: int) -> Iterator[Record]:
        head = file.read(20)
        if len(head) < 20:
            raise TrainingError(f"{self.path}: expected a pcap header of 24 bytes, got {4 + len(head)}")
        link_type = struct.unpack(order + "I", head[16:])[0] & 0xFFFF  # above: the length of a frame's check sum
        unpack, per_us = struct.Struct(order + "IIII").unpack, units_per_s // 10**6
        while head := file.read(16):
            if len(head) < 16:
                return self._ends_early()
            seconds, fraction, kept_bytes, wire_bytes = unpack(head)
            if kept_bytes > _MOST_RECORD_BYTES or fraction >= units_per_s:
                return self._damaged()
            frame = file.read(kept_bytes)
            if len(frame) < kept_bytes:
                return self._ends_early()
            self.records += 1
            yield Record(seconds * 10**6 + fraction // per_us, link_type, wire_bytes, frame)
        return None

    def _of_pcapng(self, file: BinaryIO) -> Iterator[Record]:
        order, kind, interfaces, body = "<", _PCAPNG, list[_Interface](), b""
        head = _PCAPNG + file.read(4)
        while head:
            if len(head) < 8:
                return self._ends_early()
            kind = head[:4]
            if kind == _PCAPNG:  # a section, with its own byte order and interfaces
                mark = file.read(4)
                order = ">" if mark == b"\x1a\x2b\x3c\x4d" else "<"
                interfaces = []
            else:
                mark = b""
            (total_bytes,) = struct.unpack(order + "I", head[4:])
            if not 12 + len(mark) <= total_bytes <= _MOST_RECORD_BYTES or total_bytes % 4:
                return self._damaged()
            body = file.read(total_bytes - 8 - len(mark))
            if len(body) < total_bytes - 8 - len(mark):
                return self._ends_early()
            (number,) = struct.unpack(order + "I", kind)
            if number == _INTERFACE:
                interfaces.append(_interface(body, order))
            elif number == _STATISTICS:
                self._note_dropped(_options(body[12:-4], order).get(_OPTION_DROPPED), order)
            elif number == _SIMPLE:
                raise TrainingError(f"{self.path}: expected packets with times, got simple packet blocks without")
            elif number in {_ENHANCED, _PACKET}:
                record = _packet(number, body, order, interfaces)
                if record is None:
                    return self._damaged()
                self.records += 1
                yield record
            head = file.read(8)
        return None

    def _ends_early(self) -> None:
        self.remarks.append(f"The file ends within a record, after {self.records} whole packets.")

    def _damaged(self) -> None:
        if not self.records:
            raise TrainingError(f"{self.path}: the capture is damaged before its first packet")
        self.remarks.append(f"The file is damaged after {self.records} packets, and its rest was left out.")

    def _note_dropped(self, value: bytes | None, order: str) -> None:
        dropped = struct.unpack(order + "Q", value)[0] if value and len(value) == 8 else 0
        if dropped:
            self.remarks.append(f"The capturing program reports that it dropped {dropped} packets.")


def _options(data: bytes, order: str) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(data):
        code, size = struct.unpack_from(order + "HH", data, at)
        if not code:
            break
        found[code] = data[at + 4 : at + 4 + size]
        at += 4 + (size + 3) // 4 * 4
    return found


def _interface(body: bytes, order: str) -> _Interface:
    (link_type,) = struct.unpack_from(order + "H", body)
    options = _options(body[8:-4], order)
    resolution = (options.get(_OPTION_RESOLUTION) or b"\x06")[0]
    units_per_s = 1 << (resolution & 127) if resolution & 128 else 10**resolution
    offset = options.get(_OPTION_OFFSET, b"")
    offset_s = struct.unpack(order + "q", offset)[0] if len(offset) == 8 else 0
    return _Interface(link_type, units_per_s, offset_s)


def _packet(number: int, body: bytes, order: str, interfaces: list[_Interface]) -> Record | None:
    """The record of a packet's block; None if the block is damaged."""
    if len(body) < 24:
        return None
    index, high, low, kept_bytes, wire_bytes = struct.unpack_from(order + "IIIII", body)
    if number == _PACKET:  # 16 bits of drops follow 16 bits of the interface
        (index,) = struct.unpack_from(order + "H", body)
    if index >= len(interfaces) or kept_bytes > len(body) - 24:
        return None
    interface = interfaces[index]
    time_us = (high << 32 | low) * 10**6 // interface.units_per_s + interface.offset_s * 10**6
    if not 0 <= time_us < _MOST_TIME_US:
        return None
    return Record(time_us, interface.link_type, wire_bytes, body[20 : 20 + kept_bytes])
