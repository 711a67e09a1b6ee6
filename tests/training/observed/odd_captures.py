# SPDX-License-Identifier: MIT
"""Damaged and odd captures: each with the words of the error or of the remark that it must give, or with its flows."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
from collections.abc import Callable
from dataclasses import dataclass

import dpkt

from tests.training.observed.made import CLIENT6, MSS, SERVER6, End, Frames, Talk, pcap
from training.observed.captures import Capture
from training.observed.flow import Flow, Limit

PACKETS = 40  # of plain(), in four rounds


def delivers_all(flow: Flow) -> bool:
    """The flow is that of plain()."""
    assert flow.sends is not None
    return (
        int(flow.steps["delivered_bytes"][-1]) == PACKETS * MSS
        and len(flow.sends) == PACKETS
        and not flow.sends["retransmission"].any()
        and flow.vantage == "sender"
        and abs(flow.min_rtt_us - 40_000) < 10
    )


@dataclass(frozen=True)
class Odd:
    """error, remark: words of it. flows: of the capture. holds: what the first flow must show."""

    data: bytes
    error: str = ""
    remark: str = ""
    flows: int = 1
    holds: Callable[[Flow], bool] = delivers_all
    suffix: str = ".pcap"


def plain(**ends: End) -> Talk:
    """A request, and four rounds of ten packets."""
    talk = Talk(**ends)
    talk.open()
    talk.request(0.05)
    talk.rounds(0.0501)
    return talk


def capture_words(capture: Capture) -> str:
    """All remarks of a capture and its flows."""
    return " ".join([*capture.remarks, *(word for flow in capture.flows for word in flow.remarks)])


def _relinked(frames: Frames, header: bytes, link_type: int) -> bytes:
    """The frames with another link's header in the place of Ethernet's."""
    return pcap([(at_s, header + frame[14:]) for at_s, frame in frames], link_type=link_type)


def _big_endian(data: bytes) -> bytes:
    out = struct.pack(">IHHIIII", *struct.unpack("<IHHIIII", data[:24]))
    at = 24
    while at < len(data):
        head = struct.unpack_from("<IIII", data, at)
        out += struct.pack(">IIII", *head) + data[at + 16 : at + 16 + head[2]]
        at += 16 + head[2]
    return out


def _block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def _pcapng(frames: Frames, *, simple: bool = False, offset_s: int = 0) -> bytes:
    """Two interfaces, by turns: Ethernet in us, and raw IP in ns. offset_s: of the clock of the first."""
    out = _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += _block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHqHH", 14, 8, offset_s, 0, 0))
    out += _block(1, struct.pack("<HHI", 101, 0, 0) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0))
    for number, (at_s, frame) in enumerate(frames):
        if simple:
            out += _block(3, struct.pack("<I", len(frame)) + frame)
            continue
        raw, units_per_s = (frame[14:], 10**9) if number % 2 else (frame, 10**6)
        time = round((1_700_000_000 + at_s) * 10**6) * units_per_s // 10**6
        head = struct.pack("<IIIII", number % 2, time >> 32, time & 0xFFFFFFFF, len(raw), len(raw))
        out += _block(6, head + raw)
    return out


def _by_dpkt(frames: Frames) -> bytes:
    file = io.BytesIO()
    writer = dpkt.pcapng.Writer(file)
    for at_s, frame in frames:
        writer.writepkt(frame, 1_700_000_000 + at_s)
    return file.getvalue()


def _with_extension(frames: Frames) -> Frames:
    """IPv6 with a destination-options header before TCP."""
    out = []
    for at_s, frame in frames:
        length = struct.unpack_from("!H", frame, 18)[0] + 8
        head = frame[:18] + struct.pack("!HB", length, 60) + frame[21:54]
        out.append((at_s, head + b"\x06\x00\x01\x04\x00\x00\x00\x00" + frame[54:]))
    return out


def _cut(frames: Frames, kept_bytes: int) -> bytes:
    data = pcap(frames)
    out, at = data[:24], 24
    while at < len(data):
        head = struct.unpack_from("<IIII", data, at)
        kept = min(head[2], kept_bytes)
        out += struct.pack("<IIII", head[0], head[1], kept, head[3]) + data[at + 16 : at + 16 + kept]
        at += 16 + head[2]
    return out


def _without(frames: Frames, keep: Callable[[int, dpkt.tcp.TCP], bool]) -> Frames:
    return [(at_s, frame) for n, (at_s, frame) in enumerate(frames) if keep(n, dpkt.ethernet.Ethernet(frame).data.data)]


def _offloaded() -> Talk:
    talk = Talk()
    talk.open()
    talk.request(0.05)
    talk.rounds(0.0501, packets=1, size=10 * MSS)
    return talk


def _lossy(*, needless: bool = False, stamps: bool = True) -> Talk:
    """A packet of a round is retransmitted, because it was lost, or because its ACK was late."""
    talk = plain(server=End(b"\x0a\x00\x00\x01", 80, 1000, stamps), client=End(b"\x0a\x00\x00\x02", 9, 5000, stamps))
    seq, at_s = talk.server.next_seq, 0.5
    for n in range(10):
        talk.send(at_s, by=talk.server, seq=seq + n * MSS, ack=talk.client.next_seq, payload=MSS)
    rest = [] if needless else [(seq + MSS, seq + 10 * MSS)]
    if not needless:
        talk.send(at_s + 0.04, by=talk.client, seq=talk.client.next_seq, ack=seq, blocks=rest, echo_s=at_s)
    talk.send(at_s + 0.05, by=talk.server, seq=seq, ack=talk.client.next_seq, payload=MSS)
    echo_s = at_s if needless else at_s + 0.05
    talk.send(at_s + 0.09, by=talk.client, seq=talk.client.next_seq, ack=seq + 10 * MSS, echo_s=echo_s)
    return talk


def _shows_loss(lost: int) -> Callable[[Flow], bool]:
    def holds(flow: Flow) -> bool:
        assert flow.sends is not None
        sends, steps = flow.sends, flow.steps
        return (
            (int(sends["retransmission"].sum()), int(sends["lost"].sum()), int(steps["lost_pkts"][-1])) == (1, lost, 1)
            and int(steps["delivered_bytes"][-1]) == (PACKETS + 10) * MSS
            and int(steps["inflight_bytes"][-1]) == 0
        )  # fmt: skip

    return holds


def _at_receiver() -> Talk:
    """The round trip is on the other side, and the lost packet was not seen."""
    talk = Talk()
    talk.open(rtt_s=0.0401)
    talk.frames = [(at_s if n == 0 else 0.04 + at_s / 1000, frame) for n, (at_s, frame) in enumerate(talk.frames)]
    talk.request(0.041)
    for n in range(20):
        at_s, seq = 0.081 + n * 0.04, talk.server.next_seq
        if n != 5:
            talk.send(at_s, by=talk.server, seq=seq, ack=talk.client.next_seq, payload=MSS, echo_s=at_s - 0.04)
        else:
            talk.send(at_s, by=talk.server, seq=seq + MSS, ack=talk.client.next_seq, payload=MSS, echo_s=at_s - 0.04)
            talk.send(at_s + 0.03, by=talk.server, seq=seq, ack=talk.client.next_seq, payload=MSS)
            talk.server.next_seq += MSS
        talk.server.next_seq += MSS
        talk.send(at_s + 0.0305, by=talk.client, seq=talk.client.next_seq, ack=talk.server.next_seq, echo_s=at_s)
    return talk


def _with_keepalives() -> Talk:
    talk = plain()
    for at_s in (10.0, 20.0):
        talk.send(at_s, by=talk.server, seq=talk.server.next_seq - 1, ack=talk.client.next_seq, payload=1)
        talk.send(at_s + 0.04, by=talk.client, seq=talk.client.next_seq, ack=talk.server.next_seq)
    return talk


def _with_closed_window() -> Talk:
    talk = plain()
    at_s, ack = 0.3, talk.server.next_seq
    talk.send(at_s, by=talk.server, seq=ack, ack=talk.client.next_seq, payload=MSS)
    talk.send(at_s + 0.04, by=talk.client, seq=talk.client.next_seq, ack=ack + MSS, window=0)
    talk.send(at_s + 1, by=talk.server, seq=ack + MSS, ack=talk.client.next_seq, payload=1)  # a probe
    talk.send(at_s + 1.04, by=talk.client, seq=talk.client.next_seq, ack=ack + MSS, window=500)
    talk.send(at_s + 1.05, by=talk.server, seq=ack + MSS, ack=talk.client.next_seq, payload=MSS)
    talk.send(at_s + 1.09, by=talk.client, seq=talk.client.next_seq, ack=ack + 2 * MSS, window=500)
    return talk


def _is_limited_by_receiver(flow: Flow) -> bool:
    return Limit.RECEIVER in flow.steps["limit"] and int(flow.steps["lost_pkts"][-1]) == 0


def _reused() -> Frames:
    first, second = plain(), plain(client=End(b"\x0a\x00\x00\x02", 40000, 900_000))
    return [*first.frames, *((at_s + 60, frame) for at_s, frame in second.frames)]


def _proxied() -> Frames:
    """A proxy at 10.0.0.1 is a client of 10.0.0.9 and a server of 10.0.0.2."""
    own, other = plain(), plain(server=End(b"\x0a\x00\x00\x09", 80, 7000), client=End(b"\x0a\x00\x00\x01", 555, 8000))
    return sorted(own.frames + other.frames)


def _disordered(frames: Frames) -> Frames:
    return [frames[n ^ 1] if n ^ 1 < len(frames) else frames[n] for n in range(len(frames))]


def _udp() -> Frames:
    ip = dpkt.ip.IP(src=b"\x0a\x00\x00\x01", dst=b"\x0a\x00\x00\x02", p=17, data=dpkt.udp.UDP(data=b"x" * 40), len=68)
    return [(0.0, bytes(dpkt.ethernet.Ethernet(type=0x0800, data=ip)))] * 3


def _fragmented(frames: Frames) -> Frames:
    """One more packet comes as a fragment."""
    at_s, frame = frames[10]
    return [*frames, (at_s + 1, frame[:20] + b"\x20\x00" + frame[22:])]


def odd_captures() -> dict[str, Odd]:
    """All of them, by what is odd."""
    frames = plain().frames
    data = pcap(frames)
    tagged = [(at_s, f[:12] + b"\x88\xa8\x00\x01\x81\x00\x00\x02" + f[12:]) for at_s, f in frames]
    six = plain(server=End(SERVER6, 80, 1000), client=End(CLIENT6, 40000, 5000)).frames
    wrapping = plain(server=End(b"\x0a\x00\x00\x01", 80, 2**32 - 10 * MSS)).frames
    ipv4 = _relinked(frames, b"", 101)
    return {
        "empty file": Odd(b"", error="got an empty file"),
        "no packets": Odd(data[:24], error="got no packet"),
        "cut header": Odd(data[:15], error="expected a pcap header of 24 bytes, got 15"),
        "log of ss": Odd(b"State Recv-Q Send-Q\nESTAB 0 0\n", error="got text, perhaps a log", suffix=".pcap"),
        "other data": Odd(bytes(range(128, 228)), error="got other data"),
        "zstd": Odd(b"\x28\xb5\x2f\xfd" + bytes(40), error="zstd archive: unpack it first"),
        "xz": Odd(lzma.compress(data), suffix=".pcap.xz"),
        "gzip with a wrong name": Odd(gzip.compress(data), suffix=".txt"),
        "cut archive": Odd(gzip.compress(data)[:-300], remark="cut off or damaged after", holds=lambda _: True),
        "cut at once": Odd(gzip.compress(data)[:12], error="cut off before its first packet"),
        "cut record": Odd(data[:-20], remark="ends within a record", holds=lambda _: True),
        "damaged record": Odd(data[:-1000] + b"\xff" * 1000, remark="damaged after", holds=lambda _: True),
        "big-endian": Odd(_big_endian(data)),
        "nanoseconds": Odd(pcap(frames, nano=True)),
        "pcapng": Odd(_by_dpkt(frames)),
        "pcapng of two interfaces": Odd(_pcapng(frames)),
        "pcapng without times": Odd(_pcapng(frames, simple=True), error="expected packets with times"),
        "pcapng with impossible times": Odd(_pcapng(frames, offset_s=-(2**62)), error="damaged before its first"),
        "QinQ": Odd(pcap(tagged)),
        "cooked": Odd(_relinked(frames, bytes(14) + b"\x08\x00", 113)),
        "cooked, version 2": Odd(_relinked(frames, b"\x08\x00" + bytes(18), 276)),
        "raw IP": Odd(ipv4),
        "loopback": Odd(_relinked(frames, b"\x02\x00\x00\x00", 0)),
        "IPv6": Odd(pcap(six)),
        "IPv6 with an extension": Odd(pcap(_with_extension(six))),
        "Wi-Fi": Odd(pcap(frames, link_type=105), error="link type 105, which is not supported"),
        "UDP": Odd(pcap(_udp()), error="expected TCP connections, got 3 packets of UDP"),
        "fragments": Odd(pcap(_fragmented(frames)), remark="1 packet of IP fragments"),
        "cut options": Odd(_cut(frames, 58), remark="cut the TCP options"),
        "cut headers": Odd(_cut(frames, 40), error="cut off within their headers"),
        "starts in the middle": Odd(pcap(frames[15:]), remark="starts in the middle", holds=lambda _: True),
        "drops packets": Odd(pcap(_without(frames, lambda n, _: n not in {8, 9})), holds=lambda _: True,
                             remark=f"{2 * MSS} bytes of data are missing"),
        "one direction": Odd(pcap(_without(frames, lambda _, tcp: tcp.sport == 80)), error="ACKs were not captured"),
        "offload": Odd(pcap(_offloaded().frames), remark="4 captured segments longer than a packet (offload)"),
        "sequence numbers wrap": Odd(pcap(wrapping)),
        "captured twice": Odd(pcap([f for f in frames for _ in (0, 1)]), remark="captured twice"),
        "a loss": Odd(pcap(_lossy().frames), holds=_shows_loss(1)),
        "a loss without timestamps": Odd(pcap(_lossy(stamps=False).frames), holds=_shows_loss(1)),
        "a needless retransmission": Odd(pcap(_lossy(needless=True).frames), holds=_shows_loss(0)),
        "at the receiver": Odd(pcap(_at_receiver().frames), remark="made at the receiver", holds=_is_at_receiver),
        "keep-alives": Odd(pcap(_with_keepalives().frames)),
        "closed window": Odd(pcap(_with_closed_window().frames), holds=_is_limited_by_receiver),
        "a port is used again": Odd(pcap(_reused()), flows=2),
        "a proxy": Odd(pcap(_proxied()), flows=2),
        "disorder": Odd(pcap(_disordered(frames)), remark="out of the order of their times", holds=lambda _: True),
    }  # fmt: skip


def _is_at_receiver(flow: Flow) -> bool:
    return (
        flow.vantage == "receiver"
        and "inflight_bytes" not in flow.has
        and int(flow.steps["lost_pkts"][-1]) == 1
        and abs(flow.min_rtt_us - 40_000) < 2000
    )
