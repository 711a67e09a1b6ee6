# SPDX-License-Identifier: MIT
"""A study of R-TCP in seconds, and its links."""

from __future__ import annotations

from links import recording

from training.rtcp import RtcpStudySettings

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


def small(**changes: object) -> RtcpStudySettings:
    """The study, with other choices at its top."""
    return RtcpStudySettings.model_validate({**SMALL, **changes})
