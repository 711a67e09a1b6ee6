# SPDX-License-Identifier: MIT
"""Small recordings and a small study, for tests that run the real engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from emulation.traces import Recording, Trace
from training.study import StudySettings, setting_of
from training.workloads import Epochs, Workload

STUDY = {
    "schema": "ccatune-study/2",
    "cca": "gr",
    "axes": {"throughput": {"count": 8}},
    "clock": {"epoch_s": 5},
    "workload": {"kind": "epochs", "shortest_s": 3, "minimum": 2, "maximum": 6},
    "objective": {"kind": "delay", "classes": [{"queueing_delay_ms": 50}, {"queueing_delay_ms": 100}]},
    "ranges": {"bandwidth_window_us": [5000, 100000], "adaptation_interval_us": [1000, 20000]},
    "search": {"kind": "dds", "intervals": 4, "steps": 4, "restarts": 1},
}
FINAL = {
    "name": "final",
    "group_by": ["throughput"],
    "candidates_from": ["level", "single"],
    "neighbours": 1,
    "search": {"kind": "local", "steps": 3},
    "sample": {"maximum": 40},
}
STAGES = [{"name": "single"}, {"name": "level", "group_by": ["throughput"]}, FINAL]


def study(**changes: object) -> StudySettings:
    """The small study, with other choices at its top."""
    return StudySettings.model_validate({**STUDY, **changes})


def workload(settings: StudySettings, recordings: Sequence[Recording] = (), **more: Any) -> Workload:
    """The workload of a study over these recordings."""
    return settings.workload.open(setting_of(settings, recordings=recordings, **more))


def epochs_of_links(settings: StudySettings, recordings: Sequence[Recording] = (), **more: Any) -> Epochs:
    """The same of a study on recorded links."""
    found = workload(settings, recordings, **more)
    assert isinstance(found, Epochs)
    return found


def steps_ms(*, seconds: int, seed: int) -> np.ndarray:
    """Opportunities of a link whose rate steps between 1 and 7 Mbit/s every 5 s."""
    rng = np.random.default_rng(seed)
    rates_mbps = np.repeat(rng.uniform(1, 7, -(-seconds // 5)), 5)[:seconds]
    counts = rng.poisson(np.repeat(rates_mbps / 12, 1000))
    return np.repeat(np.arange(len(counts), dtype=np.uint32), counts)


def recording(name: str = "a", *, seconds: int = 60, seed: int = 1, dataset: str = "made-train") -> Recording:
    """A made recording."""
    trace = Trace(name, steps_ms(seconds=seconds, seed=seed), seconds * 1000)
    return Recording(name, dataset, trace, (), (name,))


def constant(rate_mbps: float, *, seconds: int = 60, name: str = "constant") -> Recording:
    """A link of one rate."""
    count = int(rate_mbps * seconds * 1e6 / 12000)
    times_ms = (np.arange(count) * (seconds * 1000 / count)).astype(np.uint32)
    return Recording(name, "made-train", Trace(name, times_ms, seconds * 1000), (), (name,))


def write_traces(folder: Path, *, files: int = 2, seconds: int = 60, seed: int = 1) -> Path:
    """The same as files in a folder, which is made."""
    folder.mkdir(parents=True)
    for i in range(files):
        lines = "\n".join(map(str, steps_ms(seconds=seconds, seed=seed + i)))
        (folder / f"{'abcdef'[i]}.down").write_text(lines + "\n", encoding="ascii")
    return folder
