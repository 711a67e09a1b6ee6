# SPDX-License-Identifier: MIT
"""The figures that come from the database: those of the whole fleet, and of the database itself.

A scrape reads them if they are older than `metrics_every_s`, in a thread for reads. If the database does not answer, or
takes longer than `_PATIENCE_S`, the scrape gets those of the last reading; `ccatune_metrics_database_age_seconds` says
how old they are.

Every process on one database has the same figures here, except for the counters of `qos.py`. Add up nothing over
instances: take the maximum.

How an agent stands (silent, trouble, behind, waiting or well) is defined in serving/agents/standing.py. The lag of a
channel is the age of the oldest deployment that an agent misses which is behind; 0 if there is none.

Bounds on the number of series: the MOST_CHANNELS oldest channels; all agents of others count under the channel `other`.
States of agents are those that this version knows, and `other`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, get_args

from prometheus_client import Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from serving.access.grants import local_caller
from serving.agent.state import State
from serving.agents import standing
from serving.context import Context
from serving.database import DeploymentRow
from serving.drift import repository as drift
from serving.drift.schemas import Verdict
from serving.drift.service import ChannelDrift
from serving.errors import ServingError, SettingsError
from serving.http.counted_log import CountedLog
from serving.http.tls import certificate_ends_at
from serving.jobs.schemas import JobState
from serving.metrics import repository
from serving.metrics.families import Labels, counter, gauge
from serving.metrics.qos import QosCounters
from serving.qos.schemas import hour_of
from serving.roots import service as roots

MOST_CHANNELS: Final = 100
_PATIENCE_S = 3.0
_OTHER = "other"
_STATES = frozenset(State)
_OPEN = ("running", "paused")
_ENDED = ("promoted", "aborted")

_log = logging.getLogger(__name__)


class FleetFigures(Collector):
    """The figures of the last reading. All methods but `collect` belong to the event loop."""

    def __init__(self, context: Context, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._monotonic = monotonic
        self._qos = QosCounters()
        self._targets: dict[str, list[tuple[int, int]]] = {}
        self._families: Sequence[Metric] = ()
        self._read_s = monotonic()
        self._next_s = self._read_s
        self._reading: asyncio.Task[None] | None = None
        self._failures = CountedLog(_log, interval_s=60.0)

    async def refresh(self) -> None:
        """Read the figures if they are old, and wait for them for a while."""
        if self._reading is None and self._monotonic() >= self._next_s:
            self._next_s = self._monotonic() + self._context.settings.metrics_every_s
            self._reading = asyncio.get_running_loop().create_task(self._read())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=_PATIENCE_S)

    def collect(self) -> Iterable[Metric]:
        """Give the figures."""
        age_s = self._monotonic() - self._read_s
        yield gauge("metrics_database_age_seconds", "Time since figures were last read from the database.", age_s)
        yield from self._families

    async def _read(self) -> None:
        began_s = self._monotonic()
        try:
            self._families = await self._context.reads.run(self._families_now)
            self._read_s = began_s
        except (SQLAlchemyError, ServingError) as error:
            self._failures.warning("figures could not be read %d times so far; the last one: %s", error)
        except Exception:  # a fault of this program must not end the figures of this process, too
            _log.exception("figures could not be read")
        finally:
            self._reading = None

    def _families_now(self) -> list[Metric]:
        context = self._context
        began_s = time.perf_counter()
        with context.database.read() as session:
            repository.ping(session)
            ping_s = time.perf_counter() - began_s
            now = context.clock()
            current = repository.channels(session, limit=MOST_CHANNELS)
            return [
                gauge("database_ping_seconds", "Time to open a transaction and query nothing.", ping_s),
                *_database(session, context),
                *_agents(session, current, now=now),
                *_delivery(session, current, now=now),
                *_rollouts(session, current),
                *self._drift(session, current, now=now),
                *self._quality(session, current, now=now),
                *_jobs(session, now=now),
                *_expiries(session, context),
            ]

    def _drift(self, session: Session, current: Sequence[DeploymentRow], *, now: datetime) -> list[Metric]:
        summaries = self._context.part(ChannelDrift).summaries(session, current, now=now)
        verdicts = {
            (*_name(row), verdict): float(found.verdict == verdict)
            for row, found in zip(current, summaries, strict=True)
            for verdict in get_args(Verdict)
        }
        said = "Whether this is the verdict on a channel's flows, compared with the training of its ensemble."
        return [gauge("channel_drift", said, verdicts, "cca", "channel", "verdict")]

    def _quality(self, session: Session, current: Sequence[DeploymentRow], *, now: datetime) -> list[Metric]:
        names = {row.channel_id: _name(row) for row in current}
        hour = hour_of(now)
        rows = repository.qos(session, channel_ids=names, since_hour=self._qos.since_hour(hour))
        self._qos.add(rows, now_hour=hour)
        missing = {row.digest for row in current} - set(self._targets)
        read = {digest: _targets_of(text) for digest, text in drift.documents(session, missing).items()}
        known = self._targets | read
        self._targets = {row.digest: known[row.digest] for row in current}
        of_class = {
            (*_name(row), str(number)): target
            for row in current
            for number, target in enumerate(self._targets[row.digest])
        }
        return [
            *self._qos.families(names),
            gauge("qos_target_ratio", "Share of the delay samples that a class wants within its target.",
                  {key: percentile / 100 for key, (percentile, _) in of_class.items()}, "cca", "channel", "class"),
            gauge("qos_target_seconds", "Queueing delay that is the target of a class.",
                  {key: delay_us / 1e6 for key, (_, delay_us) in of_class.items()}, "cca", "channel", "class"),
        ]  # fmt: skip


def _database(session: Session, context: Context) -> list[Metric]:
    file = context.database.sqlite_file
    if file is None:
        size_bytes = repository.size_bytes(session)
    else:
        size_bytes = 0
        for part in (file, file.with_name(f"{file.name}-wal")):
            with contextlib.suppress(OSError):
                size_bytes += part.stat().st_size
    revision = repository.schema_revision(session) or ""
    return [
        gauge("database_size_bytes", "Size of the database.", size_bytes),
        gauge(
            "database_schema_version",
            "Number of the database's last migration.",
            int(revision) if revision.isdecimal() else 0,
        ),
    ]


def _agents(session: Session, current: Sequence[DeploymentRow], *, now: datetime) -> list[Metric]:
    known = {_name(row) for row in current}
    states = {(*key, state.value): 0.0 for key in known for state in State}
    for cca, channel, state, number in repository.agents_by_state(session):
        key = (*_known((cca, channel), known), state if state in _STATES else _OTHER)
        states[key] = states.get(key, 0.0) + number
    standings = {(*key, name): 0.0 for key in known for name in standing.STANDINGS}
    for name, counted in standing.counts(session, now=now, within=local_caller(_OTHER).grant).items():
        for one, number in counted.items():
            key = (*_known(name, known), one)
            standings[key] = standings.get(key, 0.0) + number
    return [
        gauge("agents", "Agents by the state of their last report.", states, "cca", "channel", "state"),
        gauge("agents_standing", "Agents by how they stand; behind: without the table that the channel offers.",
              standings, "cca", "channel", "standing"),
    ]  # fmt: skip


def _delivery(session: Session, current: Sequence[DeploymentRow], *, now: datetime) -> list[Metric]:
    lowest = standing.lowest_behind(session, now=now)
    lags_s = {}
    for row in current:
        missed = None
        if _name(row) in lowest:
            missed = repository.deployed_after(session, channel_id=row.channel_id, serial=lowest[_name(row)])
        lags_s[_name(row)] = _age_s(missed, now)
    serials = {_name(row): float(row.serial) for row in current}
    ages_s = {_name(row): _age_s(row.deployed_at, now) for row in current}
    labels = ("cca", "channel")
    return [
        gauge("delivery_lag_seconds", "Age of the oldest deployment that an agent misses which is behind.", lags_s,
              *labels),
        gauge("channel_serial", "Serial of a channel's current deployment.", serials, *labels),
        gauge("channel_deployment_age_seconds", "Time since a channel's current deployment.", ages_s, *labels),
    ]  # fmt: skip


def _rollouts(session: Session, current: Sequence[DeploymentRow]) -> list[Metric]:
    numbers = repository.rollouts_by_state(session)

    def by(states: Iterable[str]) -> dict[Labels, float]:
        # With the zeros, so that the first one is an increase.
        return {(*_name(row), state): float(numbers.get((row.channel_id, state), 0)) for row in current
                for state in states}  # fmt: skip

    labels = ("cca", "channel", "state")
    return [
        gauge("rollouts", "Roll-outs that have not ended.", by(_OPEN), *labels),
        counter("rollouts_ended", "Roll-outs that have ended.", by(_ENDED), *labels),
    ]


def _jobs(session: Session, *, now: datetime) -> list[Metric]:
    numbers = {(state,): 0.0 for state in get_args(JobState)} | {
        (state,): float(number) for state, number in repository.jobs_by_state(session).items()
    }
    age_s = _age_s(repository.oldest_queued(session), now)
    busy = repository.n_busy_runners(session, now=now)
    return [
        gauge(
            "jobs", "Training jobs that the registry keeps; ended ones are deleted after some days.", numbers, "state"
        ),
        gauge("jobs_queued_oldest_seconds", "Age of the oldest queued job.", age_s),
        gauge("runners_busy", "Runners that have a job.", busy),
    ]


def _expiries(session: Session, context: Context) -> list[Metric]:
    root = roots.trusted(session)
    root_s = None if root is None else root.root.expires_s
    tls_s = None
    if context.settings.tls_cert_file is not None:
        with contextlib.suppress(SettingsError):
            tls_s = certificate_ends_at(context.settings.tls_cert_file).timestamp()
    return [
        gauge("root_expiry_timestamp_seconds", "When the newest root document expires.", root_s),
        gauge("tls_certificate_expiry_timestamp_seconds", "When the registry's certificate expires.", tls_s),
    ]


def _targets_of(document: str) -> list[tuple[int, int]]:
    """Return percentile and delay in microseconds of each class of an ensemble."""
    return [(one["percentile"], one["queueing_delay_us"]) for one in json.loads(document)["classes"]]


def _known(name: tuple[str, str], known: Collection[tuple[str, str]]) -> tuple[str, str]:
    return name if name in known else (_OTHER, _OTHER)


def _age_s(moment: datetime | None, now: datetime) -> float:
    """Return the time since a moment; 0 for none, and if the clock was set back since."""
    return 0.0 if moment is None else max((now - moment).total_seconds(), 0.0)


def _name(row: DeploymentRow) -> tuple[str, str]:
    return row.channel.cca, row.channel.name
