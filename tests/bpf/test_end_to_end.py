# SPDX-License-Identifier: MIT
"""From the registry to running flows: a channel moves, the agent writes the table, and the flows take it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from kmod.bpf_host import BpfHost
from kmod.ensemble import Deployment, table_text
from tests.bpf.link import link
from tests.prove.guarded import REGISTRY, Guarded, guarded
from tests.prove.kill_bpf import in_bpf, make_ensemble, window_of
from tests.prove.kill_service import CCA, CHANNEL, RealAgent

FLOWS = 50
EPOCH_MS = 2000
LIMIT_S = 60.0
# The fields of a flow by name.
Flow = dict[str, str]


def flows_of(host: BpfHost) -> dict[str, Flow]:
    """The flows that have a row, by the sender's address and port."""
    lines = [line.split() for line in host.read(CCA, "flows").splitlines()]
    flows = {words[0]: dict(word.split("=", 1) for word in words[2:]) for words in lines}
    return {name: flow for name, flow in flows.items() if flow["state"] != "-"}


def move(service: Guarded, agent: RealAgent, number: int, *, urgent: bool) -> int:
    """Publish an ensemble, move the channel to it, and wait until the agent has put it in force.

    Returns the bandwidth window in all its rows, by which its flows are known.
    """
    ensemble = replace(make_ensemble(number), epoch_ms=EPOCH_MS)
    with service.client() as client:
        service.publish(client, ensemble)
        serial = int(client.move(CCA, CHANNEL, digest=ensemble.digest, urgent=urgent)["serial"])
    text = table_text(ensemble, Deployment(REGISTRY, CHANNEL, serial, urgent=urgent))
    end_s = time.monotonic() + LIMIT_S
    while agent.text_in_force() != text:
        assert time.monotonic() < end_s, agent.log()
        time.sleep(0.05)
    return window_of(text)


def require_taken(host: BpfHost, window_us: int, *, by: str) -> int:
    """Require that each flow follows the table in force once its counter `by` has moved; return the number of flows.

    The counters are read after the table came into force. A flow whose counter has moved in one reading must follow
    the table in the next, because a flow's line may be read while it changes.
    """
    first, moved = flows_of(host), set[str]()
    end_s = time.monotonic() + LIMIT_S
    while True:
        now = flows_of(host)
        assert {int(now[name]["bandwidth_window_us"]) for name in moved & now.keys()} <= {window_us}
        if moved and not now.keys() & first.keys() - moved:
            return len(moved)
        assert time.monotonic() < end_s, f"of {len(first)} flows {len(moved)} had a new {by} within {LIMIT_S} s"
        moved |= {name for name in now.keys() & first.keys() if now[name][by] != first[name][by]}
        time.sleep(0.05)


def wait_for_rows(host: BpfHost) -> None:
    """Wait until nearly all flows have ended their slow start."""
    end_s = time.monotonic() + LIMIT_S
    while len(flows_of(host)) < 0.9 * FLOWS:
        assert time.monotonic() < end_s, f"{len(flows_of(host))} of {FLOWS} flows have a row"
        time.sleep(0.1)


def test_fifty_flows_take_what_the_registry_publishes_and_leave_nothing(
    host: BpfHost, program: Path, tmp_path: Path
) -> None:
    host.load(CCA)
    with guarded(tmp_path) as service, ExitStack() as stack:
        agent = RealAgent(service, "server", in_bpf(host, program, tmp_path / "bpffs" / "ccatune"))
        agent.start()
        stack.callback(agent.stop)
        move(service, agent, 100, urgent=False)
        with link() as path, path.flows(CCA, seconds=None, count=FLOWS):
            wait_for_rows(host)
            window_us = move(service, agent, 101, urgent=False)
            within_an_epoch = require_taken(host, window_us, by="epoch")
            window_us = move(service, agent, 102, urgent=True)
            within_an_ack = require_taken(host, window_us, by="bytes_acked")
    assert min(within_an_epoch, within_an_ack) >= 0.9 * FLOWS
    end_s = time.monotonic() + 20
    while host.read(CCA, "flows") and time.monotonic() < end_s:
        time.sleep(0.2)
    assert "\nflows 0\n" in host.read(CCA, "status")
