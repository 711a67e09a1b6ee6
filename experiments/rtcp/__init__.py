# SPDX-License-Identifier: MIT
"""`python -m experiments rtcp`: compares the statements of R-TCP 2026 on R-TCP itself with the simulator.

The words of the statements are ours, and the section is the paper's. `issue` marks a requirement of this project that
the paper does not state. A bound holds up to the 95 % interval (experiments/figures.py). Words of the paper without a
figure ("similar", "smaller") have a bound beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from matplotlib.figure import Figure as Picture

from emulation.errors import TraceError
from emulation.traces import default_traces
from emulation.traces.reader import read
from experiments.campaign import Campaign, Links, Part, made_like
from experiments.command import command_of
from experiments.rtcp import (
    baseline,
    detection,
    disturbed,
    estimates,
    fairness,
    files,
    lifted,
    policing,
    probing,
    sensitivity,
    several,
    shorts,
    video,
)
from experiments.rtcp.cells import RtcpResults, of_kind, ruled
from experiments.rtcp.settings import RtcpSettings, load_settings


def links_of(settings: RtcpSettings, paths: Sequence[Path] = ()) -> Links:
    """The recordings of each operator without a limit; synthetic ones of the same kind if there are none.

    paths: files, folders, archives. Without paths, default_traces() finds them.

    Raises:
        TraceError: the paths hold no recording of an operator's dataset.
    """
    places = settings.traced
    source = list(paths) or default_traces()
    if source is None:
        return Links({name: made_like(place.model) for name, place in places.items()}, made=True)
    datasets = tuple({place.dataset for place in places.values()})
    recordings = read(source, wanted=lambda dataset: dataset.startswith(datasets)).recordings
    found = {}
    for name, place in places.items():
        found[name] = [r for r in recordings if r.dataset.startswith(place.dataset) and place.recording in r.name]
        if not found[name]:
            raise TraceError(
                f"{name}: expected recordings of a dataset {place.dataset}* with {place.recording!r} in their names, "
                f"got none; give --traces, or change the settings"
            )
    return Links(found)


def describe(results: RtcpResults) -> str:
    """The numbers of runs of the parts' cases, and which traces were used."""
    counts: dict[str, set[int]] = {}
    for (kind, *_), columns in results.cases.items():
        counts.setdefault(kind, set()).add(len(next(iter(columns.values()))))
    kinds: dict[tuple[int, ...], list[str]] = {}
    for kind, its in counts.items():
        kinds.setdefault(tuple(sorted(its)), []).append(kind)
    runs = "; ".join(f"{' or '.join(map(str, its))} of {', '.join(names)}" for its, names in kinds.items())
    traces = f"; traces {'made' if results.links.made else 'recorded'}" if results.links.recordings else ""
    return f"runs of each case: {runs}{traces}"


def draw(results: RtcpResults) -> Picture:
    """Retransmission rates over the file size: with and without R-TCP, or of `policing` if only that was run."""
    return files.draw(results) if of_kind(results, "files") else policing.draw(results)


PARTS: tuple[Part[RtcpSettings], ...] = (
    Part("policing", policing.cases, policing.POLICING, policing.views_of, table=policing.rates_table),
    Part("files", files.cases, files.FILES, table=files.files_table),
    Part("estimates", partial(estimates.cases, "estimates", ("clean", "held")), estimates.ESTIMATES,
         table=estimates.estimates_table),
    Part("detector", partial(estimates.cases, "detector", ("clean", "lossy")), estimates.DETECTOR),
    Part("detection", detection.cases, detection.DETECTION, needs_links=True),
    Part("sensitivity", sensitivity.cases, sensitivity.SENSITIVITY, table=sensitivity.sensitivity_table,
         needs_links=True),
    Part("disturbed", disturbed.cases, disturbed.DISTURBED, table=disturbed.paths_table, needs_links=True),
    Part("map", detection.map_cases, detection.MAP, table=detection.map_table),
    Part("patterns", several.pattern_cases, several.PATTERNS),
    Part("second", several.second_cases, several.SECOND, table=several.second_table),
    Part("concurrent", several.concurrent_cases, several.CONCURRENT, table=several.concurrent_table),
    Part("lifted", lifted.lifted_cases, lifted.LIFTED),
    Part("freed", partial(lifted.between_connections, "freed"), lifted.FREED),
    Part("kept", partial(lifted.between_connections, "kept"), lifted.KEPT),
    Part("probing", probing.cases, probing.PROBING, table=probing.probing_table),
    Part("fairness", fairness.cases, fairness.FAIRNESS),
    Part("baseline", baseline.cases, baseline.BASELINE, needs_links=True),
    Part("video", video.cases, video.VIDEO, table=video.video_table),
    Part("shorts", shorts.cases, shorts.SHORTS, table=shorts.shorts_table),
)  # fmt: skip
RTCP = Campaign(
    name="rtcp",
    help="""Compare the R-TCP paper's statements on R-TCP with the simulator.

    They are about policing, files, detection, transfers, connections and videos. A figure is a mean with its 95 %
    interval. A figure that differs from the statement is marked with !. BBRv3 is unvalidated, because no kernel here
    has its authors' version. docs/rtcp.md explains the differences. The whole campaign takes long; --only, --seeds and
    --runs shorten it. If it is interrupted, it continues where it stopped.

    \b
    Example:
      python -m experiments rtcp --only files --plot rtcp.png
    """,
    load=load_settings,
    parts=tuple(replace(part, cases=partial(ruled, part.cases)) for part in PARTS),
    notes=("* unvalidated: no kernel here has the BBRv3 of its authors",),
    describe=describe,
    draw=draw,
    drawn=("files", "policing"),
    words=policing.words_of,
    links=links_of,
    options=(
        click.option("--seeds", type=click.IntRange(5, 10_000),
                     help="Runs of each file, pattern, meeting, lift and video  [the config's]"),
        click.option("--rules", type=click.Choice(["own", "paper"]),
                     help="This project's probing, or the paper's; the part probing has both  [the config's]"),
        click.option("--policer", type=click.Choice(["before", "behind"]),
                     help="Of policing, seen from the access link  [the config]"),
        click.option("--runs", type=click.IntRange(1, 1_000_000), help="Runs of each cell of detection  [the config]"),
    ),
)  # fmt: skip
command = command_of(RTCP)
