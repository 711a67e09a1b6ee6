# SPDX-License-Identifier: MIT
"""`ccatune bench`: measures how fast the simulator is. The parts are:

    speed     packets delivered per second of wall time on one thread: one GR flow over a trace of 20 Mbit/s with evenly
              spread opportunities, RTT 100 ms, buffer 1000 packets
    scaling   the time of the same jobs on one thread / their time on two threads. Short runs on one and on two threads
              alternate, so that a change of the processor's speed affects both
    base      packets per second of one CUBIC flow and of one BBRv1 flow on a link of constant 20 Mbit/s
    flows     processor time per packet with 10, 100 and 1,000 GR flows in one simulation. The link has 2 Mbit/s and
              100 packets of buffer per flow, and the flows start within a second
    core      ns per ACK of each algorithm's core alone, and of the log that BBRv3 needs besides it in the kernel
    bpf       ns per ACK and throughput of the algorithms in BPF on this machine's kernel (bpf_bench.py). It requires
              root and changes the list of congestion controls meanwhile, so it runs only if it is named

Speed, base and scaling are also measured by processor time, which approximates the result of an idle machine on a busy
one. The figures are medians of `repeats` runs. The targets are for wall time:

    speed 4 million packets per second, base 2 million each, scaling at least 1.8
    bpf   95 % of the throughput of the kernel's own CUBIC

The flows have a target for processor time: a packet takes at most 4 times as long with 1,000 flows as with 10
(MOST_FLOWS_RATIO). The ratio would be 1 if the cost were exactly linear in the number of flows. In practice the state
of ten flows fits into the first-level cache, that of a hundred into the second level, and that of a thousand into the
third level or memory. Also, the heap of timers is six levels deep instead of two or three. A search over all flows at
each event would make the ratio about 100.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.progress import track

from emulation import _engine
from emulation.cli import bpf_bench
from emulation.options import FiniteRange
from emulation.printing import as_written
from emulation.run.qos import QoS
from emulation.run.simulator import default_threads, simulate, simulate_many
from emulation.scenario.model import Cca, FlowSpec, LinkSpec, Scenario
from emulation.traces import Trace
from kmod.tables import Column, print_table
from kmod.terminal import echo

Figures = dict[str, float]

TARGET_PKTS_PER_S = 4e6
TARGET_BASE_PKTS_PER_S = 2e6
TARGET_SCALING = 1.8
MOST_FLOWS_RATIO = 4.0
TARGET_SHARE = 0.95
FLOW_COUNTS = (10, 100, 1000)
BASE_CCAS: tuple[Cca, ...] = ("cubic", "bbr")
TURNS = 8
JOBS = 32
ACKS = 2_000_000
# The speed of the original authors' simulator, measured on a machine of the kind that runs this benchmark.
AUTHORS_PKTS_PER_S = 0.1e6


def even_trace(rate_mbps: float = 20.0, *, period_s: int = 60) -> Trace:
    """Return a trace of this rate. Its opportunities are spread as evenly as whole ms allow."""
    count = round(rate_mbps * 1e6 * period_s / (1500 * 8))
    times_ms = (np.arange(count, dtype=np.int64) * period_s * 1000 // count).astype(np.uint32)
    return Trace(f"{rate_mbps:g} Mbit/s", times_ms, period_s * 1000)


def gr_scenario(duration_s: float) -> Scenario:
    """Return the scenario of the part `speed`: one GR flow."""
    return Scenario(name="bench", link=LinkSpec(trace=even_trace()), duration_s=duration_s)


@dataclass(frozen=True)
class Spent:
    """The time that some work took: wall time, and processor time summed over all threads."""

    wall_s: float
    cpu_s: float


def spent_on(work: Callable[[], object]) -> Spent:
    """Do the work and return the time that it took."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - wall_s, time.process_time() - cpu_s)


