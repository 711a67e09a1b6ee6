# SPDX-License-Identifier: MIT
"""Delay targets of a trained ensemble, met by real kernels over Mahimahi as the simulator says.

Trains the demo's study (or takes --ensemble), runs one flow of each delay class over a link whose rate changes, in
the guest of each kernel line and in the simulator, and compares the class's percentile of the queueing delay. It
holds where the kernel's is at most 10 % or 5 ms, whichever is more, above the larger of target and simulator, and
every flow was at every look on the row that its measured throughput asks for, or on one above it that the rule of
epsilon leads to.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

from emulation import FlowSpec, LinkSpec, Scenario, simulate
from emulation.traces import Trace
from emulation.vm import LINES, mahimahi_root
from kmod.ensemble import Deployment, Ensemble, table_text
from tests.vm import boot
from tests.vm.job import job

RATES_MBPS = (12, 5, 18, 8)
PHASE_S = 10
DELAY_MS = 20
QUEUE_PKTS = 1000
# An opportunity of the simulator carries what Mahimahi's does: an MTU's packet.
MTU_BITS = 12_000
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


def simulated_ms(table: str, trace: Trace, delay_class: int, percentile: int) -> float:
    """The simulator's word on the same flow."""
    scenario = Scenario(
        name="targets",
        link=LinkSpec(trace=trace, rtt_ms=2 * DELAY_MS, buffer_pkts=QUEUE_PKTS),
        flows=(FlowSpec(cca="gr", ensemble_text=table, delay_class=delay_class),),
        duration_s=len(RATES_MBPS) * PHASE_S,
        seed=1,
    )
    return simulate(scenario).queueing_delay.percentile_ms(percentile)


def strays(flow: dict[str, Any], ensemble: Ensemble, delay_class: int) -> int:
    """Looks at which the flow was not on a row that its measured throughput and epsilon allow."""
    wrong = 0
    for look in flow["looks"]:
        level = ensemble.axes[0].level(look["measured_bytes_per_s"])
        row = ensemble.row(look["state"], delay_class)
        wrong += (look["state"] < level and not look["kept"]) or any(look[name] != value for name, value in row.items())
    return wrong


def compare(line: str, ensemble: Ensemble, table: str, *, folder: Path) -> list[dict[str, Any]]:
    """A row a class: target, simulator, kernel, and whether it holds."""
    trace = link_trace()
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        **job(folder, long=True),
        "trace": "".join(f"{time}\n" for time in trace.opportunities_ms.tolist()),
        "short_table": table,
        "classes": len(ensemble.classes),
        "columns": list(ensemble.columns),
        "mahimahi": str(mahimahi_root()),
        "delay_ms": DELAY_MS,
        "queue_pkts": QUEUE_PKTS,
        "target_s": len(RATES_MBPS) * PHASE_S,
    }
    outcome = boot.run_programs(line, ["targets"], told, folder=folder, timeout_s=1200)["targets"]
    if outcome.error or outcome.complaints:
        raise click.ClickException(f"kernel {line}: {outcome.error or outcome.complaints}")
    rows = []
    for number, (target, flow) in enumerate(zip(ensemble.classes, outcome.result["flows"], strict=True)):
        delays_ms = [delay for _, delay in flow["delays"]]
        kernel_ms = float(np.percentile(delays_ms, target.percentile))
        said_ms = simulated_ms(table, trace, number, target.percentile)
        most_ms = max(said_ms, target.queueing_delay_us / 1000)
        wrong = strays(flow, ensemble, number)
        rows.append(
            {
                "kernel": line,
                "target_ms": target.queueing_delay_us / 1000,
                "simulator_ms": round(said_ms, 1),
                "kernel_ms": round(kernel_ms, 1),
                "packets": len(delays_ms),
                "states": len({look["state"] for look in flow["looks"]}),
                "strays": wrong,
                "looks": len(flow["looks"]),
                "holds": kernel_ms <= most_ms + max(TOLERANCE_MS, TOLERANCE * most_ms) and not wrong,
            }
        )
    return rows


@click.command()
@click.option("--ensemble", "file", type=click.Path(path_type=Path, exists=True), help="Instead of training one.")
@click.option("--kernel", "lines", multiple=True, type=click.Choice(LINES), help="Only this line.")
def main(*, file: Path | None, lines: tuple[str, ...]) -> None:
    """Compare, and exit 0 where every class of every line holds."""
    with tempfile.TemporaryDirectory(prefix="ccatune-targets-") as name:
        folder = Path(name)
        ensemble = Ensemble.load(file or trained(folder))
        short = dataclasses.replace(ensemble, epoch_ms=1000, estimate_ms=250)
        table = table_text(short, Deployment("local", "by-hand", 1))
        rows = [row for line in lines or LINES for row in compare(line, ensemble, table, folder=folder / line)]
    for row in rows:
        click.echo(json.dumps(row))
    held = sum(row["holds"] for row in rows)
    worst_ms = max(row["kernel_ms"] - max(row["simulator_ms"], row["target_ms"]) for row in rows)
    click.echo(f"{held} of {len(rows)} delay targets met; at worst {worst_ms:.1f} ms above target and simulator")
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
