# SPDX-License-Identifier: MIT
"""Delay targets of a trained ensemble, met by real kernels over Mahimahi as the simulator says.

Trains the demo's study (or takes --ensemble). In the guest of each kernel line, by its own clock, the ensemble is
published to a registry and applied by the agent; then a flow of each delay class runs over a link whose rate changes.
The simulator does the same on a path with Mahimahi's clock, and the class's percentiles of the queueing delay are
compared.

GR leaves its rate alone while the delay is between T/2 and T. Where in there it comes to rest is decided by single
packets, so that equal flows differ: by 10 % and more over 40 s, in the kernel and in the simulator. So each side runs
several times (--rounds boots, SEEDS of the simulator), their medians are compared, and all of the kernel's and the
simulator's least and greatest are printed.

It holds where the kernel's is within the target and within 10 % or 5 ms, whichever is more, of the simulator's, and
every flow was at every look on the row that its measured throughput asks for, or on one above it that the rule of
epsilon leads to. Utilisation stands beside it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import numpy as np

from emulation import FlowSpec, LinkSpec, QoS, Scenario, simulate_many
from emulation.mahimahi.clock import with_clock_of_mahimahi
from emulation.traces import Trace
from emulation.vm import PROVED_LINES, mahimahi_root
from kmod.ensemble import Deployment, Ensemble, table_text
from tests.vm import boot
from tests.vm.job import job

RATES_MBPS = (12, 5, 18, 8)
PHASE_S = 10
DELAY_MS = 20
QUEUE_PKTS = 1000
# An opportunity of the simulator carries what Mahimahi's does: an MTU's packet.
MTU_BITS = 12_000
SEEDS = 25
TOLERANCE_MS = 5.0
TOLERANCE = 0.10


def link_trace() -> Trace:
    """Each rate for a phase, evenly spaced."""
    times: list[int] = []
    for phase, rate_mbps in enumerate(RATES_MBPS):
        count = int(rate_mbps * 1e6 * PHASE_S / MTU_BITS)
        times += [int(phase * PHASE_S * 1000 + (n + 1) * PHASE_S * 1000 / count) for n in range(count)]
    period_ms = len(RATES_MBPS) * PHASE_S * 1000
    return Trace("changing", np.asarray(times, dtype=np.uint32), period_ms)


def simulated(table: str, trace: Trace, delay_class: int) -> list[QoS]:
    """The simulator's word on the same flow, a run a seed."""
    scenario = Scenario(
        name="targets",
        link=LinkSpec(trace=trace, rtt_ms=2 * DELAY_MS, buffer_pkts=QUEUE_PKTS),
        flows=(FlowSpec(cca="gr", ensemble_text=table, delay_class=delay_class),),
        duration_s=len(RATES_MBPS) * PHASE_S,
    )
    seeds = [scenario.model_copy(update={"seed": seed}) for seed in range(SEEDS)]
    return simulate_many([with_clock_of_mahimahi(each) for each in seeds])


def utilization(flow: dict[str, Any]) -> float:
    """Share of the link's packets that the flow took, from its first to its last."""
    times_ms = [time_ms for time_ms, _ in flow["delays"]]
    period_ms = len(RATES_MBPS) * PHASE_S * 1000
    trace = link_trace().opportunities_ms
    first, last = times_ms[0], times_ms[-1]
    offered = sum(
        int(np.count_nonzero((trace + turn * period_ms >= first) & (trace + turn * period_ms <= last)))
        for turn in range(last // period_ms + 1)
    )
    return len(times_ms) / offered


def strays(flow: dict[str, Any], ensemble: Ensemble, delay_class: int) -> int:
    """Looks at which the flow was not on a row that its measured throughput and epsilon allow."""
    wrong = 0
    for look in flow["looks"]:
        level = ensemble.axes[0].level(look["measured_bytes_per_s"])
        row = ensemble.row(look["state"], delay_class)
        wrong += (look["state"] < level and not look["kept"]) or any(look[name] != value for name, value in row.items())
    return wrong


def measured(line: str, ensemble: Ensemble, *, folder: Path) -> list[dict[str, Any]]:
    """What a flow of each class met in the guest of this line.

    Raises:
        click.ClickException: the guest's program failed, or its kernel logged something.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ensemble.save(folder / "trained.json")
    told = {
        **job(folder, long=True),
        "trace": "".join(f"{time}\n" for time in link_trace().opportunities_ms.tolist()),
        "classes": len(ensemble.classes),
        "columns": list(ensemble.columns),
        "mahimahi": str(mahimahi_root()),
        "delay_ms": DELAY_MS,
        "queue_pkts": QUEUE_PKTS,
        "target_s": len(RATES_MBPS) * PHASE_S,
    }
    outcome = boot.run_programs(line, ["targets"], told, folder=folder, timeout_s=1200, own_clock=True)["targets"]
    if outcome.error or outcome.complaints:
        raise click.ClickException(f"kernel {line}: {outcome.error or outcome.complaints}")
    if outcome.result["digest"] != ensemble.digest:
        raise click.ClickException(
            f"kernel {line}: expected {ensemble.digest} in force, got {outcome.result['digest']}"
        )
    return list(outcome.result["flows"])


def measure_all(
    lines: tuple[str, ...], ensemble: Ensemble, *, rounds: int, folder: Path
) -> dict[str, list[list[dict[str, Any]]]]:
    """The flows of each boot, by line. A guest with a clock of its own takes one processor and minds no other."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        boots = {
            line: [pool.submit(measured, line, ensemble, folder=folder / f"{line}-{n}") for n in range(rounds)]
            for line in lines
        }
        return {line: [each.result() for each in submitted] for line, submitted in boots.items()}


