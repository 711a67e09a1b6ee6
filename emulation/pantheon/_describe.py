# SPDX-License-Identifier: MIT
"""Sentences for the page and the PDF: how a test was set up, and what its figures mean."""

from __future__ import annotations

from collections.abc import Sequence

from emulation.pantheon.analysis import Analysis
from kmod.terminal import counted

__all__ = ["METHOD", "head_line", "set_up"]

METHOD = (
    "Throughput is the number of bits that left the link, divided by the time from the first to the last departure.",
    "The delay is the one-way delay of single packets, from one end of the path to the other.",
    "Loss is the share of the bytes that entered the link but did not leave it.",
    "Values are the mean over the valid runs, ± one sample standard deviation.",
    "An ellipse is one standard deviation around the mean. A small mark is a single run.",
    "A run is valid if packets left during at least 0.8 of the runtime and the runner noted no failure.",
)


def head_line(analyses: Sequence[Analysis]) -> str:
    """Return the numbers of schemes, links and runs in the report, and how many runs are valid."""
    schemes = {scheme.scheme for analysis in analyses for scheme in analysis.schemes}
    runs = [run for analysis in analyses for scheme in analysis.schemes for run in scheme.runs]
    valid = sum(run.verdict == "ok" for run in runs)
    links = f" on {len(analyses)} links" if len(analyses) > 1 else ""
    return f"{counted(len(schemes), 'scheme')}{links}, {counted(len(runs), 'run')}, {valid} of them valid"


def set_up(analysis: Analysis) -> list[tuple[str, str]]:
    """Return how the runs were made, as pairs of a name and a value."""
    about = analysis.metadata
    flows = counted(about.flows, "flow") if about.flows else "without a tunnel"
    if about.flows > 1:
        flows += f", started {about.interval} s apart"
    runs = f"{about.runtime} s each, {counted(about.run_times, 'run')} of each scheme"
    pairs = [("runs", f"{runs}, {flows}")]
    if about.mahimahi_command:
        pairs.append(("link", about.mahimahi_command))
    elif about.local_desc and about.remote_desc:
        ends = [about.local_desc, about.remote_desc]
        pairs.append(("path", " to ".join(reversed(ends) if about.sender_side == "remote" else ends)))
    if about.ntp_addr:
        pairs.append(("clocks", f"corrected by their offsets from {about.ntp_addr}"))
    if about.ccatune:
        pairs += [("versions", ", ".join(f"{name} {value}" for name, value in about.ccatune.versions.items()))]
        pairs += [("ensembles", ", ".join(f"{name} {value}" for name, value in about.ccatune.ensembles.items()))]
    pairs.append(("folder", analysis.data_dir.resolve().name))
    return [(name, value) for name, value in pairs if value]
