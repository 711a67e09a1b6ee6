# SPDX-License-Identifier: MIT
"""A trained table under flows over Mahimahi, a link whose rate changes: what each delay class meets there.

It is published to a registry, and the agent writes it to /proc, with a shorter epoch than it was trained with. One
flow at a time, each class in turn; Mahimahi's log tells every packet's time in its queue.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import agent
import inside
import tree

TRACE = Path("/tmp/link.trace")


def one_flow(job: dict[str, Any], priority: int) -> dict[str, Any]:
    """A flow of this class for the whole trace; its looks at `flows`, and the delays of Mahimahi's log."""
    log = Path(f"/tmp/link-{priority}.log")
    seconds = job["target_s"]
    looks: list[dict[str, int]] = []
    words = ("--listen", "--cca", tree.CCA, "--priority", str(priority), "--seconds", str(seconds), "--sample", "1000")
    with inside.sending(*words, host="0.0.0.0", port=5300 + priority) as sender:
        inside.assert_listening(sender)
        fetch = ("--port", str(5300 + priority))
        shells = inside.mahimahi(TRACE, delay_ms=job["delay_ms"], queue_pkts=job["queue_pkts"], fetch=fetch, log=log)
        with shells:
            inside.wait_for(tree.flows, timeout_s=60, what="a flow through Mahimahi", of=sender)
            while sender.poll() is None and (flows := tree.flows()):
                flow = flows[0]
                if flow["state"] != "-":
                    names = ("epoch", "state", "measured_bytes_per_s", *job["columns"])
                    looks.append({name: int(flow[name]) for name in names} | {"kept": int(flow["turn"] == "kept")})
                time.sleep(0.2)
            sender.wait(timeout=60)
            said = sender.stdout.read() if sender.stdout else ""
    inside.wait_for(lambda: not tree.flows(), timeout_s=20, what="the flow's end")
    return {"looks": looks, "delays": inside.queueing_delays_ms(log), "said": said.splitlines()[-1:]}


def applied(job: dict[str, Any]) -> str:
    """Publish the trained ensemble, let the agent apply it, and stop both: the table stays. Returns its digest."""
    with agent.registry(job):
        agent.publish("trained.json")
        with inside.process(*agent.agent_words(job), stdout=subprocess.DEVNULL) as started:
            agent.wait_for_serial(1, started, 60)
            agent.wait_for_state("Unsigned", started)
    return tree.status()["digest"]


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Every class."""
    inside.install_mahimahi(Path(job["mahimahi"]))
    TRACE.write_text(job["trace"])
    digest = applied(job)
    flows = [one_flow(job, 1 + number) for number in range(job["classes"])]
    delays = tree.rows(kind="delay")
    tree.must("ensemble", "clear\n")
    return {"flows": flows, "delay_lines": delays, "digest": digest}
