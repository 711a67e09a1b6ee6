# SPDX-License-Identifier: MIT
"""Makes token-bucket policers in a network namespace with nftables, counted per flow: policer.py PLAN RESULT SIDE.

A packet with data takes a token from its bucket and passes. It is dropped if the bucket is empty. Tokens arrive evenly
at rate_pkts_per_day. The bucket holds bucket_pkts tokens and is full at first.

nftables can limit bytes or packets. Measurements with bursts at line rate showed that their buckets differ:

    limit rate over R bytes/second burst M bytes    holds R + M bytes, so at least the tokens of a second
    limit rate over N/day burst P packets           holds P packets for any N

The policers limit packets, because this allows buckets of any size, and because each packet then counts the same. This
agrees with the simulator, where each packet has 1500 bytes. The rate is per day because N has to be an integer.
R is thus exact to one packet per day, and the interval between tokens to one nanosecond.

Packets without data are neither policed nor counted. Flow n consists of the packets from source port `port` + n, so its
ACKs are not part of it.

The program makes the rules, prints `ready`, reads the time of the beginning (s since 1970), and writes into RESULT

    {"names": [name of counter...], "rows": [[s since the beginning, packets...]...]}

`in_E_n` counts the packets of flow n that arrived at the policer of the path's element E, `out_E_n` those that passed.
The plan is {"port", "duration_s", "sample_s", "flows", SIDE: [policer...]}, and a policer is

    {"at": E, "rate_pkts_per_day", "bucket_pkts", "buckets": [[n...]...]}    each list of flows shares a bucket

SIDE is `before` the link (packets that the namespace forwards) or `behind` it (packets for its own sockets).
The rules vanish with the namespace.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import flows, traffic
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import flows
    import traffic

HOOKS = {"before": "forward", "behind": "input"}
TABLE = "ccatune"
# The longest headers of IPv4 and TCP.
_CONTROL_BYTES = 20 + 60

# include/uapi/linux/netlink.h, netfilter/nfnetlink.h and netfilter/nf_tables.h
_NETLINK_NETFILTER = 12
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST_DUMP = 0x1 | 0x300
_NFTABLES = 10 << 8
_NEWOBJ, _GETOBJ = _NFTABLES | 18, _NFTABLES | 19
_OBJ_TABLE, _OBJ_NAME, _OBJ_TYPE, _OBJ_DATA = 1, 2, 3, 4
_OBJECT_COUNTER = 1
_COUNTER_PACKETS = 2
_TYPE_MASK = 0x3FFF
_NFPROTO_IPV4 = 2
_ANSWER_BYTES = 1 << 16

Policer = dict[str, object]
Counts = dict[str, int]


def _names(policer: Policer, what: str) -> list[tuple[int, str]]:
    """Return (flow, name of its counter) for each flow of a policer. what: `in` or `out`."""
    flows_of: list[list[int]] = policer["buckets"]  # type: ignore[assignment]
    return [(flow, f"{what}_{policer['at']}_{flow}") for flow in sorted(n for bucket in flows_of for n in bucket)]


def rules(policers: list[Policer], *, hook: str, port: int) -> str:
    """Return the input of `nft -f -` for these policers, which a packet meets in their order."""
    chain = f"ip {TABLE} police"
    lines = [
        f"add table ip {TABLE}",
        f"add chain {chain} {{ type filter hook {hook} priority 0; }}",
        f"add rule {chain} meta length <= {_CONTROL_BYTES} accept",
    ]
    for policer in policers:
        counted = {what: _names(policer, what) for what in ("in", "out")}
        lines += [f"add counter ip {TABLE} {name}" for names in counted.values() for _, name in names]
        lines += [f'add rule {chain} tcp sport {port + flow} counter name "{name}"' for flow, name in counted["in"]]
        limit = f"limit rate over {policer['rate_pkts_per_day']}/day burst {policer['bucket_pkts']} packets"
        for bucket in policer["buckets"]:  # type: ignore[attr-defined]
            ports = ", ".join(str(port + flow) for flow in bucket)
            lines.append(f"add rule {chain} tcp sport {{ {ports} }} {limit} drop")
        lines += [f'add rule {chain} tcp sport {port + flow} counter name "{name}"' for flow, name in counted["out"]]
    return "".join(f"{line}\n" for line in lines)


def police(policers: list[Policer], *, hook: str, port: int) -> None:
    """Make the policers in this namespace. Raises RuntimeError if nft is missing or refuses the rules."""
    text = rules(policers, hook=hook, port=port)
    try:
        done = subprocess.run(["nft", "-f", "-"], input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RuntimeError(f"nft: {error.strerror}; install nftables") from error
    if done.returncode:
        raise RuntimeError(f"nft: expected it to take the policers, it said: {done.stderr.strip()}")


def _attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    """Return the payloads of netlink attributes, by their kind."""
    found: dict[int, bytes] = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & _TYPE_MASK] = data[4:length]
        data = data[max(length + -length % 4, 4) :]
    return found


class Counters:
    """Reads the named counters of our table by netlink, which is faster than starting nft for each sample."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        wanted = _attribute(_OBJ_TABLE, TABLE.encode() + b"\0")
        wanted += _attribute(_OBJ_TYPE, struct.pack(">I", _OBJECT_COUNTER))
        body = struct.pack(">BBH", _NFPROTO_IPV4, 0, 0) + wanted
        self._request = struct.pack("=IHHII", 16 + len(body), _GETOBJ, _REQUEST_DUMP, 0, 0) + body

    def read(self) -> Counts:
        """Return the packets that each counter has counted, by its name. Raises RuntimeError if the kernel refuses."""
        self._socket.send(self._request)
        counts: Counts = {}
        while not self._take(self._socket.recv(_ANSWER_BYTES), counts):
            pass
        return counts

    @staticmethod
    def _take(data: bytes, counts: Counts) -> bool:
        """Add the counters of an answer to `counts`; True if it was the last answer."""
        while len(data) >= 16:
            length, kind = struct.unpack_from("=IH", data)
            if kind == _NLMSG_DONE:
                return True
            if kind == _NLMSG_ERROR:
                raise RuntimeError(
                    f"nftables: expected its counters, got error {struct.unpack_from('=i', data, 16)[0]}"
                )
            if kind == _NEWOBJ:
                values = _attributes(data[20:length])
                name = values[_OBJ_NAME].rstrip(b"\0").decode()
                counts[name] = struct.unpack(">Q", _attributes(values[_OBJ_DATA])[_COUNTER_PACKETS])[0]
            data = data[max(length + -length % 4, 16) :]
        return False


def watch(plan: dict[str, object]) -> dict[str, object]:
    """Sample the counters from the beginning to the end, and return the result."""
    counters = Counters()
    names = sorted(counters.read())
    every_s, duration_s = float(plan["sample_s"]), float(plan["duration_s"])  # type: ignore[arg-type]
    clock = flows.await_beginning()
    rows: list[list[float]] = []
    next_s = 0.0
    while next_s <= duration_s:
        time.sleep(max(0.0, next_s - clock.now_s()))
        counts, now_s = counters.read(), clock.now_s()
        rows.append([round(now_s, 6), *(counts[name] for name in names)])
        if next_s == duration_s:
            break
        # Missed sampling times are skipped, except the last one.
        next_s = min((now_s // every_s + 1) * every_s, duration_s)
    return {"names": names, "rows": rows}


def main() -> None:
    """Run with the arguments PLAN RESULT SIDE."""
    plan_file, result_file, side = sys.argv[1:]
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    try:
        police(plan[side], hook=HOOKS[side], port=plan["port"])
        result = watch(plan)
    except RuntimeError as error:
        # link.py waits for `ready` and includes this line in its error message.
        traffic.print_line({"error": str(error)})
        sys.exit(1)
    Path(result_file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
