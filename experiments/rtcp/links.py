# SPDX-License-Identifier: MIT
"""The traces of the operators without a limit: recorded traces, or else synthetic ones of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from emulation.errors import TraceError
from emulation.traces import Recording, default_traces
from emulation.traces.reader import read
from emulation.traces.synthetic import TraceModel, make_recordings
from experiments.rtcp.settings import RtcpSettings, Unlimited

__all__ = ["recordings_for"]

MADE_S, MADE_COUNT = 600.0, 8


def recordings_for(settings: RtcpSettings, paths: Sequence[Path] = ()) -> tuple[dict[str, list[Recording]], bool]:
    """The recordings of each operator of settings.unlimited, and whether they are recorded.

    paths: files, folders, archives. Without paths, default_traces() finds them. If it finds none, the traces are
    synthetic.

    Raises:
        TraceError: the paths hold no recording of an operator's dataset.
    """
    source = list(paths) or default_traces()
    if source is None:
        return {name: _made(place) for name, place in settings.unlimited.items()}, False
    datasets = tuple({place.dataset for place in settings.unlimited.values()})
    recordings = read(source, wanted=lambda dataset: dataset.startswith(datasets)).recordings
    found = {}
    for name, place in settings.unlimited.items():
        found[name] = [r for r in recordings if r.dataset.startswith(place.dataset) and place.recording in r.name]
        if not found[name]:
            raise TraceError(
                f"{name}: expected recordings of a dataset {place.dataset}* with {place.recording!r} in their names, "
                f"got none; give --traces, or change the settings"
            )
    return found, True


def _made(place: Unlimited) -> list[Recording]:
    return make_recordings(TraceModel.load(place.model), duration_s=MADE_S, count=MADE_COUNT, seed=1)
