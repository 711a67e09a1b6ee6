# SPDX-License-Identifier: MIT
"""Splits traces into training data and validation data.

    dataset named *-train         training data only
    dataset named *-validation    validation data only
    any other                     the first 60 % of each recording is training data, the rest validation data

The recorded hours of one link are in archives of their own, because neighbouring files are alike. The mean rates of
consecutive pqsa-4g files differ by 3.7 Mbit/s, those of random files by 10.6.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from emulation.errors import TraceError
from emulation.traces.reader import Paths, Reading, read
from emulation.traces.recording import Recording

Part = Literal["train", "validation"]

TRACES_VARIABLE = "CCATUNE_TRACES"
TRAIN_SHARE = 0.6
SUFFIX = {"train": "-train", "validation": "-validation"}
OTHER: dict[Part, Part] = {"train": "validation", "validation": "train"}
USE = {"train": "train", "validation": "judge"}


def default_traces() -> Path | None:
    """The folder of recorded traces: $CCATUNE_TRACES, else shared/traces beside the repository, else None."""
    named = os.environ.get(TRACES_VARIABLE)
    if named:
        return Path(named)
    beside = Path(__file__).resolve().parents[3] / "shared" / "traces"
    return beside if beside.is_dir() else None


def read_split(
    paths: Paths | None = None,
    *,
    part: Part = "train",
    skip_bad: bool = False,
    only: Callable[[str], bool] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Reading:
    """Read one part, by the rule at the top of this module. The result has no recordings if there are none of the part.

    paths: as in `read`; without it, default_traces(). only: selects datasets by name. Raises TraceError if there is no
    path, and as `read` does.
    """
    source = default_traces() if paths is None else paths
    if source is None:
        raise TraceError(f"recorded traces: expected a folder in ${TRACES_VARIABLE}, got none; set it, or give a path")

    def wanted(dataset: str) -> bool:
        return not dataset.endswith(SUFFIX[OTHER[part]]) and (only is None or only(dataset))

    reading = read(source, skip_bad=skip_bad, wanted=wanted, progress=progress)
    recordings = (
        recording if recording.dataset.endswith(SUFFIX[part]) else _share(recording, part)
        for recording in reading.recordings
    )
    return replace(reading, recordings=tuple(recordings))


def require_part(reading: Reading, *, part: Part) -> list[Recording]:
    """The recordings of a part. Raises TraceError if there are none."""
    if not reading.recordings:
        other = OTHER[part]
        raise TraceError(
            f"traces: expected traces to {USE[part]} on, got none of the requested ones; "
            f"those in *{SUFFIX[other]} {USE[other]} alone"
        )
    return list(reading.recordings)


def _share(recording: Recording, part: Part) -> Recording:
    """The first 60 % of a recording or the rest, cut at a whole millisecond."""
    period_ms = recording.trace.period_ms
    cut_ms = int(TRAIN_SHARE * period_ms)
    return recording.cut(0, cut_ms) if part == "train" else recording.cut(cut_ms, period_ms)