def spent_on_run(scenario: Scenario) -> tuple[Spent, int]:
    """Run a scenario on one thread. Return the time that it took, and the number of packets that it delivered."""
    done: list[QoS] = []
    spent = spent_on(lambda: done.append(simulate(scenario)))
    return spent, done[0].simulated_packets


def measure_speed(duration_s: float) -> Figures:
    """Return the delivered packets per second of a run of `duration_s` simulated seconds on one thread."""
    spent, packets = spent_on_run(gr_scenario(duration_s))
    return {"pkts_per_s": packets / spent.wall_s, "pkts_per_cpu_s": packets / spent.cpu_s}


def measure_base(duration_s: float) -> Figures:
    """Return the delivered packets per second of a bulk flow with each base algorithm."""
    link = LinkSpec(rate_mbps=20.0)
    figures: Figures = {}
    for cca in BASE_CCAS:
        scenario = Scenario(name="bench", link=link, flows=(FlowSpec(cca=cca),), duration_s=duration_s)
        spent, packets = spent_on_run(scenario)
        figures |= {f"{cca}_pkts_per_s": packets / spent.wall_s, f"{cca}_pkts_per_cpu_s": packets / spent.cpu_s}
    return figures


def flows_scenario(count: int, duration_s: float) -> Scenario:
    """Return a scenario of `count` GR flows with 2 Mbit/s each, which is long compared with their start-up."""
    link = LinkSpec(rate_mbps=2.0 * count, buffer_pkts=100 * count)
    flows = tuple(FlowSpec(start_s=i / count) for i in range(count))
    return Scenario(name="bench", link=link, flows=flows, duration_s=max(3.0, duration_s / 120, duration_s / count))


def measure_flows(duration_s: float) -> Figures:
    """Return the processor time per delivered packet for each number of flows, and the ratio of 1,000 to 10 flows."""
    ns = {}
    for count in FLOW_COUNTS:
        spent, packets = spent_on_run(flows_scenario(count, duration_s))
        ns[count] = spent.cpu_s * 1e9 / packets
    return {
        **{f"flows_{count}_ns_per_pkt": ns[count] for count in FLOW_COUNTS},
        "flows_1000_by_10": ns[1000] / ns[10],
    }


def measure_scaling(duration_s: float) -> Figures:
    """Return the time of the same jobs on one thread / their time on two threads."""
    jobs = [gr_scenario(duration_s / 64)] * JOBS
    turns = [[spent_on(partial(simulate_many, jobs, threads=threads)) for threads in (1, 2)] for _ in range(TURNS)]
    wall_s = [sum(turn[i].wall_s for turn in turns) for i in (0, 1)]
    cpu_s = [sum(turn[i].cpu_s for turn in turns) for i in (0, 1)]
    return {"two_threads_by_one": wall_s[0] / wall_s[1], "two_threads_by_one_cpu": 2 * cpu_s[0] / cpu_s[1]}


def measure_core() -> Figures:
    """Return the ns per ACK of each algorithm's core alone."""
    return {f"{name}_ns_per_ack": ns for name, ns in _engine.core_ns_per_ack(ACKS).items()}


