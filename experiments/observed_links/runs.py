# SPDX-License-Identifier: MIT
"""The runs: CUBIC and BBR flows over pieces of validation recordings, in the simulator and over Mahimahi.

A real run is kept in a file: the samples of the sender's socket, and when each packet left the bottleneck and how long
it had waited there, in ms of the scenario's time. A run that is there is not made again.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
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
from emulation.mahimahi.process import BARE_PYTHON, RunProcess
from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.runner import host_runner
from emulation.mahimahi.translate import to_job
from emulation.scenario.model import canonical_text
from emulation.scenario.path import AckPath, Clock, Codel, Jitter
from emulation.traces import Recording, default_traces, read_split
from experiments.campaign import pieces_of
from kmod.ensemble import write_atomically
from training.errors import TrainingError
from training.observed.flow import STEP, Flow, Limit
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
_SAMPLER = Path(__file__).with_name("sampler.py")
# Of tcp_info: name, offset, type.
_INFO = {
    "flags": (7, "u1"), "mss": (16, "<u4"), "unacked": (24, "<u4"), "sacked": (28, "<u4"), "lost": (32, "<u4"),
    "retrans": (36, "<u4"), "rtt_us": (68, "<u4"), "total_retrans": (100, "<u4"), "min_rtt_us": (148, "<u4"),
    "rwnd_limited_us": (176, "<u8"), "sndbuf_limited_us": (184, "<u8"), "delivered": (192, "<u4"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Observed:
    """A flow, and the link that it crossed: busy_s, float [k, 2], are the times in which packets waited there.

    late_s: how much later the sender learns of a delivery.
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


def make_real(scenario: Scenario, file: Path) -> float | None:
    """Make a real run, keep it, and return the share of timers that were late."""
    with kept_awake(), Watch(timers=True) as watch, tempfile.TemporaryFile() as samples:
        process = RunProcess(to_job(scenario, host_runner()), limit_s=DURATION_S + 60)
        sampler = None
        try:
            child = _child_of(process._process.pid)  # the first process of the namespaces
            words = ["nsenter", "--net", "--target", child, "--", *BARE_PYTHON, str(_SAMPLER), str(SAMPLE_S)]
            sampler = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=samples)
            while not process.is_over:
                time.sleep(0.05)
            sampler.communicate()
            result = process.result()
        finally:
            if sampler is not None:
                sampler.kill()
                sampler.wait()
            process.close()
        late = watch.during_a_run(DURATION_S).late_share
        samples.seek(0)
        rows = [json.loads(line) for line in samples.read().splitlines()]
    begin_s = (sum(stamps_ms(result["log"]) or ()) + result["lead_ms"]) / 1000
    log = link_arrays(scenario, result)
    kept = {
        "rows": [[at_s - begin_s, info] for at_s, info in rows if 0 <= at_s - begin_s <= DURATION_S],
        "departures_ms": log.departures_ms.tolist(), "delays_ms": log.delays_ms.tolist(), "late_share": late,
    }  # fmt: skip
    write_atomically(file, json.dumps(kept).encode())
    return late


def _child_of(pid: int) -> str:
    for _ in range(500):
        if words := Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            return words[0]
        time.sleep(0.01)
    raise TrainingError("mahimahi: expected the run to start a process, it did not")


def file_of(scenario: Scenario) -> str:
    """The name of the file of a real run. Another scenario has another one."""
    return f"{scenario.name}-{hashlib.sha256(canonical_text(scenario).encode()).hexdigest()[:12]}.json"


def real(scenario: Scenario, file: Path) -> Observed:
    """Observe a real run that was kept."""
    kept = json.loads(file.read_bytes())
    ends_ms = np.array(kept["departures_ms"], dtype=np.float64)
    busy_s = np.stack([ends_ms - np.array(kept["delays_ms"]), ends_ms], axis=1) / 1000
    return Observed(_flow_of(scenario, kept["rows"]), scenario, scenario.link.rtt_ms / 2000, busy_s)


def _flow_of(scenario: Scenario, rows: list[tuple[float, str]]) -> Flow:
    infos = [bytes.fromhex(info) for _, info in rows]
    columns: dict[str, NDArray[Any]] = {
        name: np.array([np.frombuffer(info, kind, 1, at)[0] for info in infos]).astype(np.int64)
        for name, (at, kind) in _INFO.items()
    }
    mss = int(columns["mss"][-1])
    steps = np.zeros(len(rows), STEP)
    steps["time_us"] = [round(at_s * 1e6) for at_s, _ in rows]
    steps["delivered_bytes"] = columns["delivered"] * mss
    steps["lost_pkts"] = columns["total_retrans"]
    # The kernel's minimum where it fell, as the readers of logs have it.
    fell = np.diff(columns["min_rtt_us"], prepend=1 << 32) < 0
    steps["rtt_us"] = np.where(fell, columns["min_rtt_us"], columns["rtt_us"])
    in_flight = columns["unacked"] - columns["sacked"] - columns["lost"] + columns["retrans"]
    steps["inflight_bytes"] = np.maximum(in_flight, 0) * mss
    steps["limit"] = np.select(
        [np.diff(columns["rwnd_limited_us"], prepend=0) > 0, np.diff(columns["sndbuf_limited_us"], prepend=0) > 0,
         columns["flags"] % 2 == 1],
        [Limit.RECEIVER, Limit.SEND_BUFFER, Limit.APPLICATION], Limit.NETWORK,
    )  # fmt: skip
    return Flow(
        name=scenario.name, source=scenario.name, kind="observe", steps=steps, algorithm=scenario.flows[0].cca,
        mss_bytes=mss,
    )  # fmt: skip
