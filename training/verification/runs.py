# SPDX-License-Identifier: MIT
"""The runs of one point on a real kernel, as a task that can be sent to another process or machine.

In BPF a kernel has one set of parameters of an algorithm, so the runs of one point may run at the same time, and those
of two points may not. A task therefore has all runs of a point in a state.

A run is late if Mahimahi's shells woke up late too often (emulation/mahimahi/machine.py). Late and failed runs are
repeated with fewer beside them. After TRIES the run that was the least late counts, and the ensemble states its share
of late timers.

Without a kernel (`simulator`) the path has Mahimahi's clock of whole ms (emulation/mahimahi/clock.py). The bursts of
ACKs of emulation/mahimahi/path.py were fitted to BBR and CUBIC. Over them GR with short windows is slower than on the
kernel.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from emulation.errors import EmulationError
from emulation.mahimahi import in_bpf
from emulation.mahimahi import runner as host
from emulation.mahimahi.clock import with_clock_of_mahimahi
from emulation.mahimahi.logs import TunnelLog
from emulation.mahimahi.machine import LATE_MOST, Watch
from emulation.mahimahi.processors import kept_awake
from emulation.pantheon.runner import lacking as lacking_for_schemes
from emulation.pantheon.scenarios import run_scenarios
from emulation.run.measures import Trial
from emulation.run.qos import QoS
from emulation.run.simulator import compact_edges_us, core_version, simulate_many
from emulation.scenario.model import Scenario
from emulation.vm import lacking as lacking_for_guests
from emulation.vm import runner as guest
from emulation.vm.kernels import FULL_LINE, kernel_line
from training.errors import TrainingError
from training.objectives import Objective, Tally
from training.objectives.retransmissions import LeastRetransmissions
from training.verification.settings import RunnerName

TRIES = 4
ON_THIS_KERNEL = frozenset({"mahimahi", "pantheon"})
# Of IPv4 and TCP with timestamps. A packet up to CONTROL_BYTES carries no data.
HEADER_BYTES = 52
CONTROL_BYTES = 80
Keep = Callable[[str, dict[str, Any]], None]
"""Receives the name and the data of each finished run."""


@dataclass(frozen=True)
class VerifyTask:
    """The runs of a point on cases of a state; picklable, and its results are JSON data.

    numbers: of the runs that are missing; the run of a number has the scenario of that number. most_late: share of late
    timers, above which a run is late.
    """

    name: str
    runner: RunnerName
    trial: Trial
    scenarios: tuple[Scenario, ...]
    numbers: tuple[int, ...]
    most_late: float = LATE_MOST

    def run(self, keep: Keep, *, width: int) -> bool:
        """Make the runs, at most `width` at the same time. Whether all were in time at the first try.

        Raises:
            TrainingError: a run failed at every try.
        """
        missing, best, errors = list(self.numbers), dict[int, dict[str, Any]](), dict[int, str]()
        for tried in range(TRIES):
            beside = max(width - tried, 1) if self.runner in ON_THIS_KERNEL else len(missing)
            for at in range(0, len(missing), beside):
                for number, found in self._side_by_side(missing[at : at + beside], errors).items():
                    found["tries"] = tried + 1
                    if number not in best or found["late_share"] < best[number]["late_share"]:
                        best[number] = found
                    if not self._is_late(best[number]):
                        keep(f"{self.name}-{number}", best[number])
            missing = [number for number in missing if number not in best or self._is_late(best[number])]
            if not missing:
                return tried == 0
        for number in missing:
            if number not in best:
                raise TrainingError(f"{self.name}: expected a run over {self.runner}, got none in {TRIES} tries: "
                                    f"{errors[number]}; run the same command with --resume")  # fmt: skip
            keep(f"{self.name}-{number}", best[number])
        return False

    def _is_late(self, found: Mapping[str, Any]) -> bool:
        return bool(found["late_share"] > self.most_late)

    def _side_by_side(self, numbers: Sequence[int], errors: dict[int, str]) -> dict[int, dict[str, Any]]:
        """The results of these runs, by number, and the errors of those that failed."""
        scenarios = [self.trial.on(self.scenarios[number]) for number in numbers]
        results: dict[int, dict[str, Any]] = {}

        def each(at: int, found: QoS | TunnelLog | EmulationError, late_share: float | None = None) -> None:
            if isinstance(found, EmulationError):
                errors[numbers[at]] = str(found)
                return
            scenario = scenarios[at]
            tally = _tally_json(scenario, found) if isinstance(found, QoS) else _tally_of_log(scenario, found)
            results[numbers[at]] = {"late_share": late_share or 0.0, "tally": tally}

        try:
            _emulate_each(self.runner, scenarios, each)
        except EmulationError as error:
            errors.update({number: str(error) for number in numbers if number not in results})
        return results


def _emulate_each(runner: RunnerName, scenarios: Sequence[Scenario], each: Callable[..., None]) -> None:
    if runner == "simulator":
        for at, qos in enumerate(simulate_many([with_clock_of_mahimahi(scenario) for scenario in scenarios])):
            each(at, qos)
    elif runner == "vm":
        guest.emulate_each(scenarios, each)
    else:
        with kept_awake(), Watch(timers=True) as machine:

            def watched(at: int, found: Any) -> None:
                each(at, found, machine.during_a_run(scenarios[at].duration_s).late_share)

            if runner == "pantheon":
                run_scenarios(scenarios, watched, jobs=len(scenarios))
            else:
                host.emulate_each(scenarios, watched)


def require_runner(runner: RunnerName, cca: str) -> None:
    """See that the runner can run the algorithm, before a search that takes long.

    Raises:
        EmulationError, TrainingError: it lacks something; the message says how to get it.
    """
    if runner == "vm" and (lacks := lacking_for_guests()):
        raise TrainingError(f"verify: expected the virtual machine, but {lacks}")
    if runner == "simulator":
        return
    if runner == "pantheon" and (lacks := lacking_for_schemes()):
        raise TrainingError(f"verify: expected the runner pantheon, but {lacks}")
    found = guest.guest_runner() if runner == "vm" else host.host_runner()
    if cca not in found.tunable:
        remedy = found.remedies.get(cca) or "use the runner vm"
        raise TrainingError(
            f"verify: expected an algorithm that the runner {runner} has with parameters "
            f"({', '.join(sorted(found.tunable)) or 'none'}), got {cca}; {remedy}"
        )


def on_kernel(runner: RunnerName, objectives: Sequence[Objective]) -> list[Objective]:
    """The objectives. If the runner's kernel lacks the unmodified algorithm, the defaults take its place."""
    if runner == "simulator":
        return list(objectives)
    has = (guest.guest_runner() if runner == "vm" else host.host_runner()).algorithms
    return [
        replace(one, unmodified=one.defaults)
        if isinstance(one, LeastRetransmissions) and one.unmodified not in has else one
        for one in objectives
    ]  # fmt: skip


