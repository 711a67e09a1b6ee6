# SPDX-License-Identifier: MIT
"""The figures of this process: what it holds and what waits in it. They are read when a scrape asks."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.registry import Collector

from serving.agents.intake import ReportIntake
from serving.channels.watch import ChannelWatch
from serving.context import Context
from serving.jobs.runners import RunnersSeen
from serving.metrics.families import counter, gauge


class ProcessFigures(Collector):
    """The figures of one process. version: of ccatune."""

    def __init__(self, context: Context, *, version: str) -> None:
        self._context = context
        self._version = version

    def collect(self) -> Iterable[Metric]:
        """Give the figures."""
        context = self._context
        reports = context.part(ReportIntake)
        pools = (context.reads, context.writes)
        write_age_s = time.monotonic() - context.writes.last_success_s
        info = {(self._version, platform.python_version(), context.registry): 1.0}
        failures = {
            (pool.name, cause): float(number)
            for pool in pools
            for cause, number in (("database", pool.n_failed), ("refused", pool.n_refused))
        }
        return [
            gauge("build_info", "Version of the registry, and its name.", info, "version", "python", "registry"),
            gauge("http_polls_held", "Long polls that are held now.", context.part(ChannelWatch).n_waiting),
            gauge("reports_queued", "Reports of agents that wait to be written.", reports.n_queued),
            gauge("reports_queue_limit", "Most reports that may wait.", reports.max_queued),
            gauge("work_pending", "Database work that runs or waits for a thread.",
                  {(pool.name,): float(pool.n_pending) for pool in pools}, "pool"),
            gauge("work_limit", "Most database work that may run or wait.",
                  {(pool.name,): float(pool.max_pending) for pool in pools}, "pool"),
            counter("work_failures", "Database work that failed, or that was refused because it would wait too long.",
                    failures, "pool", "cause"),
            gauge("database_write_age_seconds", "Time since a write of this process succeeded.", write_age_s),
            gauge("runners", "Runners that lately asked this process for a job or sent a heartbeat to it.",
                  context.part(RunnersSeen).number),
        ]  # fmt: skip
