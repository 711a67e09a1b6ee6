# SPDX-License-Identifier: MIT
"""Marks of ECN on a path whose queue marks instead of dropping, and the rate behind each echo."""

from __future__ import annotations

from typing import Any

import inside
import life
import tree

_EVENT, _ECN = 6, 6
_PACING_LOW, _PACING_HIGH = 12 + 12, 12 + 13
_CODEL = ("parent", "2:1", "handle", "3:", "codel", "ecn", "target", "2ms", "interval", "10ms")


def main(job: dict[str, Any]) -> dict[str, Any]:
    """The pacing rates before and behind each echo of a mark, in bytes/s; the queue's own words are kept beside."""
    with inside.chain(rate=job["slow_rate"] or "20mbit", queue_bytes=100_000, delay_ms=20), inside.receiver():
        inside.run(*inside.within("router", "tc", "qdisc", "replace", "dev", "ccat2", *_CODEL))
        inside.run("sysctl", "-qw", "net.ipv4.tcp_ecn=1")
        try:
            tree.must("recording", "start 60000\n")
            inside.send("--cca", tree.NAME, "--seconds", "6")
            found = life.records(tree.take_recording(f"marks-{tree.CCA}.recording"))
        finally:
            inside.run("sysctl", "-qw", "net.ipv4.tcp_ecn=2")
        queue = inside.run(*inside.within("router", "tc", "-s", "qdisc", "show", "dev", "ccat2"))
        inside.wait_for(lambda: not tree.flows(), timeout_s=10, what="the flow's end")
    rates = [record[_PACING_LOW] + (record[_PACING_HIGH] << 32) for record in found]
    at = [place for place, record in enumerate(found) if record[0] == _EVENT and record[1] == _ECN]
    return {"queue": queue, "rates": [[rates[place - 1], rates[place]] for place in at]}