def made_with(runner: RunnerName, cca: str) -> dict[str, str]:
    """The versions that runs are made with. A kept run of other versions is made anew."""
    if runner == "simulator":
        return {"runner": runner, "kernel": "", cca: core_version()[:12]}
    if runner == "vm":
        return {"runner": runner, "kernel": kernel_line(FULL_LINE).release, cca: "module"}
    version = in_bpf.version_here(cca)
    return {
        "runner": runner,
        "kernel": platform.release(),
        cca: version if version.startswith("module") else f"BPF {version[:12]}",
    }


def _tally_json(scenario: Scenario, qos: QoS) -> dict[str, Any]:
    """The counts of a run. Delays: (bin, packets) of each bin of compact_edges_us() that has packets.

    A file that was not complete at the end of the run counts as complete at that time, with the bytes that arrived.
    """
    duration_s = scenario.duration_s - scenario.warmup_s
    goodput_bytes = round(qos.goodput_mbps * 125_000 * duration_s)
    files = [transfer for flow in qos.flows for transfer in flow.transfers]
    sent_pkts = qos.sent if files else qos.packets  # a policer drops packets in front of the link
    if files:
        duration_s = sum((its.complete_s or scenario.duration_s) - its.start_s for its in files)
    delays = qos.windows.delays().counts
    return {
        "duration_s": duration_s,
        "capacity_bytes": int(qos.windows.capacity_bytes.sum()),
        "delivered_bytes": int(qos.windows.delivered_bytes.sum()),
        "goodput_bytes": goodput_bytes,
        "packets": qos.packets,
        "sent_pkts": sent_pkts,
        "retransmitted_pkts": round(qos.retransmission_rate * sent_pkts),
        "delays": [[int(at), int(delays[at])] for at in np.flatnonzero(delays)],
    }


def _tally_of_log(scenario: Scenario, log: TunnelLog) -> dict[str, Any]:
    """The same of packets at both ends of the path. A packet that did not arrive counts as retransmitted.

    Goodput is the payload of the data packets that arrived, and so includes packets that arrived twice.
    """
    start_ms, end_ms = scenario.warmup_s * 1000, scenario.duration_s * 1000
    left, entered = log.left, log.entered
    chosen = (left.times_ms > start_ms) & (left.times_ms <= end_ms) & (left.bytes > CONTROL_BYTES)
    sent = (entered.times_ms > start_ms) & (entered.times_ms <= end_ms) & (entered.bytes > CONTROL_BYTES)
    opened = (log.capacity.times_ms > start_ms) & (log.capacity.times_ms <= end_ms)
    queueing_us = np.maximum((left.delay_ms[chosen] - scenario.link.rtt_ms / 2) * 1000, 0.0)
    edges_us = compact_edges_us()
    bins = np.minimum(np.searchsorted(edges_us, queueing_us, side="left"), len(edges_us) - 1)
    delays = np.bincount(bins, minlength=len(edges_us))
    packets = int(chosen.sum())
    return {
        "duration_s": scenario.duration_s - scenario.warmup_s,
        "capacity_bytes": int(log.capacity.bytes[opened].sum()),
        "delivered_bytes": int(left.bytes[chosen].sum()),
        "goodput_bytes": int((left.bytes[chosen] - HEADER_BYTES).sum()),
        "packets": packets,
        "sent_pkts": int(sent.sum()),
        "retransmitted_pkts": max(int(sent.sum()) - packets, 0),
        "delays": [[int(at), int(delays[at])] for at in np.flatnonzero(delays)],
    }


def tally_of(found: Mapping[str, Any], *, group: str, references: Mapping[str, Tally] | None = None) -> Tally:
    """The tally of a kept run. group: of its case."""
    fields = dict(found["tally"])
    delays = np.zeros(len(compact_edges_us()), dtype=np.uint32)
    for at, packets in fields.pop("delays"):
        delays[at] = packets
    return Tally(**fields, delays=delays, group=group, references=references or {})
