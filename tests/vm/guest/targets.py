# SPDX-License-Identifier: MIT
"""A trained table under flows over Mahimahi, a link whose rate changes: what each delay class meets there.

It is published to a registry, and the agent writes it to /proc, with a shorter epoch than it was trained with. One
flow at a time, each class in turn; Mahimahi's log tells every packet's time in its queue.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import agent
import inside
import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import shells
else:
    sys.path.insert(0, str(inside.NAMESPACE))
    import shells

TRACE = Path("/tmp/link.trace")
MAHIMAHI = Path("/tmp/mahimahi")
# The headers of the tun device, IPv4 and TCP with all options. A packet up to this size is taken to carry no data.
CONTROL_BYTES = 4 + 20 + 60


def install_mahimahi(root: Path) -> None:
    """Prepare Mahimahi for use in the guest."""
    inside.run("modprobe", "-a", "tun", "act_police", "cls_matchall", "sch_ingress", "xt_MASQUERADE", "nf_tables")
    MAHIMAHI.mkdir(exist_ok=True)
    shells.prepare(root, folder=MAHIMAHI)


@contextlib.contextmanager
def mahimahi(
    trace: Path, *, delay_ms: int, queue_pkts: int, fetch: Sequence[str], log: Path
) -> Iterator[subprocess.Popen[str]]:
    """Run `traffic.py fetch` with these arguments in `mm-delay mm-link`: its data comes down the link of `trace`.

    delay_ms: one way. log: of the link towards the receiver; its lines contain each packet's time in the queue.
    """
    log.touch()
    log.chmod(0o666)
    trace.chmod(0o644)
    link = ["mm-link", str(trace), str(trace), "--downlink-queue=droptail"]
    link += [f"--downlink-queue-args=packets={queue_pkts}", f"--downlink-log={log}", "--"]
    fetcher = [*inside.PYTHON, str(inside.TRAFFIC), "fetch", *fetch]
    with (
        shells.nested([["mm-delay", str(delay_ms)], link], folder=MAHIMAHI) as up,
        inside.process(*up[-1].enter, *fetcher, "--host", up[-1].address) as started,
    ):
        yield started
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(timeout=20)


def queueing_delays_ms(log: Path) -> list[tuple[int, int]]:
    """(departure in ms of the shell's clock, time in the queue in ms) of each packet with data in mm-link's log."""
    rows = [line.split() for line in log.read_text(encoding="ascii").splitlines() if " - " in line]
    return [(int(at_ms), int(delay_ms)) for at_ms, _, size, delay_ms in rows if int(size) > CONTROL_BYTES]


def one_flow(job: dict[str, Any], priority: int) -> dict[str, Any]:
    """A flow of this class for the whole trace; its looks at `flows`, and the delays of Mahimahi's log."""
    log = Path(f"/tmp/link-{priority}.log")
    seconds = job["target_s"]
    looks: list[dict[str, int]] = []
    words = ("--listen", "--cca", tree.NAME, "--priority", str(priority), "--seconds", str(seconds), "--sample", "1000")
    with inside.sending(*words, host="0.0.0.0", port=5300 + priority) as sender:
        inside.assert_listening(sender)
        fetch = ("--port", str(5300 + priority))
        with mahimahi(TRACE, delay_ms=job["delay_ms"], queue_pkts=job["queue_pkts"], fetch=fetch, log=log):
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
    return {"looks": looks, "delays": queueing_delays_ms(log), "said": said.splitlines()[-1:]}


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
    install_mahimahi(Path(job["mahimahi"]))
    TRACE.write_text(job["trace"])
    digest = applied(job)
    flows = [one_flow(job, 1 + number) for number in range(job["classes"])]
    delays = tree.rows(kind="delay")
    tree.must("ensemble", "clear\n")
    return {"flows": flows, "delay_lines": delays, "digest": digest}
