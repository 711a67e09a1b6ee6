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

`cases` replace these ranges on a share of the paths. `ccatune report worst` writes such a file.

A draw depends on the seed, the name of the run and its length alone. So all candidates meet the same paths.

DEVIATION: a second flow is not among the elements. Beside one that fills the buffer no parameter keeps a delay target,
so such cases would say nothing about parameters. `ccatune report robustness` has them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

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


def value_at(ends: tuple[float, float], place: float) -> float:
    """The value at a place of the range, from 0 (its lower end) to 1."""
    low, high = ends
    return float(low * math.exp(place * math.log(high / low)))


def drawn(rng: np.random.Generator, ends: tuple[float, float]) -> float:
    """A value of the range."""
    return value_at(ends, rng.random())


class Some(StudyPart):
    """An element that a share of the paths has."""

    share: Share
    between: Drawn


class Pauses(Some):
    """Times in which nothing is delivered."""

    every_s: Drawn = Field(description="from the end of one to the beginning of the next")


AnyElement = TypeVar("AnyElement", bound=Some)
QUANTITIES = (
    "rtt_ms", "buffer_pkts", "codel", "ack_interval_ms", "hold_ms", "jitter_ms", "loss", "stall_ms", "outage_s"
)  # fmt: skip


def _chosen(place: float, *elements: AnyElement | None) -> tuple[AnyElement, float] | None:
    """The element whose share of [0, 1) holds a place, and where in this share; None after the last share."""
    for element in elements:
        if element is not None:
            if place < element.share:
                return element, place / element.share
            place -= element.share
    return None


class PathRanges(StudyPart):
    """The ranges of a distribution of paths."""

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

    def at(self, places: Sequence[float]) -> PathRanges:
        """The path at a place in each of QUANTITIES: its ranges are single values, and its shares 0 or 1.

        Each place is at least 0 and below 1, and even draws of them are draws from this distribution. Pauses keep their
        ranges, because each of them has a length of its own.
        """
        at = dict(zip(QUANTITIES, places, strict=True))
        fields: dict[str, Any] = {"codel": float(at["codel"] < self.codel)}
        for name in ("rtt_ms", "buffer_pkts"):
            value = value_at(getattr(self, name), at[name])
            fields[name] = (value, value)
        for name in ("hold_ms", "jitter_ms", "loss"):
            fields[name] = _one_value(_chosen(at[name], getattr(self, name)))
        interval = _one_value(_chosen(at["ack_interval_ms"], *self.ack_interval_ms))
        fields["ack_interval_ms"] = () if interval is None else (interval,)
        for name in ("stall_ms", "outage_s"):
            pauses = _chosen(at[name], getattr(self, name))
            fields[name] = None if pauses is None else pauses[0].model_copy(update={"share": 1.0})
        return PathRanges(**fields)

    def in_words(self) -> str:
        """E.g. `RTT 25 ms, 60 pkts, ACKs every 12 ms, stalls`, for a path."""
        single = {"ACKs every {:.3g} ms": next(iter(self.ack_interval_ms), None), "holds {:.3g} ms": self.hold_ms,
                  "jitter {:.3g} ms": self.jitter_ms, "loss {:.2g}": self.loss}  # fmt: skip
        flags = {"CoDel": self.codel, "stalls": self.stall_ms, "outages": self.outage_s}
        found = [text.format(some.between[1]) for text, some in single.items() if some is not None]
        found += [text for text, flag in flags.items() if flag]
        return ", ".join([f"RTT {self.rtt_ms[1]:.0f} ms", f"{self.buffer_pkts[1]:.0f} pkts", *found])


def _one_value(chosen: tuple[Some, float] | None) -> Some | None:
    if chosen is None:
        return None
    value = value_at(chosen[0].between, chosen[1])
    return Some(share=1.0, between=(value, value))


class Cases(StudyPart):
    """Ranges that replace those of the distribution on a share of its paths, such as the worst cases of an ensemble."""

    share: Share
    paths: tuple[PathRanges, ...] = Field(min_length=1, description="each is as frequent as the others")


class PathsSettings(PathRanges):
    """A distribution of paths."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    cases: Cases | None = None

    def draw(self, name: str, *, seed: int, duration_s: float, from_s: float = 0.0) -> dict[str, Any]:
        """The fields of a LinkSpec around its rate, for a run of duration_s; or for the part of it from from_s on."""
        digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
        rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32).tolist())
        places = rng.random(len(QUANTITIES)).tolist()
        *of_pauses, of_case = rng.spawn(3)
        is_case = self.cases is not None and of_case.random() < self.cases.share
        ranges = self.cases.paths[of_case.integers(len(self.cases.paths))] if self.cases and is_case else self
        path = ranges.at(places)
        behind: list[PathElement] = []
        if path.hold_ms is not None:
            behind.append(Clock(least_ms=path.hold_ms.between[1] / 4, most_ms=path.hold_ms.between[1]))
        if path.jitter_ms is not None:
            behind.append(Jitter(max_ms=path.jitter_ms.between[1]))
        for its, pauses, seconds in zip(of_pauses, (path.stall_ms, path.outage_s), (1e-3, 1.0), strict=True):
            if pauses is not None:
                behind.append(_pausing(its, pauses, seconds=seconds, duration_s=duration_s, from_s=from_s))
        return {
            "rtt_ms": path.rtt_ms[1],
            "buffer_pkts": round(path.buffer_pkts[1]),
            "codel": Codel() if path.codel else None,
            "loss": path.loss.between[1] if path.loss else 0.0,
            "behind": tuple(behind),
            "acks": AckPath(interval_ms=path.ack_interval_ms[0].between[1] if path.ack_interval_ms else None),
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
