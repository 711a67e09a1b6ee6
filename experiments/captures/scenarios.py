# SPDX-License-Identifier: MIT
"""The captures of Flach et al. 2016 (SIGCOMM, "An internet-wide analysis of traffic policing"), and their scenarios.

Files are named by their settings. PCIR, PBC: rate (bit/s) and bucket (bytes) of a policer; SCIR, SBC: of a shaper; no
PBC: the router's default bucket. CD: delay between chunks of the only connection; CD1, CD2: of two connections that
share the limit. XT=1: cross traffic. LOSS: random loss.

    A  policing                    PCIR, CD                 E  drop-tail, one flow        SCIR, CD
    B  its special cases           PCIR, CD, PBC <= 8000    F  random loss                SCIR, LOSS > 0
    C  policing, several flows     PCIR, CD1                G  drop-tail, small queue     SCIR, CD, SBC <= 8000
    D  active queue management     no name says so          H  drop-tail, several flows   SCIR, CD1

The assignment is an assumption in two places: the publication does not say which names are B, and names of D are not
known. Buckets of at most 8,000 bytes, five packets, are taken for B, because PD fails there as it does in their B.

A chunk was policed if and only if a policer was set and it had losses.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

SMALL_BYTES = 8000


@dataclass(frozen=True)
class Scenario:
    """published: accuracy of the authors' detector in percent. target: the least accuracy to reach; 0: none."""

    title: str
    published: float
    target: float


SCENARIOS = {
    "A": Scenario("policing", 93.1, 93.1),
    "B": Scenario("its special cases", 48.0, 0.0),
    "C": Scenario("policing, several flows", 12.3, 50.0),
    "D": Scenario("active queue management", 100.0, 100.0),
    "E": Scenario("drop-tail, one flow", 100.0, 100.0),
    "F": Scenario("random loss", 99.7, 99.7),
    "G": Scenario("drop-tail, small queue", 93.2, 93.2),
    "H": Scenario("drop-tail, several flows", 96.9, 96.9),
}


@dataclass(frozen=True)
class Setting:
    """What a file's name says. rate_mbps: of its policer; None: none. ports: of its connections, at the client."""

    scenario: str
    rate_mbps: float | None
    ports: frozenset[int]


def setting_of(name: str) -> Setting:
    """The setting of a file.

    Raises:
        ValueError: the name is not of this kind.
    """
    values = dict(re.findall(r"([A-Z]+\d?)=(\d+)", name))
    if not values.keys() & {"PCIR", "SCIR"} or not values.keys() & {"CD", "CD1"}:
        raise ValueError(f"{name}: expected a name with PCIR or SCIR, and CD or CD1")
    several, policed = "CD1" in values, "PCIR" in values
    small = int(values.get("PBC" if policed else "SBC", SMALL_BYTES + 1)) <= SMALL_BYTES
    if policed:
        scenario = "C" if several else "B" if small else "A"
    elif int(values.get("LOSS", 0)):
        scenario = "F"
    else:
        scenario = "H" if several else "G" if small else "E"
    ports = frozenset(int(values[key]) for key in ("CP", "CP1", "CP2") if key in values)
    return Setting(scenario, int(values["PCIR"]) / 1e6 if policed else None, ports)


def is_for_choosing(name: str) -> bool:
    """Whether a file belongs to the third with which constants were chosen; the others judge."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0