def compare(line: str, ensemble: Ensemble, found: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row a class: target, simulator, kernel, and whether it holds; found holds each boot's flows."""
    table = table_text(ensemble, Deployment("local", "simulated", 1))
    rows = []
    for number, target in enumerate(ensemble.classes):
        flows = [flows[number] for flows in found]
        delays_ms = [[delay for _, delay in flow["delays"]] for flow in flows]
        kernel_ms = [float(np.percentile(each, target.percentile)) for each in delays_ms]
        middle_ms = statistics.median(kernel_ms)
        runs = simulated(table, link_trace(), number)
        each_said_ms = [run.queueing_delay.percentile_ms(target.percentile) for run in runs]
        said_ms = statistics.median(each_said_ms)
        target_ms = target.queueing_delay_us / 1000
        wrong = sum(strays(flow, ensemble, number) for flow in flows)
        rows.append(
            {
                "kernel": line,
                "target_ms": target_ms,
                "simulator_ms": round(said_ms, 1),
                "simulator_range_ms": [round(min(each_said_ms), 1), round(max(each_said_ms), 1)],
                "kernel_ms": round(middle_ms, 1),
                "each_ms": [round(each, 1) for each in kernel_ms],
                "simulator_utilization": round(statistics.median(run.utilization for run in runs), 3),
                "utilization": round(statistics.median(map(utilization, flows)), 3),
                "packets": sum(map(len, delays_ms)),
                "states": len({look["state"] for flow in flows for look in flow["looks"]}),
                "strays": wrong,
                "looks": sum(len(flow["looks"]) for flow in flows),
                "holds": middle_ms <= target_ms
                and abs(middle_ms - said_ms) <= max(TOLERANCE_MS, TOLERANCE * said_ms)
                and not wrong,
            }
        )
    return rows


@click.command()
@click.option("--ensemble", "file", type=click.Path(path_type=Path, exists=True), help="Instead of training one.")
@click.option("--kernel", "lines", multiple=True, type=click.Choice(PROVED_LINES), help="Only this line.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Boots of each line.")
def main(*, file: Path | None, lines: tuple[str, ...], rounds: int) -> None:
    """Compare, and exit 0 where every class of every line holds."""
    with tempfile.TemporaryDirectory(prefix="ccatune-targets-") as name:
        folder = Path(name)
        ensemble = Ensemble.load(file or trained(folder))
        short = dataclasses.replace(ensemble, epoch_ms=1000, estimate_ms=250)
        found = measure_all(lines or PROVED_LINES, short, rounds=rounds, folder=folder)
        rows = [row for line, flows in found.items() for row in compare(line, short, flows)]
    for row in rows:
        click.echo(json.dumps(row))
    held = sum(row["holds"] for row in rows)
    widest = max(rows, key=lambda row: abs(row["kernel_ms"] / row["simulator_ms"] - 1))
    click.echo(
        f"{held} of {len(rows)} delay targets met as the simulator says; furthest from it: "
        f"{widest['kernel_ms']} against {widest['simulator_ms']} ms"
    )
    sys.exit(0 if held == len(rows) else 1)


def trained(folder: Path) -> Path:
    """The demo's study on a made link."""
    import ccatune

    made, out = folder / "made.down", folder / "gr.json"
    models = boot.REPOSITORY / "configs"
    words = ["traces", "make", str(models / "traces" / "cellular-4g.json"), "--duration", "1200", "--seed", "1"]
    study = str(models / "studies" / "gr-demo.yaml")
    for command in (
        [*words, "-o", str(made)],
        ["train", "gr", "--study", study, "--traces", str(made), "--out", str(out)],
    ):
        if ccatune.run(command):
            raise click.ClickException(f"ccatune {' '.join(command)} failed")
    return out


if __name__ == "__main__":
    main()
