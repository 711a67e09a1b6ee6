# SPDX-License-Identifier: MIT
"""A study of R-TCP in seconds, its links, and made tallies."""

from __future__ import annotations

import numpy as np
from links import recording

from training.rtcp import RtcpStudySettings
from training.rtcp.cases import Kind
from training.rtcp.objective import LimitTally

SMALL = {
    "schema": "ccatune-study/1",
    "cca": "rtcp_bbr",
    "rtts": {"shortest_ms": 20, "count": 2},
    "limits": {"lowest_kbps": 1000, "count": 2},
    "traffic": {
        "bucket_bytes": [60_000, 200_000],
        "limited_s": [10, 15],
        "lifted": {"most_mbps": 10, "at_s": 8, "for_s": 6},
        "unlimited": {"download_s": 8},
    },
    "cases": {"limited": 4, "lifted": 2, "unlimited": 6},
    "search": {
        "single": {"intervals": 3, "steps": 1},
        "rtt": {"intervals": 3, "steps": 1},
        "state": {"intervals": 3, "steps": 2},
        "single_share": 0.5,
    },
}
RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
NOTHING = np.zeros(0, dtype=np.uint32)


def small(**changes: object) -> RtcpStudySettings:
    """The study, with other choices at its top."""
    return RtcpStudySettings.model_validate({**SMALL, **changes})


def tally(kind: Kind = "limited", *, goodput: float = 1.0, resent: int = 50, default: float | None = None,
          is_limited: bool = False, default_is_limited: bool = False) -> LimitTally:  # fmt: skip
    """Of a second; goodput over the unmodified algorithm's, which sends 100 packets again.

    default: that of the paper's setting; of a file the same as goodput unless it is told, else the unmodified one's.
    """
    default = (goodput if kind == "limited" else 1.0) if default is None else default
    return LimitTally(
        duration_s=1.0, capacity_bytes=1_000_000, delivered_bytes=round(goodput * 1_000_000), packets=700,
        delays=NOTHING, rival_bytes=1_000_000, kind=kind, default_bytes=round(default * 1_000_000),
        resent_pkts=resent, rival_resent_pkts=100, is_limited=is_limited,
        default_is_limited=default_is_limited,
    )  # fmt: skip
