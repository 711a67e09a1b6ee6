# SPDX-License-Identifier: MIT
"""Makes data folders as Pantheon writes them, from a simple model of flows on a link, for the tests of its formats.

The link has an opportunity each ms. Packets leave at a share of the opportunities, a random flow at each. The delay is
the propagation plus a queue that grows and is drained periodically, as a loss-based scheme's does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from emulation.mahimahi.logs import Departures, Events, FlowEvents, TunnelLog, log_path, write_log
from emulation.pantheon.metadata import CcatuneEntries, Metadata, RunNote, write_metadata
from emulation.pantheon.statistics import write_stats_log

INIT_MS = 1_700_000_000_000.25
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Model:
    """How a scheme behaves. share: of the opportunities that it uses. queue_ms: the peak of its queue."""

    share: float
    queue_ms: float
    period_s: float
    loss: float


MODELS = {
    "cubic": Model(0.97, 170, 6.5, 0.012),
    "bbr": Model(0.93, 45, 2.1, 0.004),
    "gr": Model(0.95, 28, 3.3, 0.0),
}


def tunnel_log(
    model: Model, *, seconds: float, flows: int = 1, interval_s: float = 0, seed: int = 1, propagation_ms: float = 30
) -> TunnelLog:
    """Return the log of one run."""
    rng = np.random.default_rng(seed)
    slots_ms = np.arange(1, round(seconds * 1000), dtype=np.float64)
    size = 1500
    used_ms = slots_ms[rng.random(len(slots_ms)) < model.share * (1 - rng.random() * 0.2)]
    used_ms = used_ms[used_ms > propagation_ms + model.queue_ms + 60]
    running = np.clip((used_ms / 1000 / max(interval_s, 1e-9)).astype(int) + 1, 1, flows)
    flow = rng.integers(0, running) + 1
    phase = (used_ms / 1000 / model.period_s + rng.random()) % 1
    queue_ms = model.queue_ms * (0.35 + 0.65 * phase**0.6) * (1 + 0.08 * rng.standard_normal(len(used_ms)))
    delay_ms = propagation_ms + np.maximum(queue_ms, 0) + rng.exponential(0.4, len(used_ms))
    lost = rng.random(len(used_ms)) < model.loss
    entered_ms = np.concatenate([used_ms - delay_ms, (used_ms - delay_ms)[lost] + 0.3])
    entered_flow = np.concatenate([flow, flow[lost]])
    return TunnelLog(
        INIT_MS,
        Events(slots_ms, np.full(len(slots_ms), size)),
        FlowEvents(entered_ms, np.full(len(entered_ms), size), entered_flow),
        Departures(used_ms, np.full(len(used_ms), size), delay_ms, flow),
    ).as_written()


def make_folder(
    folder: Path,
    *,
    seconds: int = 4,
    flows: int = 2,
    interval_s: int = 1,
    runs: int = 3,
    link: str | None = None,
    propagation_ms: float = 30,
    models: dict[str, Model] | None = None,
) -> Path:
    """Make a folder in which the last run of bbr failed and the second run of gr was too short."""
    folder.mkdir(parents=True, exist_ok=True)
    models = models or MODELS
    for number, (scheme, model) in enumerate(models.items()):
        for run in range(1, runs + 1):
            if (scheme, run) == ("bbr", runs):
                continue
            lasting = 0.5 * seconds if (scheme, run) == ("gr", 2) else seconds
            log = tunnel_log(
                model,
                seconds=lasting,
                flows=flows,
                interval_s=interval_s,
                seed=100 * number + run,
                propagation_ms=propagation_ms,
            )
            write_log(log, log_path(folder, scheme=scheme, run=run, kind="datalink"))
            start = START + timedelta(minutes=run, seconds=number * (seconds + 5))
            path = log_path(folder, scheme=scheme, run=run, kind="stats")
            write_stats_log(path, start=start, end=start + timedelta(seconds=seconds))
    write_metadata(
        metadata(tuple(models), seconds=seconds, flows=flows, interval_s=interval_s, runs=runs, link=link), folder
    )
    return folder


def metadata(
    schemes: tuple[str, ...], *, seconds: int, flows: int, interval_s: int, runs: int, link: str | None = None
) -> Metadata:
    """Return the metadata of such a folder."""
    failed = RunNote(verdict="crashed", reason="the receiver exited with status 1", output="bbr_run3.out")
    return Metadata(
        mode="local",
        cc_schemes=tuple(sorted(schemes)),
        run_times=runs,
        flows=flows,
        runtime=seconds,
        interval=interval_s,
        uplink_trace="traces/12mbps.trace",
        downlink_trace="traces/12mbps.trace",
        prepend_mm_cmds="mm-delay 30",
        extra_mm_link_args="--uplink-queue=droptail --uplink-queue-args=packets=200",
        git_summary="no repository",
        ccatune=CcatuneEntries(
            link=link,
            versions={"ccatune": "0.1.0", "Linux": "6.12.9"},
            ensembles={"gr": "sha256:8d2f6f1c"} if "gr" in schemes else {},
            runs={"bbr": {runs: failed}} if "bbr" in schemes else {},
        ),
    )
