# SPDX-License-Identifier: MIT
"""The link of a Pantheon test: two traces, and the shells outside and inside of mm-link.

Pantheon's options or a file define it. A file of an emulator (configs/emulators):

    name: driving
    source: where its figures come from, and what it was calibrated against
    uplink: {trace: ../traces/a.up, recording: hour01, start_s: 60}
    # or {made: 4g.json, seed: 1}, {rate_mbps: 12}, {poisson_mbps: 12, seed: 1}
    downlink: {rate_mbps: 12}
    delay_ms: 30           # of each direction
    queue_pkts: 100        # droptail queue in front of the uplink; no limit if left out
    loss: 0.001            # of the uplink's packets, before its queue

The uplink carries the data, as in Pantheon. The shells are those of Pantheon's calibrated emulators: mm-delay outside
of mm-link, and mm-loss inside of it. `link_of_folder` reads the link of a test from the metadata of its data folder.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from emulation.errors import EmulationError
from emulation.mahimahi.translate import link_opportunities_ms, repeated_ms
from emulation.pantheon.metadata import read_metadata
from emulation.scenario.files import one_recording, read_settings
from emulation.scenario.path import Frozen, LinkRate
from emulation.traces import Trace, read_recordings
from emulation.traces._parse import parse_trace
from emulation.traces.poisson import make_poisson
from kmod.ensemble import write_atomically

SHELLS = ("mm-delay", "mm-loss")
PERIOD_S = 600.0


class Side(Frozen):
    """The deliveries of one direction: a trace, a model of traces, a constant rate, or a Poisson process."""

    trace: Path | None = Field(None, description="a file, folder or archive; relative to the emulator's file")
    recording: str | None = Field(None, description="a part of the name of the recording, if the trace has several")
    start_s: float = Field(0.0, ge=0, le=86400, description="the place in the trace at which a run begins")
    made: Path | None = Field(None, description="a model of traces that `ccatune traces fit` wrote")
    rate_mbps: float | None = Field(None, gt=0, le=500, description="a constant rate")
    poisson_mbps: float | None = Field(None, gt=0, le=500, description="the mean rate of a Poisson process")
    seed: int = Field(1, ge=0, lt=2**64)

    @model_validator(mode="after")
    def _one_kind(self) -> Side:
        kinds = ("trace", "made", "rate_mbps", "poisson_mbps")
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"expected one of {', '.join(kinds)}, got {' and '.join(given) or 'none'}")
        if self.trace is None and (self.recording is not None or self.start_s):
            raise ValueError("expected recording and start_s only beside trace")
        return self

    def opportunities_ms(self, folder: Path) -> NDArray[Any]:
        """Return the opportunities of one period: integer [n], ms, not decreasing. The last one is the period."""
        if self.trace is not None:
            return _recorded_ms(folder / self.trace, self.recording, round(self.start_s * 1000))
        if self.made is not None:
            from emulation.traces.synthetic import TraceModel, make

            return _times_ms(make(TraceModel.load(folder / self.made), duration_s=PERIOD_S, seed=self.seed))
        if self.poisson_mbps is not None:
            return _times_ms(make_poisson(self.poisson_mbps, duration_s=PERIOD_S, seed=self.seed))
        assert self.rate_mbps is not None  # noqa: S101 (the validator ensures that one kind is given)
        return link_opportunities_ms(LinkRate(rate_mbps=self.rate_mbps), round(PERIOD_S * 1000))


class EmulatorFile(Frozen):
    """The content of an emulator's file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)
    source: str = Field(min_length=1, description="where the figures come from")
    uplink: Side
    downlink: Side
    delay_ms: int = Field(ge=0, le=10_000, description="of each direction")
    queue_pkts: int | None = Field(None, ge=1, le=1_000_000)
    loss: float = Field(0.0, ge=0, lt=1)


@dataclass(frozen=True)
class TestLink:
    """A link, in terms of Pantheon's options.

    source: where its figures come from. uplink, downlink: the opportunities in ms, or a trace file. prepend, append:
    the shells outside and inside of mm-link. extra: options of mm-link's queues. facts: the content of its file.
    start_s: the place in the traces at which the first flow starts.
    """

    __test__ = False  # not a test of pytest

    name: str
    source: str
    uplink: Path | NDArray[Any]
    downlink: Path | NDArray[Any]
    prepend: str = ""
    append: str = ""
    extra: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    start_s: float = 0.0

    def opportunities_ms(self, end_ms: int) -> dict[str, list[int]]:
        """Return the opportunities of each direction in (0, end_ms] after start_s. They repeat with the trace's period.

        Raises TraceError if a file is not a trace of mm-link.
        """
        found = {}
        start_ms = round(self.start_s * 1000)
        for side, trace in (("uplink", self.uplink), ("downlink", self.downlink)):
            if isinstance(trace, Path):
                # As in mm-link, the name of a trace file does not matter.
                period = parse_trace(trace.read_bytes(), name=str(trace)).astype(np.int64)
            else:
                period = trace
            times_ms = repeated_ms(period, period_ms=int(period[-1]), start_ms=start_ms, end_ms=end_ms)
            found[side] = times_ms.tolist()
        return found

    def _contents(self, folder: Path) -> dict[Path, bytes]:
        """Return the content of each trace, by its path in a data folder."""
        found = {}
        for side, trace in (("uplink", self.uplink), ("downlink", self.downlink)):
            text = (
                trace.read_bytes() if isinstance(trace, Path) else "".join(f"{ms}\n" for ms in trace.tolist()).encode()
            )
            found[folder / f"{side}.trace"] = text
        return found

    def is_written_in(self, folder: Path) -> bool:
        """Return whether the traces in a data folder are those of this link."""
        return all(path.is_file() and path.read_bytes() == text for path, text in self._contents(folder).items())

    def written(self, folder: Path) -> TestLink:
        """Write the traces into a data folder, and return the link with these files as its traces."""
        contents = self._contents(folder)
        for path, text in contents.items():
            write_atomically(path, text)
        uplink, downlink = contents
        return replace(self, uplink=uplink, downlink=downlink)


