# SPDX-License-Identifier: MIT
"""A study of R-TCP in seconds, its links, and made tallies."""

from __future__ import annotations

import numpy as np
from links import recording, workload

from training.objectives import Tally
from training.study import StudySettings
from training.workloads import Policed
from training.workloads.policed import Kind

DDS = {"kind": "dds", "intervals": 3, "steps": 1}
SMALL = {
    "schema": "ccatune-study/2",
    "cca": "rtcp_bbr",
    "axes": {"min_rtt": {"shortest_ms": 20, "count": 2}, "limit": {"lowest_kbps": 1000, "count": 2}},
    "workload": {
        "kind": "policed",
        "cases": {"limited": 4, "lifted": 2, "unlimited": 6},
        "bucket_bytes": [60_000, 200_000],
        "limited_s": [10, 15],
        "lifted": {"most_mbps": 10, "at_s": 8, "for_s": 6},
        "unlimited": {"download_s": 8},
    },
    "objective": {"kind": "retransmissions"},
    "search": DDS,
    "stages": [
        {"name": "single", "candidates_from": ["defaults"], "sample": {"share": 0.5, "unlimited_share": 0.5},
         "confirm": {"sample": {"share": 0.5, "unlimited_share": 0.5}}},
        {"name": "rtt", "group_by": ["min_rtt"], "candidates_from": ["defaults", "single"],
         "sample": {"share": 0.5}, "confirm": {"sample": {"share": 0.5}}},
        {"name": "state", "group_by": ["min_rtt", "limit"], "held_from": {"reduction_permille": "rtt"},
         "candidates_from": ["defaults", "single", "rtt"], "search": {**DDS, "steps": 2},
         "sample": {"unlimited_share": 0}, "confirm": {"sample": {"unlimited_share": 0}}},
    ],
}  # fmt: skip
RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
NOTHING = np.zeros(0, dtype=np.uint32)


def small(**changes: object) -> StudySettings:
    """The study, with other choices at its top."""
    return StudySettings.model_validate({**SMALL, **changes})


def policed(settings: StudySettings | None = None) -> Policed:
    """The workload of the study."""
    found = workload(settings or small(), RECORDINGS)
    assert isinstance(found, Policed)
    return found


def tally(kind: Kind = "limited", *, goodput: float = 1.0, retransmitted: int = 50, default: float | None = None,
          paper: float | None = None, is_limited: bool = False, default_is_limited: bool = False,
          least: int = 100) -> Tally:  # fmt: skip
    """Of a second; goodput over that of bbr, which retransmits `least` packets.

    default: goodput of rtcp_bbr's defaults; of a file the same as goodput unless given, else that of bbr.
    paper: goodput of its paper's setting; the defaults' unless given.
    """
    default = (goodput if kind == "limited" else 1.0) if default is None else default

    def made(share: float, pkts: int, limited: bool, references: dict[str, Tally]) -> Tally:
        return Tally(1.0, 1_000_000, round(share * 1e6), 700, NOTHING, goodput_bytes=round(share * 1e6),
                     retransmitted_pkts=pkts, is_limited=limited, group=kind, references=references)  # fmt: skip

    references = {"bbr": made(1.0, least, False, {}), "rtcp_bbr": made(default, 50, default_is_limited, {}),
                  "paper": made(default if paper is None else paper, 50, default_is_limited, {})}  # fmt: skip
    return made(goodput, retransmitted, is_limited, references)
