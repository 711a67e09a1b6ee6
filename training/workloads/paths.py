# SPDX-License-Identifier: MIT
"""Paths around the bottleneck, drawn from a stated distribution (configs/paths).

Flows meet more than a link: round trips of all lengths, uplinks that grant several ACKs at once, radios that hold data,
jitter, loss, short and long buffers, hosts that stall. Parameters that were learnt without them are good without them
only: with GR, a bandwidth window of a few ms is the best on an undisturbed path and leaves up to half of the link
unused where ACKs are bunched.

A range is drawn from evenly on a logarithmic scale. An element with a `share` is on so many of the paths.

    rtt_ms           propagation delay, both ways together
    buffer_pkts      drop-tail buffer of the bottleneck;  codel: share of the paths with CoDel on it
    ack_interval_ms  ACKs leave together once in so many ms, as the grants of an uplink or the aggregates of Wi-Fi do
    hold_ms          data leave together, at ticks from a quarter of this to this apart, as a radio holds them
    jitter_ms        longest time for which a packet is held; the order is kept
    loss             share of the packets that is lost at random
    stall_ms         the receiver's host stands still for so long, after each stall_every_s
    outage_s         nothing is delivered for so long, once in outage_every_s

A draw depends on the seed, the name of the run and its length alone. So all candidates meet the same paths.

DEVIATION: a second flow is not among the elements. Beside one that fills the buffer no parameter keeps a delay target,
so such cases would say nothing about parameters. `ccatune report robustness` has them.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator

from emulation.errors import EmulationError
from emulation.scenario.files import first_fault, read_document
from emulation.scenario.path import AccessLink, AckPath, Clock, Codel, Jitter, PathElement, RateStep
from training.errors import TrainingError
from training.fields import StudyPart

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "paths"
FAST_MBPS = 10_000.0  # of the link that stands still in stalls and outages


def _ascending(ends: tuple[float, float]) -> tuple[float, float]:
    if not 0 < ends[0] <= ends[1]:
        raise ValueError(f"expected two ends above 0, the lower one first, got {list(ends)}")
    return ends


Drawn = Annotated[tuple[float, float], AfterValidator(_ascending)]
"""The ends of a range from which values are drawn evenly on a logarithmic scale."""
Share = Annotated[float, Field(ge=0, le=1)]


def drawn(rng: np.random.Generator, ends: tuple[float, float]) -> float:
    """A value of the range."""
    low, high = ends
    return float(low * math.exp(rng.random() * math.log(high / low)))


class Some(StudyPart):
    """An element that a share of the paths has."""

    share: Share
    between: Drawn


class Pauses(Some):
    """Times in which nothing is delivered."""

    every_s: Drawn = Field(description="from the end of one to the beginning of the next")


class PathsSettings(StudyPart):
    """A distribution of paths."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    rtt_ms: Drawn
    buffer_pkts: Drawn
    codel: Share = 0.0
    ack_interval_ms: tuple[Some, ...] = Field((), description="at most one of them; the shares add up to at most 1")
    hold_ms: Some | None = None
    jitter_ms: Some | None = None
    loss: Some | None = None
    stall_ms: Pauses | None = None
    outage_s: Pauses | None = None

    @field_validator("ack_interval_ms")
    @classmethod
    def _at_most_one(cls, some: tuple[Some, ...]) -> tuple[Some, ...]:
        if sum(each.share for each in some) > 1:
            raise ValueError(f"expected shares that add up to at most 1, got {[each.share for each in some]}")
        return some

    def draw(self, name: str, *, seed: int, duration_s: float, from_s: float = 0.0) -> dict[str, Any]:
        """The fields of a LinkSpec around its rate, for a run of duration_s; or for the part of it from from_s on."""
        place = hashlib.sha256(f"{seed} {name}".encode()).digest()
        rng = np.random.default_rng(np.frombuffer(place, dtype=np.uint32).tolist())

        def some(element: Some | None) -> float | None:
            share, value = float(rng.random()), float(rng.random())  # always both: elements do not shift each other
            if element is None or share >= element.share:
                return None
            low, high = element.between
            return float(low * math.exp(value * math.log(high / low)))

        rtt_ms, buffer_pkts = drawn(rng, self.rtt_ms), round(drawn(rng, self.buffer_pkts))
        codel = Codel() if rng.random() < self.codel else None
        interval_ms = None
        left = float(rng.random())
        for each in self.ack_interval_ms:
            value = drawn(rng, each.between)
            interval_ms = value if 0 <= left < each.share else interval_ms
            left -= each.share
        hold_ms, jitter_ms, loss = some(self.hold_ms), some(self.jitter_ms), some(self.loss)
        behind: list[PathElement] = []
        if hold_ms is not None:
            behind.append(Clock(least_ms=hold_ms / 4, most_ms=hold_ms))
        if jitter_ms is not None:
            behind.append(Jitter(max_ms=jitter_ms))
        for pauses, seconds in ((self.stall_ms, 1e-3), (self.outage_s, 1.0)):
            (its,) = rng.spawn(1)
            if pauses is not None and its.random() < pauses.share:
                behind.append(_pausing(its, pauses, seconds=seconds, duration_s=duration_s, from_s=from_s))
        return {
            "rtt_ms": rtt_ms,
            "buffer_pkts": buffer_pkts,
            "codel": codel,
            "loss": loss or 0.0,
            "behind": tuple(behind),
            "acks": AckPath(interval_ms=interval_ms),
        }


def _pausing(
    rng: np.random.Generator, pauses: Pauses, *, seconds: float, duration_s: float, from_s: float
) -> AccessLink:
    """A fast link that stands still now and then. seconds: of the unit of the range.

    The run begins at a random instant between two pauses.
    """
    at_s = -float(rng.random()) * drawn(rng, pauses.every_s) - from_s
    steps = [RateStep(at_s=0, rate_mbps=FAST_MBPS)]
    while True:
        at_s += drawn(rng, pauses.every_s)
        end_s = at_s + drawn(rng, pauses.between) * seconds
        if end_s + from_s >= duration_s:
            return AccessLink(steps=tuple(steps), buffer_pkts=None)
        if at_s > 0:
            steps += [RateStep(at_s=at_s, rate_mbps=0), RateStep(at_s=end_s, rate_mbps=FAST_MBPS)]
        at_s = end_s


def load_paths(path: str | Path) -> dict[str, Any]:
    """A distribution from a YAML file, or from its name in configs/paths.

    Raises:
        ValueError: it cannot be read, or is no YAML.
    """
    path = Path(path) if Path(path).suffix else FOLDER / f"{path}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.yaml")))
        raise ValueError(f"paths: expected a file, or a name in configs/paths ({known}), got {path}")
    try:
        return {"name": path.stem, **read_document(path, what="a distribution of paths", holding="rtt_ms, buffer_pkts")}
    except EmulationError as error:
        raise ValueError(str(error)) from error


def read_paths(path: str | Path) -> PathsSettings:
    """The same, validated.

    Raises:
        TrainingError: it cannot be read, or a field of it is wrong.
    """
    try:
        return PathsSettings.model_validate(load_paths(path))
    except ValidationError as error:
        raise TrainingError(f"{path}: {first_fault(error)}") from error
    except ValueError as error:
        raise TrainingError(str(error)) from error


def _loaded(value: object) -> object:
    return load_paths(value) if isinstance(value, str) else value


Paths = Annotated[PathsSettings, BeforeValidator(_loaded)]
"""A distribution of paths, or the name of one. A study's digest and provenance have its content."""
