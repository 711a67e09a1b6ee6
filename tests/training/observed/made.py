# SPDX-License-Identifier: MIT
"""Captures that a test makes: frames by dpkt, and transfers of the simulator's sender over a path of the test."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import dpkt

from tests.emulation.engine.path import Meets
from tests.emulation.engine.path import Path as NetworkPath

SERVER, CLIENT = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
SERVER6, CLIENT6 = b"\xfd" + bytes(14) + b"\x01", b"\xfd" + bytes(14) + b"\x02"
MSS = 1448
START_S = 1_700_000_000
SYN, ACK, PSH = dpkt.tcp.TH_SYN, dpkt.tcp.TH_ACK, dpkt.tcp.TH_PUSH
Frames = list[tuple[float, bytes]]  # time in s and an Ethernet frame


@dataclass
class End:
    """One end of a connection. next_seq: of its next byte. stamps: whether it sends timestamps."""

    address: bytes
    port: int
    next_seq: int = 1
    stamps: bool = True
    ip_id: int = 0


@dataclass
class Talk:
    """A connection of a server, which sends, with a client. Frames are as Ethernet carries them."""

    server: End = field(default_factory=lambda: End(SERVER, 80, next_seq=1000))
    client: End = field(default_factory=lambda: End(CLIENT, 40000, next_seq=5000))
    frames: Frames = field(default_factory=list)

    def send(
        self, at_s: float, *, by: End, seq: int, ack: int, flags: int = ACK, payload: int = 0,
        blocks: Sequence[tuple[int, int]] = (), echo_s: float = 0.0, window: int = 65535, options: bytes = b"",
    ) -> None:  # fmt: skip
        """Add a packet. echo_s: when the packet was sent whose timestamp it echoes."""
        to = self.client if by is self.server else self.server
        opts = options
        if by.stamps:
            opts += b"\x01\x01\x08\x0a" + struct.pack("!II", 1 + int(at_s * 1000), 1 + int(echo_s * 1000))
        if blocks:
            opts += b"\x01\x01\x05" + bytes([2 + 8 * len(blocks)])
            opts += b"".join(struct.pack("!II", left % 2**32, right % 2**32) for left, right in blocks)
        tcp = dpkt.tcp.TCP(
            sport=by.port, dport=to.port, seq=seq % 2**32, ack=ack % 2**32, flags=flags, win=window, opts=opts,
            off=5 + len(opts) // 4, data=bytes(payload),
        )  # fmt: skip
        by.ip_id += 1
        if len(by.address) == 16:
            ip = dpkt.ip6.IP6(src=by.address, dst=to.address, nxt=6, plen=len(tcp), data=tcp)
            self.frames.append((at_s, bytes(dpkt.ethernet.Ethernet(type=0x86DD, data=ip))))
            return
        ip = dpkt.ip.IP(src=by.address, dst=to.address, p=6, id=by.ip_id % 65536, len=20 + len(tcp), data=tcp, sum=1)
        self.frames.append((at_s, bytes(dpkt.ethernet.Ethernet(type=0x0800, data=ip))))

    def open(self, at_s: float = 0.0, *, rtt_s: float = 0.04, scale: int = 7) -> None:
        """The handshake, as the server sees it."""
        syn = b"\x02\x04\x05\xb4" + b"\x01\x03\x03" + bytes([scale])
        self.send(at_s, by=self.client, seq=self.client.next_seq - 1, ack=0, flags=SYN, options=syn)
        self.send(at_s + 1e-4, by=self.server, seq=self.server.next_seq - 1, ack=self.client.next_seq,
                  flags=SYN | ACK, options=syn)  # fmt: skip
        self.send(at_s + rtt_s, by=self.client, seq=self.client.next_seq, ack=self.server.next_seq)

    def request(self, at_s: float) -> None:
        """The client asks, and acknowledges all."""
        self.send(at_s, by=self.client, seq=self.client.next_seq, ack=self.server.next_seq, flags=ACK | PSH, payload=8)
        self.client.next_seq += 8

    def rounds(self, at_s: float, *, count: int = 4, packets: int = 10, rtt_s: float = 0.04, size: int = MSS) -> float:
        """Send rounds of packets, each one acknowledged after a round trip. Returns when the last ACK came."""
        for _ in range(count):
            for _ in range(packets):
                self.send(at_s, by=self.server, seq=self.server.next_seq, ack=self.client.next_seq, payload=size)
                self.server.next_seq += size
            self.send(at_s + rtt_s, by=self.client, seq=self.client.next_seq, ack=self.server.next_seq, echo_s=at_s)
            at_s += rtt_s + 1e-4
        return at_s - 1e-4


def talk_over(network: NetworkPath, talk: Talk, *, at_s: float = 0.1) -> Talk:
    """The frames of a run of the simulator's sender, captured at the sender."""
    sent = [(ms, seq) for ms, seq, _ in network.sent]
    # Packets answer the ACK of the same time.
    events = sorted(
        [(ms, 1, seq) for ms, seq in sent] + [(ms, 0, ack) for ms, ack in network.acks], key=lambda e: e[:2]
    )
    base = talk.server.next_seq
    for ms, kind, what in events:
        now_s = at_s + ms / 1000
        if kind:
            talk.send(now_s, by=talk.server, seq=base + what * MSS, ack=talk.client.next_seq, payload=MSS)
            talk.server.next_seq = max(talk.server.next_seq, base + (what + 1) * MSS)
            continue
        blocks = [(base + first * MSS, base + last * MSS) for first, last in what.blocks[:3]]
        echo_s = at_s + sent[what.echo_tx][0] / 1000
        talk.send(now_s, by=talk.client, seq=talk.client.next_seq, ack=base + what.cumulative * MSS, blocks=blocks,
                  echo_s=echo_s)  # fmt: skip
    return talk


def policer(rate_mbps: float, bucket_bytes: float) -> Meets:
    """A path with a policer of IP packets."""
    state = {"tokens": float(bucket_bytes), "at_ns": 0}

    def meets(_packet: object, now_ns: int) -> float | None:
        gained = (now_ns - state["at_ns"]) * rate_mbps / 8e3
        state["tokens"], state["at_ns"] = min(bucket_bytes, state["tokens"] + gained), now_ns
        if state["tokens"] < MSS + 52:
            return None
        state["tokens"] -= MSS + 52
        return 0.0

    return meets


def queue(rate_mbps: float, packets: float, *, drops: Meets = lambda _packet, _now_ns: 0.0) -> Meets:
    """A drop-tail queue. drops: what is lost before it; its queueing delay in ms is in the packet's place."""
    state = {"free_ns": 0}
    packet_ns = (MSS + 52) * 8e3 / rate_mbps

    def meets(_packet: object, now_ns: int) -> float | None:
        waiting_ns = max(state["free_ns"] - now_ns, 0)
        if waiting_ns > packets * packet_ns or drops(waiting_ns / 1e6, now_ns) is None:
            return None
        state["free_ns"] = now_ns + waiting_ns + packet_ns
        return (waiting_ns + packet_ns) / 1e6

    return meets


def pcap(frames: Iterable[tuple[float, bytes]], *, link_type: int = 1, nano: bool = False) -> bytes:
    """A pcap file."""
    file = io.BytesIO()
    writer = dpkt.pcap.Writer(file, snaplen=65535, linktype=link_type, nano=nano)
    for at_s, frame in frames:
        writer.writepkt(frame, START_S + at_s)
    return file.getvalue()


def write(path: Path, frames: Iterable[tuple[float, bytes]]) -> Path:
    """Write a pcap file."""
    path.write_bytes(pcap(frames))
    return path
