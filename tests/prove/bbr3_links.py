# SPDX-License-Identifier: MIT
"""BBRv3 of this project beside that of another library (tquic), over ten links. Copa of the library stands beside them.

    python -m tests.prove.bbr3_links [--data-dir DIR] [--jobs N] [--json]

Schemes run over Mahimahi by Pantheon's protocol, each run for DURATION_S. The scheme rtcp_bbr3 is R-TCP over BBRv3 on
this machine's kernel; without a rate limiter on the path it is BBRv3 alone. `bbr3` is the same core in the simulator,
with the path that Mahimahi provides. Columns, each the mean over the runs:

    Mbit/s   bytes of IP packets that left the link, over the time from the first to the last departure
    p95      95th percentile of the one-way delay, which contains the propagation delay
    loss     share of the sent packets that did not leave the path, which includes those in its queue at the end
    ratio    value of rtcp_bbr3 over that of tquic-bbr3
    spread   largest relative deviation of a run's throughput from the mean of its scheme, over the schemes of the link

A data folder keeps the logs, and a further call repeats only runs that failed or whose logs were removed.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from emulation import FlowSpec, LinkSpec, Scenario, simulate
from emulation.mahimahi.logs import log_path, read_log
from emulation.mahimahi.path import path_of_mahimahi
from emulation.pantheon.data_folder import begin
from emulation.pantheon.links import EmulatorFile, Side, TestLink, link_of_file
from emulation.pantheon.run_command import Test, run_tests
from emulation.pantheon.runner import TestSettings
from emulation.pantheon.schemes import read_schemes
from emulation.pantheon.statistics import run_statistics
from emulation.traces import Trace

ROOT = Path(__file__).resolve().parents[2]
SCHEMES = ("tquic-bbr3", "tquic-copa", "rtcp_bbr3")
SIMULATED = "bbr3, simulated"
DURATION_S = 30
RUNS = 2
PACKET_BITS = 1500 * 8
EMULATORS = ("poisson-12mbps", "cellular-4g", "cellular-driving")
FIELDS = ("throughput_mbps", "delay_p95_ms", "loss")


@dataclass(frozen=True)
class Constant:
    """A link with a constant rate. buffer_bdp: size of the buffer in bandwidth-delay products."""

    rate_mbps: float
    rtt_ms: int
    buffer_bdp: float
    loss: float = 0.0

    @property
    def name(self) -> str:
        """The name of the link, as a folder can have it."""
        lossy = f"-{100 * self.loss:g}pct" if self.loss else ""
        return f"{self.rate_mbps:g}mbps-{self.rtt_ms}ms-{self.buffer_bdp:g}bdp{lossy}"

    @property
    def buffer_pkts(self) -> int:
        """The size of the buffer."""
        return max(1, round(self.buffer_bdp * self.rate_mbps * 1000 * self.rtt_ms / PACKET_BITS))


CONSTANT = (
    Constant(3, 20, 4),
    Constant(3, 150, 1),
    Constant(12, 50, 0.5),
    Constant(12, 50, 2),
    Constant(12, 50, 2, loss=0.01),
    Constant(50, 20, 1),
    Constant(50, 150, 2),
)


@dataclass(frozen=True)
class Link:
    """A link of the table, for a test and for the simulator."""

    test: TestLink
    simulated: LinkSpec


def of_constant(constant: Constant) -> Link:
    """Return a link of a constant rate."""
    one_way_ms = constant.rtt_ms // 2
    test = TestLink(
        constant.name,
        "made for this comparison",
        Side(rate_mbps=constant.rate_mbps).opportunities_ms(ROOT),
        Side(rate_mbps=max(24.0, constant.rate_mbps)).opportunities_ms(ROOT),
        prepend=f"mm-delay {one_way_ms}",
        append=f"mm-loss uplink {constant.loss:.9f}" if constant.loss else "",
        extra=f"--uplink-queue=droptail --uplink-queue-args=packets={constant.buffer_pkts}",
    )
    simulated = LinkSpec(
        rate_mbps=constant.rate_mbps, rtt_ms=2 * one_way_ms, buffer_pkts=constant.buffer_pkts, loss=constant.loss
    )
    return Link(test, simulated)


def of_emulator(name: str) -> Link:
    """Return the link of an emulator's file."""
    test = link_of_file(ROOT / "configs" / "emulators" / f"{name}.yaml")
    facts = EmulatorFile.model_validate(test.facts)
    times_ms = np.asarray(test.uplink)
    trace = Trace(name, times_ms.astype(np.uint32), int(times_ms[-1]))
    return Link(test, LinkSpec(trace=trace, rtt_ms=2 * facts.delay_ms, buffer_pkts=facts.queue_pkts, loss=facts.loss))


