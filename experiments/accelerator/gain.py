# SPDX-License-Identifier: MIT
"""What splitting the connections in front of a mobile link gains.

A CUBIC server's download over the end of recorded mobile links, end to end and through a proxy in front of the link,
whose algorithm is CUBIC or that of an ensemble. The simulator has the path of Mahimahi.
"""

from __future__ import annotations

from typing import Any

from emulation import FlowSpec, LinkSpec, ProxySpec, QoS, Scenario, simulate
from emulation.mahimahi.path import path_of_mahimahi
from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.runner import emulate_many
from emulation.traces import Recording
from kmod.terminal import echo

SERVERS = LinkSpec(rate_mbps=100, rtt_ms=40, buffer_pkts=1000)
MOBILE_RTT_MS, BUFFER_PKTS, WARMUP_S = 60.0, 1000, 5.0
Row = dict[str, Any]


def scenarios(recording: Recording, flow: FlowSpec, duration_s: float) -> dict[str, Scenario]:
    """Return the scenarios over the end of a recording, by what is between server and link."""
    start_ms = max(0, round((recording.duration_s - duration_s) * 1000))
    link = LinkSpec(trace=recording.trace, start_ms=start_ms, rtt_ms=MOBILE_RTT_MS, buffer_pkts=BUFFER_PKTS)
    whole = Scenario(
        name=recording.name, link=link.model_copy(update={"rtt_ms": MOBILE_RTT_MS + SERVERS.rtt_ms}),
        flows=(FlowSpec(cca="cubic"),), duration_s=duration_s, warmup_s=WARMUP_S,
    )  # fmt: skip
    split = whole.model_copy(update={"link": link, "proxy": ProxySpec(link=SERVERS)})
    return {
        "none": whole,
        "proxy, cubic": split,
        f"proxy, {flow.cca}": split.model_copy(update={"flows": (flow,)}),
    }


def row_of(scenario: Scenario, between: str, runner: str, qos: QoS) -> Row:
    """Return the figures of a run."""
    held = {} if qos.buffered_bytes is None else qos.buffered_summary()
    return {
        "link": scenario.name, "runner": runner, "between": between, "throughput_mbps": qos.throughput_mbps,
        "utilization": qos.utilization, "queueing_delay_p95_ms": qos.queueing_delay.percentile_ms(95),
        "buffered_p50_bytes": held.get("p50"), "buffered_p95_bytes": held.get("p95"),
    }  # fmt: skip


def gain(recordings: list[Recording], flow: FlowSpec, *, duration_s: float, only: str | None) -> list[Row]:
    """Run every scenario in the simulator and over Mahimahi."""
    cases = [
        (between, scenario) for each in recordings for between, scenario in scenarios(each, flow, duration_s).items()
    ]
    rows = []
    if only != "mahimahi":
        for between, scenario in cases:
            qos = simulate(path_of_mahimahi(scenario, runner="mahimahi"), series_every_s=0.1)
            rows.append(row_of(scenario, between, "simulator", qos))
    if only != "simulator":
        with kept_awake():
            found = emulate_many(
                [scenario for _, scenario in cases], series_every_s=0.1, processors=0,
                progress=lambda done: echo(f"mahimahi: {done} of {len(cases)}", err=True),
            )  # fmt: skip
        rows += [row_of(scenario, b, "mahimahi", qos) for (b, scenario), qos in zip(cases, found, strict=True)]
    return sorted(rows, key=lambda row: (row["link"], row["runner"]))
