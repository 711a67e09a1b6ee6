# SPDX-License-Identifier: MIT
"""Compares the statements of R-TCP 2026 on R-TCP itself with the simulator."""

from experiments.rtcp.campaign import FIGURES_VERSION, KINDS, Kind, Part, Results, parts_of, run_part, summary_of
from experiments.rtcp.settings import RtcpSettings, load_settings
from experiments.rtcp.statements import STATEMENTS, judge
from experiments.rtcp.tables import (
    concurrent_table,
    files_table,
    map_table,
    probing_table,
    second_table,
    video_table,
)

__all__ = [
    "FIGURES_VERSION",
    "KINDS",
    "STATEMENTS",
    "Kind",
    "Part",
    "Results",
    "RtcpSettings",
    "concurrent_table",
    "files_table",
    "judge",
    "load_settings",
    "map_table",
    "parts_of",
    "probing_table",
    "run_part",
    "second_table",
    "summary_of",
    "video_table",
]