def _recorded_ms(path: Path, recording: str | None, start_ms: int) -> NDArray[Any]:
    trace = one_recording(read_recordings([path]), recording, path).trace
    if start_ms >= trace.period_ms:
        raise EmulationError(
            f"{path}: expected start_s below the trace's {trace.duration_s:g} s, got {start_ms / 1000:g}"
        )
    return _times_ms(trace.slice(start_ms, trace.period_ms) if start_ms else trace)


def _times_ms(trace: Trace) -> NDArray[Any]:
    """Return the opportunities of a trace in the form of mm-link, in which the last one is the period."""
    times = trace.opportunities_ms.astype(np.int64)
    return times if times[-1] == trace.period_ms else np.append(times, trace.period_ms)


def link_of_file(path: Path) -> TestLink:
    """Read an emulator's file.

    Raises EmulationError if the file cannot be read, or a field is invalid. The message describes the first fault.
    """
    spec = read_settings(path, EmulatorFile, what="an emulator")
    queue = "" if spec.queue_pkts is None else (
        f"--uplink-queue=droptail --uplink-queue-args=packets={spec.queue_pkts}"
    )  # fmt: skip
    return TestLink(
        spec.name,
        spec.source,
        spec.uplink.opportunities_ms(path.parent),
        spec.downlink.opportunities_ms(path.parent),
        prepend=f"mm-delay {spec.delay_ms}" if spec.delay_ms else "",
        append=f"mm-loss uplink {spec.loss:.9f}" if spec.loss else "",
        extra=queue,
        facts=spec.model_dump(mode="json"),
    )


def link_of_options(*, uplink: Path, downlink: Path, prepend: str, append: str, extra: str, name: str) -> TestLink:
    """Return the link that Pantheon's options define. Raises EmulationError if a trace does not exist."""
    for trace in (uplink, downlink):
        if not trace.is_file():
            raise EmulationError(f"{trace}: expected a trace of mm-link, found no file")
    return TestLink(name, "options on the command line", uplink.resolve(), downlink.resolve(), prepend, append, extra)


def _words(text: str, option: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise EmulationError(f"{option}: expected words with valid quotes, got {text} ({error})") from error


def _split(text: str, option: str) -> list[list[str]]:
    """Split an option into the command lines of its shells. Each begins with the name of a shell."""
    commands: list[list[str]] = []
    for word in _words(text, option):
        if word in SHELLS:
            commands.append([word])
        elif commands:
            commands[-1].append(word)
        else:
            raise EmulationError(f"{option}: expected {' or '.join(SHELLS)} and their arguments, got {word}")
    return commands


def shells_of(link: TestLink) -> list[list[str]]:
    """Return the command lines of the shells, from the outermost to the innermost. {run} stands for a run's folder.

    Raises EmulationError if an option names a program that is not one of the known shells.
    """
    extra = _words(link.extra, "--extra-mm-link-args")
    refused = [word for word in extra if not word.startswith(("--uplink-queue", "--downlink-queue"))]
    if refused:
        raise EmulationError(f"--extra-mm-link-args: expected options of mm-link's queues, got {refused[0]}")
    logs = [f"--{side}-log={{run}}/{side}.log" for side in ("uplink", "downlink")]
    inner = ["mm-link", "{run}/uplink", "{run}/downlink", *logs, *extra, "--"]
    return [*_split(link.prepend, "--prepend-mm-cmds"), inner, *_split(link.append, "--append-mm-cmds")]


def link_of_folder(folder: Path) -> TestLink:
    """Return the link of a data folder of Pantheon or ccatune. The folder must contain the traces of the link.

    Raises EmulationError if the metadata is damaged, the test was between two machines, or a trace is not in the
    folder.
    """
    metadata = read_metadata(folder)
    if metadata.mode != "local":
        raise EmulationError(
            f"{folder}: expected a test in Mahimahi, got a test between two machines, whose link is unknown"
        )
    traces = []
    for name in (metadata.uplink_trace, metadata.downlink_trace):
        trace = folder / Path(name or "").name
        if not name or not trace.is_file():
            raise EmulationError(
                f"{folder}: expected the trace {name or 'of the link'} in it, found none; copy it there"
            )
        traces.append(trace)
    return link_of_options(
        uplink=traces[0],
        downlink=traces[1],
        prepend=metadata.prepend_mm_cmds or "",
        append=metadata.append_mm_cmds or "",
        extra=metadata.extra_mm_link_args or "",
        name=folder.name,
    )