def links() -> list[Link]:
    """Return the ten links."""
    return [*map(of_constant, CONSTANT), *map(of_emulator, EMULATORS)]


def run_scheme(scheme: str, compared: Sequence[tuple[Link, Path]], *, jobs: int) -> bool:
    """Make the runs of a scheme over all links that are not done yet, and return whether all are valid."""
    tests: list[Test] = []
    for link, folder in compared:
        chosen = (read_schemes()[scheme],)
        settings = TestSettings(schemes=chosen, link=link.test, runtime_s=DURATION_S, run_times=RUNS)
        tests.append((settings, folder, begin(settings, folder, resume=True)))
    return all(row["verdict"] == "ok" for row in run_tests(tests, jobs=jobs, quiet=False))


def simulated_figures(link: Link) -> dict[str, float]:
    """Return the figures of the simulated flow."""
    scenario = Scenario(
        name=link.test.name, link=link.simulated, flows=(FlowSpec(cca="bbr3"),), duration_s=DURATION_S, warmup_s=0
    )
    qos = simulate(path_of_mahimahi(scenario, runner="mahimahi"))
    return {
        "throughput_mbps": qos.throughput_mbps,
        "delay_p95_ms": link.simulated.rtt_ms / 2 + qos.queueing_delay.percentile_ms(95),
        "loss": 1 - (qos.simulated_packets - qos.lost_at_random) / qos.sent,
    }


def run_figures(folder: Path, scheme: str) -> list[dict[str, float]]:
    """Return the figures of each run of a scheme."""
    found = []
    for run in range(1, RUNS + 1):
        total = run_statistics(read_log(log_path(folder, scheme=scheme, run=run, kind="datalink"))).total
        found.append({name: float(getattr(total, name) or 0.0) for name in FIELDS})
    return found


def means(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each figure."""
    return {name: statistics.fmean(run[name] for run in runs) for name in FIELDS}


def spread(runs: list[dict[str, float]]) -> float:
    """Return the largest relative deviation of a run's throughput from the mean."""
    mean = means(runs)["throughput_mbps"]
    return max(abs(run["throughput_mbps"] / mean - 1) for run in runs) if mean else 0.0


def row_of(link: Link, folder: Path) -> dict[str, Any]:
    """Return a row of the table."""
    runs = {scheme: run_figures(folder, scheme) for scheme in SCHEMES}
    figures = {scheme: means(of_scheme) for scheme, of_scheme in runs.items()} | {SIMULATED: simulated_figures(link)}
    ours, theirs = figures["rtcp_bbr3"], figures["tquic-bbr3"]
    return {
        "link": link.test.name,
        "figures": figures,
        "runs": runs,
        "ratio": {name: ours[name] / theirs[name] if theirs[name] else None for name in FIELDS},
        "spread": max(map(spread, runs.values())),
    }


def cells_of(row: dict[str, Any]) -> list[str]:
    """Return the cells of a row."""
    cells = [row["link"]]
    for name in ("tquic-bbr3", "rtcp_bbr3", SIMULATED, "tquic-copa"):
        of = row["figures"][name]
        cells.append(f"{of['throughput_mbps']:.2f}, {of['delay_p95_ms']:.0f} ms, {of['loss']:.2%}")
    ratio = row["ratio"]
    cells.append(f"{ratio['throughput_mbps']:.2f}, {ratio['delay_p95_ms']:.2f}")
    return [*cells, f"{row['spread']:.1%}"]


@contextmanager
def folder_of(data_dir: Path | None) -> Iterator[Path]:
    """Provide the data folder, or one for the time of the comparison."""
    if data_dir is not None:
        yield data_dir
        return
    with tempfile.TemporaryDirectory(prefix="ccatune-bbr3-") as folder:
        yield Path(folder)


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Keep the logs in this folder.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Runs side by side.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(*, data_dir: Path | None, jobs: int, as_json: bool) -> None:
    """Make the runs and print the table. Exit status 1: a run failed."""
    with folder_of(data_dir) as folder:
        compared = [(link, folder / link.test.name) for link in links()]
        # One scheme after the other: only that of this project waits for other emulations that use BPF.
        if not all(run_scheme(scheme, compared, jobs=jobs) for scheme in SCHEMES):
            raise SystemExit(1)
        rows = [row_of(link, of_link) for link, of_link in compared]
    if as_json:
        click.echo(json.dumps(rows))
        return
    heads = ["link", "tquic-bbr3", "rtcp_bbr3", SIMULATED, "tquic-copa", "ratio of Mbit/s, of p95", "spread"]
    click.echo("\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *map(cells_of, rows)]))


if __name__ == "__main__":
    main()
