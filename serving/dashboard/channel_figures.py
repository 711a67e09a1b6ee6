# SPDX-License-Identifier: MIT
"""The figures of a channel's page: how fast its last move arrived, and what its flows met by hour and serial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from serving.access.grants import Grant
from serving.agents import repository as agents
from serving.dashboard.words import duration, percent
from serving.database import DeploymentRow
from serving.qos import repository as qos
from serving.qos.schemas import QosRead, hour_of

Cell = tuple[str, float | None]

_MAX_HOUR = 2**31 - 1
_MOST_SUMS = 50_000
# The page has as many colours of lines.
MOST_SERIALS = 5
_MOST_POINTS = 60
# The curve ends at so many times the time of nine of ten agents, so that a few late ones do not flatten it.
_TAIL = 3.0
_LEAST_CURVE_S = 10.0


@dataclass(frozen=True)
class Delivery:
    """How the current deployment arrived.

    n_agents: those that are to have it. n_arrived: those whose last report names it. n_unknown: those of them that had
    it before the registry kept the time. half_s, most_s: after how long a half and 95 % of the agents had it, or None.
    points: seconds since the move, and share of the agents in percent.
    """

    n_agents: int
    n_arrived: int
    n_unknown: int
    half_s: float | None
    most_s: float | None
    points: list[list[Cell]]


def delivery(session: Session, row: DeploymentRow) -> Delivery:
    """Return how a channel's current deployment arrived. The row's channel must be loaded."""
    found = agents.arrivals(session, cca=row.channel.cca, channel=row.channel.name, serial=row.serial)
    arrived = [since for serial, since in found if serial == row.serial]
    times_s = sorted(max(0.0, (since - row.deployed_at).total_seconds()) for since in arrived if since is not None)
    n_unknown, of = len(arrived) - len(times_s), len(found)
    points = [] if n_unknown or not times_s else _curve(times_s, of=of)
    half_s, most_s = (_time_of(times_s, share, of=of) for share in (0.5, 0.95))
    return Delivery(of, len(arrived), n_unknown, half_s, most_s, points)


def _time_of(times_s: Sequence[float], share: float, *, of: int) -> float | None:
    needed = max(1, -int(-share * of // 1))
    return times_s[needed - 1] if len(times_s) >= needed else None


def _curve(times_s: Sequence[float], *, of: int) -> list[list[Cell]]:
    end_s = max(_LEAST_CURVE_S, _TAIL * times_s[int(0.9 * (len(times_s) - 1))])
    shown = [time_s for time_s in times_s if time_s <= end_s]
    places = sorted({round(part * (len(shown) - 1) / _MOST_POINTS) for part in range(_MOST_POINTS + 1)})
    points = [(0.0, 0.0), *((shown[place], (place + 1) / of) for place in places)]
    return [[(f"{time_s:.1f}", time_s), (percent(share), 100 * share)] for time_s, share in points]


@dataclass(frozen=True)
class Figure:
    """A chart of a figure by hour, with a column for each serial."""

    title: str
    unit: str
    columns: list[str]
    rows: list[list[Cell]]


def by_hour(
    session: Session,
    grant: Grant,
    *,
    cca: str,
    name: str,
    days: int,
    now: datetime,
    classes: Sequence[Mapping[str, Any]],
) -> list[Figure]:
    """Return the figures of flows that use the channel's tables, of the newest serials. classes: of the ensemble."""
    hours = (hour_of(now - timedelta(days=days)), _MAX_HOUR)
    wanted: dict[Any, Any] = {"cca": cca, "channel": name, "group": False}
    found = qos.grouped(session, by=["hour", "serial", "class"], of_agents=False, hours=hours, wanted=wanted,
                        within=grant, offset=0, limit=_MOST_SUMS)  # fmt: skip
    serials = sorted({keys["serial"] for keys, _, _ in found})[-MOST_SERIALS:]
    whole: dict[tuple[int, int], Counter[str]] = {}
    of_class: dict[int, dict[tuple[int, int], Counter[str]]] = {}
    for keys, sums, targets in found:
        place = (keys["hour"], keys["serial"])
        counted = Counter({**sums, "targets": targets})
        whole.setdefault(place, Counter()).update(counted)
        if targets:
            of_class.setdefault(keys["class"], {}).setdefault(place, Counter()).update(counted)
    shares = [
        _figure(f"Delay samples within target, {_class_in_words(number, classes)}", "%", sums, serials)
        for number, sums in sorted(of_class.items())
    ]
    titles = (("Mean queueing delay", "ms"), ("Mean throughput of a flow", "Mbit/s"), ("Retransmitted segments", "‰"))
    return [*shares, *(_figure(title, unit, whole, serials) for title, unit in titles)]


def _class_in_words(number: int, classes: Sequence[Mapping[str, Any]]) -> str:
    if number >= len(classes):
        return f"class {number}"
    one = classes[number]
    return f"class {number} ({one['percentile']} % at most {one['queueing_delay_us'] / 1000:g} ms)"


def _figure(title: str, unit: str, sums: Mapping[tuple[int, int], Counter[str]], serials: Sequence[int]) -> Figure:
    rows = []
    for hour in sorted({hour for hour, serial in sums if serial in serials}):
        reads = {serial: _read(hour, sums[hour, serial]) for serial in serials if (hour, serial) in sums}
        at = next(iter(reads.values())).hour
        assert at is not None  # noqa: S101 - by _read
        cells = [_cell(reads.get(serial), unit) for serial in serials]
        rows.append([(f"{at:%Y-%m-%d %H:%M}", at.timestamp()), *cells])
    return Figure(title, unit, ["Hour", *(f"serial {serial}" for serial in serials)], rows)


def _read(hour: int, sums: Counter[str]) -> QosRead:
    counts = {name: value for name, value in sums.items() if name != "targets"}
    return QosRead.of({"hour": hour}, counts, target_samples=sums["targets"])


def _cell(read: QosRead | None, unit: str) -> Cell:
    if read is None:
        return ("–", None)
    figures = {
        "%": (read.share_within_target, 100),
        "ms": (read.mean_delay_us, 1e-3),
        "Mbit/s": (read.goodput_bytes_per_s, 8e-6),
        "‰": (read.retransmission_rate, 1000),
    }
    figure, scale = figures[unit]
    return ("–", None) if figure is None else (f"{scale * figure:.3g} {unit}", round(scale * figure, 4))


def marks_of(rows: Sequence[DeploymentRow]) -> Iterator[Cell]:
    """Yield where the serial changed, for a chart over time."""
    for row in rows:
        yield (str(row.serial), row.deployed_at.timestamp())


def delivery_in_words(found: Delivery, serial: int) -> str:
    """Say how a deployment arrived."""
    said = [f"{found.n_arrived:,} of {found.n_agents:,} agents report serial {serial}."]
    if found.half_s is not None:
        said.append(f"Half of all reported it within {duration(max(2.0, found.half_s))} of the move")
        said[-1] += "." if found.most_s is None else f", and 95 % within {duration(max(2.0, found.most_s))}."
    if found.n_unknown:
        said.append(f"{found.n_unknown:,} had it before the registry kept when it arrived, so there is no curve.")
    return " ".join(said)