def describe_machine() -> dict[str, str]:
    """Return ccatune's version, the processor, the number of usable processors, the load, Python and the system."""
    try:
        own = version("ccatune")
    except PackageNotFoundError:
        own = "unknown"
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return {
        "ccatune": own,
        "processor": model,
        "usable_cpus": str(default_threads()),
        "load_average": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


# The function that measures each part, by the part's name. Its argument is the simulated duration of a run in s.
PARTS: dict[str, Callable[[float], Figures]] = {
    "speed": measure_speed,
    "base": measure_base,
    "flows": measure_flows,
    "core": lambda _: measure_core(),
    "scaling": measure_scaling,
    "bpf": lambda _: bpf_bench.measure_bpf(),
}
# These run only if they are named.
NAMED_ONLY = frozenset({"bpf"})


def measure(parts: Sequence[str], *, repeats: int, duration_s: float, quiet: bool) -> dict[str, list[float]]:
    """Measure the parts `repeats` times and return all values of each figure.

    The parts alternate, so that a short load on the machine does not affect only one of them.
    """
    measured = [PARTS[name] for name in parts if name != "scaling" or default_threads() > 1]
    runs: defaultdict[str, list[float]] = defaultdict(list)
    console = as_written(stderr=True)
    for _ in track(range(repeats), "measuring", console=console, transient=True, disable=quiet):
        for part in measured:
            for name, value in part(duration_s).items():
                runs[name].append(value)
    return dict(runs)


@dataclass(frozen=True)
class Figure:
    """How a figure is printed: its label, the factor `scale`, and its target (at least `least` or at most `most`).

    requires: what the machine lacks if the figure has no value.
    """

    label: str
    part: str
    scale: float = 1.0
    least: float | None = None
    most: float | None = None
    requires: str = "two processors"

    def falls_short(self, value: float) -> bool:
        """Whether a value misses the target."""
        return (self.least is not None and value < self.least) or (self.most is not None and value > self.most)

    @property
    def target(self) -> str:
        """The target as text; "" without one."""
        if self.least is not None:
            return f">= {self.least * self.scale:g}"
        return "" if self.most is None else f"<= {self.most * self.scale:g}"


def figures_of(parts: Sequence[str]) -> dict[str, Figure]:
    """Return the figures of these parts by name, in the order in which they are printed."""
    million = partial(Figure, scale=1e-6)
    figures = {
        "pkts_per_s": million("million packets/s, one thread: GR", "speed", least=TARGET_PKTS_PER_S),
        "pkts_per_cpu_s": million("  by processor time", "speed"),
        "cubic_pkts_per_s": million("  CUBIC", "base", least=TARGET_BASE_PKTS_PER_S),
        "cubic_pkts_per_cpu_s": million("  by processor time", "base"),
        "bbr_pkts_per_s": million("  BBRv1", "base", least=TARGET_BASE_PKTS_PER_S),
        "bbr_pkts_per_cpu_s": million("  by processor time", "base"),
        "two_threads_by_one": Figure("two threads by one", "scaling", least=TARGET_SCALING),
        "two_threads_by_one_cpu": Figure("  by processor time", "scaling"),
        **{f"flows_{count}_ns_per_pkt": Figure(f"ns a packet, {count} flows", "flows") for count in FLOW_COUNTS},
        "flows_1000_by_10": Figure("  1,000 flows by 10", "flows", most=MOST_FLOWS_RATIO),
        "gr_ns_per_ack": Figure("GR's core, ns an ACK", "core"),
        "sira_ns_per_ack": Figure("  SIRA's", "core"),
        "reno_ns_per_ack": Figure("  Reno's", "core"),
        "cubic_ns_per_ack": Figure("  CUBIC's", "core"),
        "bbr_ns_per_ack": Figure("  BBRv1's", "core"),
        "bbr3_ns_per_ack": Figure("  BBRv3's", "core"),
        "sent_log_ns_per_ack": Figure("  and its log in the kernel", "core"),
    }
    figures |= figures_of_bpf()
    return {name: figure for name, figure in figures.items() if figure.part in parts}


def figures_of_bpf() -> dict[str, Figure]:
    """Return the figures of the part `bpf` by name."""
    cubic, bbr = "CUBIC of the kernel's own in BPF", "BBRv1 in the kernel"
    figures = {
        "bpf_kernels_cubic_ns_per_ack": Figure("the kernel's CUBIC, ns an ACK", "bpf", requires=cubic),
        "bpf_kernels_cubic_mbps": Figure("the kernel's CUBIC, Gbit/s over a veth", "bpf", scale=1e-3),
        "bpf_kernels_bbr_share": Figure("the kernel's BBRv1, share of that", "bpf", requires=bbr),
    }
    for each in bpf_bench.CONTENDERS:
        name = f"{each.cca} with a table" if each.has_table else f"{each.cca} in BPF"
        figures[f"bpf_{each.label}_ns_per_ack"] = Figure(f"{name}, ns an ACK", "bpf")
        figures[f"bpf_{each.label}_share"] = Figure("  share of the kernel's CUBIC", "bpf", least=TARGET_SHARE)
    return figures


@click.command()
@click.option("--repeats", type=click.IntRange(1, 99), default=5, show_default=True, help="Runs per median.")
@click.option(
    "--duration", "duration_s", type=FiniteRange(1, 86400), default=3600.0, show_default=True,
    help="Simulated seconds of a run.",
)  # fmt: skip
@click.option("--only", "only", type=click.Choice(list(PARTS)), multiple=True, help="This part (repeatable).")
@click.option("--enforce", is_flag=True, help="Exit 1 where a target is missed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench(*, repeats: int, duration_s: float, only: tuple[str, ...], enforce: bool, as_json: bool) -> None:
    """Measure the simulator: packets per second, gain of a second thread, cost of an ACK in the core.

    \b
    `--only bpf` measures the algorithms in BPF on this machine's kernel, as root:
    cost of an ACK, and throughput beside the kernel's own CUBIC.

    \b
    Example:
      ccatune bench
      ccatune bench --enforce --json
      ccatune bench --only core
      ccatune bench --only bpf
    """
    parts = only or tuple(name for name in PARTS if name not in NAMED_ONLY)
    runs = measure(parts, repeats=repeats, duration_s=duration_s, quiet=as_json)
    medians = {name: statistics.median(values) for name, values in runs.items()}
    figures = figures_of(parts)
    # On a machine with one processor `scaling` is not measured. It then counts as 0, which misses the target.
    missed = [name for name, one in figures.items() if one.falls_short(medians.get(name, 0.0))]
    if as_json:
        result: dict[str, Any] = {
            "machine": describe_machine(),
            "runs": runs,
            "targets": {name: one.least for name, one in figures.items() if one.least is not None},
            "limits": {name: one.most for name, one in figures.items() if one.most is not None},
        }
        echo(json.dumps({**result, "missed": missed, **medians}))
    else:
        print_figures(figures, medians, runs, missed)
    if enforce and missed:
        click.get_current_context().exit(1)


def is_busy(machine: dict[str, str]) -> bool:
    """Whether other programs use the processors. The benchmark itself keeps at most two of them busy."""
    return float(machine["load_average"]) > int(machine["usable_cpus"]) + 0.5


def print_figures(
    figures: dict[str, Figure], medians: Figures, runs: dict[str, list[float]], missed: list[str]
) -> None:
    """Print the machine, then each figure with its range and target."""
    machine = describe_machine()
    for key, value in machine.items():
        echo(f"{key.replace('_', ' ')}: {value}")
    rows: list[tuple[str, ...]] = []
    lacking = []
    for name, figure in figures.items():
        verdict = ("short" if name in missed else "holds") if figure.target else ""
        if name not in runs:
            rows.append((figure.label, "-", "-", "-", figure.target, ""))
            lacking.append(f"{figure.label.strip()}: not measured, it requires {figure.requires}")
            continue
        values = [f"{value * figure.scale:.2f}" for value in (medians[name], min(runs[name]), max(runs[name]))]
        rows.append((figure.label, *values, figure.target, verdict))
    numbers = [Column(heading, "right") for heading in ("median", "least", "most", "target")]
    print_table([Column("figure", least=24, cut="end"), *numbers, Column("")], rows)
    for line in lacking:
        echo(line)
    if is_busy(machine):
        echo("the machine is busy with other work: wall times are too long")
    if "pkts_per_s" not in medians:
        return
    times = medians["pkts_per_s"] / AUTHORS_PKTS_PER_S
    echo(f"{medians['pkts_per_s'] / 1e6:.2f} million packets/s, {times:.0f} times the original authors' simulator")
