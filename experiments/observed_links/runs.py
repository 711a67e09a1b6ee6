# SPDX-License-Identifier: MIT
"""The runs: CUBIC and BBR flows over pieces of validation recordings, in the simulator and over Mahimahi.

A real run is kept in a folder. It has the files of `ccatune observe`, with --acks also those of
`ccatune observe --acks`, and for each packet the time when it left the bottleneck and its wait there, in ms of the
scenario's time. A run that is kept is not repeated.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation import FlowSpec, LinkSpec, Scenario, simulate
from emulation.mahimahi.arrays import link_arrays
from emulation.mahimahi.machine import Watch
from emulation.mahimahi.namespace.run_job import stamps_ms
from emulation.mahimahi.process import RunProcess
from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.runner import host_runner
from emulation.mahimahi.translate import to_job
from emulation.scenario.model import canonical_text
from emulation.scenario.path import AckPath, Clock, Codel, Jitter
from emulation.traces import Recording, default_traces, read_split
from experiments.campaign import pieces_of
from kmod.ensemble import write_atomically
from training.errors import TrainingError
from training.observed.flow import Flow
from training.observed.samples import read_samples
from training.observed.simulated import observed_run

ALGORITHMS = ("cubic", "bbr")
DATASETS = {"pqsa-4g": 8, "pqsa-3g": 4, "mahimahi-mobile": 8}  # pieces of each
DURATION_S, SAMPLE_S = 25.0, 0.2
PLAIN = {"rtt_ms": 40.0, "buffer_pkts": 300}
# Paths of the simulator, by what they change.
PATHS: dict[str, dict[str, Any]] = {
    "plain": {}, "rtt-20": {"rtt_ms": 20.0}, "rtt-250": {"rtt_ms": 250.0}, "buffer-60": {"buffer_pkts": 60},
    "acks-10": {"acks": AckPath(interval_ms=10)}, "acks-40": {"acks": AckPath(interval_ms=40)},
    "jitter-30": {"behind": (Jitter(max_ms=30),)}, "hold-40": {"behind": (Clock(least_ms=10, most_ms=40),)},
    "loss-0.1": {"loss": 0.001}, "codel": {"codel": Codel()},
}  # fmt: skip
OBSERVED, OBSERVED_ACKS, LINK = "observed", "observed-acks", "link.json"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, eq=False)
class Observed:
    """A flow, and the link that it crossed: busy_s, float [k, 2], are the times in which packets waited there.

    late_s: from the link's time of a delivery to the flow's.
    """

    flow: Flow
    scenario: Scenario
    late_s: float
    busy_s: NDArray[np.float64] = field(repr=False)


def pieces(paths: Sequence[Path]) -> list[Recording]:
    """20 pieces of the validation recordings, spread evenly over them."""
    found = []
    for name, most in DATASETS.items():

        def wanted(dataset: str, name: str = name) -> bool:
            return dataset.startswith(name)

        reading = read_split(list(paths) or default_traces(), part="validation", only=wanted)
        links = [each for each in reading.recordings if not each.files[0].endswith(".up")]
        found += pieces_of(links, length_s=DURATION_S, most=most)
    return found


def scenarios(paths: Sequence[Path], *, path: str = "plain") -> list[Scenario]:
    """A scenario for each piece and algorithm, over one of PATHS."""
    return [
        Scenario(
            name=f"{number:02}-{cca}", link=LinkSpec.model_validate({"trace": piece.trace, **PLAIN, **PATHS[path]}),
            flows=(FlowSpec(cca=cca),), duration_s=DURATION_S,
        )
        for number, piece in enumerate(pieces(paths)) for cca in ALGORITHMS
    ]  # fmt: skip


def simulated(scenario: Scenario, *, sample_s: float | None) -> Observed:
    """Observe a simulated run."""
    series = simulate(scenario, series_every_s=1e-3).series
    ends_s = series["time_s"][series["queue_pkts"] > 0]
    return Observed(observed_run(scenario, sample_s=sample_s), scenario, scenario.link.rtt_ms / 1000,
                    np.stack([ends_s - 1e-3, ends_s], axis=1))  # fmt: skip


def make_real(scenario: Scenario, folder: Path, *, names: Sequence[str] = (OBSERVED,)) -> float | None:
    """Make a real run, keep it in a folder, and return the share of timers that were late.

    `ccatune observe` samples it in the namespaces of the run. One process runs for each of names, OBSERVED or
    OBSERVED_ACKS, at the same time.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with kept_awake(), Watch(timers=True) as watch:
        process = RunProcess(to_job(scenario, host_runner()), limit_s=DURATION_S + 60)
        observers = []
        try:
            child = _child_of(process._process.pid)  # the first process of the namespaces
            observers += [_observer(child, folder / name, acks=name == OBSERVED_ACKS) for name in names]
            while not process.is_over:
                time.sleep(0.05)
            for observer in observers:
                observer.terminate()
                observer.wait(20)
            result = process.result()
        finally:
            for observer in observers:
                observer.kill()
                observer.wait()
            process.close()
        late = watch.during_a_run(DURATION_S).late_share
    log = link_arrays(scenario, result)
    kept = {
        "begins_s": (sum(stamps_ms(result["log"]) or ()) + result["lead_ms"]) / 1000, "late_share": late,
        "departures_ms": log.departures_ms.tolist(), "delays_ms": log.delays_ms.tolist(),
    }  # fmt: skip
    write_atomically(folder / LINK, json.dumps(kept).encode())
    return late


def _observer(child: str, folder: Path, *, acks: bool) -> subprocess.Popen[bytes]:
    words = ["nsenter", "--net", "--target", child, "--", sys.executable, "-m", "serving.agent", "observe",
             "--folder", str(folder), "--share", "1", "--find-s", "0.2", "--every-ms", f"{SAMPLE_S * 1000:.0f}",
             *(["--acks", "--most-acks", "20000"] if acks else [])]  # fmt: skip
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)


def _child_of(pid: int) -> str:
    for _ in range(500):
        if words := Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            return words[0]
        time.sleep(0.01)
    raise TrainingError("mahimahi: expected the run to start a process, it did not")


def folder_of(scenario: Scenario, work: Path) -> Path:
    """The folder of a real run. Another scenario has another one."""
    return work / f"{scenario.name}-{hashlib.sha256(canonical_text(scenario).encode()).hexdigest()[:12]}"


def real(scenario: Scenario, folder: Path, *, name: str = OBSERVED) -> Observed:
    """Observe a real run that was kept. name: OBSERVED or OBSERVED_ACKS."""
    kept = json.loads((folder / LINK).read_bytes())
    ends_ms = np.array(kept["departures_ms"], dtype=np.float64)
    busy_s = np.stack([ends_ms - np.array(kept["delays_ms"]), ends_ms], axis=1) / 1000
    flow = max(read_samples(folder / name), key=lambda flow: int(flow.steps["delivered_bytes"][-1]))
    return Observed(flow, scenario, scenario.link.rtt_ms / 2000 + kept["begins_s"] - flow.start_s, busy_s)
