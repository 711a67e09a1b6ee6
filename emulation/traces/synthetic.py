# SPDX-License-Identifier: MIT
"""Make traces of cellular links that vary as recorded links do, from milliseconds to minutes.

    slow rate   blocks of 30 ticks, which vary up to minutes and hours: octaves of a Gaussian process, mapped to the
                recorded distribution of rates (_slow.py)
    stages      from blocks to ticks, from ticks to tenths of them, and so on; each is drawn from the stage before it
                and from the past of the series itself (_stage.py)

`fit` fits all of this. A recording that does not vary below one second has ticks of 1 s and one stage. Its
opportunities are spread evenly within a tick. The pqsa recordings are of this kind. Any other recording has ticks of
100, 10 and 1 ms. The mahimahi recordings, which were taken packet by packet, are of that kind. A model holds
distributions, not the recording. So a made trace never repeats a stretch of the recording. It has the recording's
rates, steps, dips, bursts and outages, and their lengths.

A model has one or more links. The numbered files of a dataset are pieces of one link; any other file is a link of its
own. Limits: the two directions of a link are made independently, and a made link has no hour of the day.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emulation.errors import TraceError
from emulation.traces._slow import SlowRate, draw_slow, fit_slow, smooth
from emulation.traces._stage import Stage, draw_stage, fit_stage, is_even
from emulation.traces.recording import Recording, find_gaps, is_numbered
from emulation.traces.trace import Trace
from kmod.ensemble import write_atomically

Counts = NDArray[np.int64]

MIN_FIT_S = 60
# Six hours are 21.6 million ticks of 1 ms. Making them takes 1 GB of memory.
MAX_DURATION_S = 6 * 3600
COARSE_TICK_MS = 1000
FINE_TICKS_MS = (100, 10, 1)
# The slow rate is the mean over this many of the longest ticks. Blocks of 10 ticks would lose dips that last longer
# than a block. Blocks of 100 would be too few in recordings of some minutes.
BLOCK_TICKS = 30


class Source(BaseModel):
    """A recording that the model was fitted on."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    digest: str
    duration_s: float


class LinkModel(BaseModel):
    """One link: its slow rate and its stages, coarse to fine. recorded_s: total length of its recordings."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    recorded_s: float = Field(gt=0)
    slow: SlowRate
    stages: tuple[Stage, ...] = Field(min_length=1)


class TraceModel(BaseModel):
    """The model from which `make` makes traces; stored as a JSON file."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Literal["ccatune-trace-model/1"] = Field("ccatune-trace-model/1", alias="schema")
    sources: tuple[Source, ...]
    links: tuple[LinkModel, ...] = Field(min_length=1)

    def link(self, name: str) -> LinkModel:
        """The link with that name, or whose name ends in it. Raises TraceError unless there is exactly one."""
        found = [link for link in self.links if link.name == name] or [
            link for link in self.links if link.name.endswith(name)
        ]
        if len(found) != 1:
            names = ", ".join(link.name for link in self.links)
            raise TraceError(f"link {name}: expected one of {names}, got {len(found)} that fit; name it in full")
        return found[0]

    def save(self, path: Path) -> None:
        """Write the model completely or not at all."""
        text = json.dumps(self.model_dump(mode="json", by_alias=True), separators=(",", ":"))
        write_atomically(path, f"{text}\n".encode())

    @classmethod
    def load(cls, path: Path) -> TraceModel:
        """Read a model. Raises TraceError if the file is not a model."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise TraceError(f"{path}: expected a model of traces, got {error}; make one with traces fit") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the file"
            raise TraceError(
                f"{path}: expected a model of traces, got at {where}: {first['msg']}; fit it anew"
            ) from None


def fit(recordings: Sequence[Recording], *, progress: Callable[[str], None] | None = None) -> TraceModel:
    """Fit a model. progress: called with the name of each link before it is fitted.

    Raises TraceError without recordings, and for a link of less than 60 s, which shows too little of its behaviour.
    """
    links: defaultdict[str, list[Recording]] = defaultdict(list)
    for recording in recordings:
        links[recording.dataset if is_numbered(recording) else recording.name].append(recording)
    if not links:
        raise TraceError("synthetic model: expected recordings to fit on, got none")
    fitted: list[LinkModel] = []
    for name, parts in links.items():
        if progress is not None:
            progress(name)
        fitted.append(_fit_link(name, parts))
    sources = tuple(
        Source(name=recording.name, digest=recording.trace.digest, duration_s=recording.duration_s)
        for recording in recordings
    )
    return TraceModel(sources=sources, links=tuple(fitted))


def make(model: TraceModel, *, duration_s: float, seed: int, link: str | None = None) -> Trace:
    """Make a trace of duration_s; equal model, duration, seed and link give equal traces.

    link: its name (see TraceModel.link); None: the seed draws a link, with the recorded times as weights.

    Raises TraceError for a duration below 1 ms or over six hours, and for more opportunities than a trace file can
    hold. Also if the link is silent all the time.
    """
    if not 0.001 <= duration_s <= MAX_DURATION_S:
        raise TraceError(f"made trace: expected a duration of 0.001 to {MAX_DURATION_S} s, got {duration_s}")
    root = np.random.SeedSequence(seed)
    choosing, slow_seed, *stage_seeds = (np.random.default_rng(child) for child in root.spawn(2 + 8))
    chosen = _draw_link(model, choosing) if link is None else model.link(link)
    period_ms = round(duration_s * 1000)
    tick_ms = chosen.slow.tick_ms * chosen.slow.window_ticks
    counts = draw_slow(chosen.slow, n_blocks=-(-period_ms // tick_ms), rng=slow_seed)
    for stage, rng in zip(chosen.stages, stage_seeds, strict=False):
        counts = draw_stage(stage, counts / stage.ratio, rng=rng)
        tick_ms = stage.tick_ms
    times_ms = _place(counts, tick_ms)
    times_ms = times_ms[times_ms < period_ms]
    name = f"made-{chosen.name.replace('/', '-')}-{seed}"
    if not len(times_ms):
        raise TraceError(
            f"{name}: expected an opportunity in {duration_s} s, got none; take a longer one or another seed"
        )
    return Trace(name, times_ms, period_ms)


def make_recordings(
    model: TraceModel, *, duration_s: float, count: int, seed: int, link: str | None = None
) -> list[Recording]:
    """Make `count` traces as recordings of a dataset called "made". The seed of each trace is drawn from `seed`."""
    seeds = np.random.SeedSequence(seed).generate_state(count, dtype=np.uint32)
    traces = [make(model, duration_s=duration_s, seed=int(one), link=link) for one in seeds]
    return [Recording(trace.name, "made", trace, find_gaps(trace), (trace.name,)) for trace in traces]


def _fit_link(name: str, recordings: Sequence[Recording]) -> LinkModel:
    recorded_s = sum(recording.duration_s for recording in recordings)
    if recorded_s < MIN_FIT_S:
        raise TraceError(
            f"{name}: expected at least {MIN_FIT_S} s to fit on, got {recorded_s:.1f}; use more of the link"
        )
    # Ticks that mostly hold one opportunity or none look even in any case. So one uneven scale makes the link uneven.
    even = all(_even_at(recordings, *pair) for pair in itertools.pairwise((COARSE_TICK_MS, *FINE_TICKS_MS)))
    ticks_ms = (COARSE_TICK_MS,) if even else FINE_TICKS_MS
    parents_ms = (BLOCK_TICKS * ticks_ms[0], *ticks_ms)
    slow = [smooth(ticks.astype(np.float64), window_ticks=BLOCK_TICKS) for ticks in _counts(recordings, ticks_ms[0])]
    return LinkModel(
        name=name,
        recorded_s=recorded_s,
        slow=fit_slow(slow, tick_ms=ticks_ms[0], window_ticks=BLOCK_TICKS),
        stages=tuple(_fit_stage(recordings, *pair) for pair in itertools.pairwise(parents_ms)),
    )


def _fit_stage(recordings: Sequence[Recording], parent_ms: int, tick_ms: int) -> Stage:
    ratio = parent_ms // tick_ms
    series = []
    for counts in _counts(recordings, tick_ms):
        n_parents = len(counts) // ratio
        if n_parents:
            ticks = counts[: n_parents * ratio]
            series.append((ticks, np.repeat(ticks.reshape(n_parents, ratio).mean(axis=1), ratio)))
    return fit_stage(series, tick_ms=tick_ms, ratio=ratio)


def _even_at(recordings: Sequence[Recording], parent_ms: int, tick_ms: int) -> bool:
    """Whether the ticks share the opportunities of their parents evenly, over all recordings."""
    ratio = parent_ms // tick_ms
    counts = [ticks[: len(ticks) // ratio * ratio] for ticks in _counts(recordings, tick_ms)]
    return is_even(np.concatenate(counts), ratio=ratio)


def _counts(recordings: Sequence[Recording], tick_ms: int) -> list[Counts]:
    return [recording.trace.bin_counts(tick_ms) for recording in recordings if recording.trace.period_ms >= tick_ms]


def _draw_link(model: TraceModel, rng: np.random.Generator) -> LinkModel:
    weights = np.array([link.recorded_s for link in model.links])
    return model.links[int(rng.choice(len(weights), p=weights / weights.sum()))]


def _place(counts: Counts, tick_ms: int) -> NDArray[np.uint32]:
    """Times of the opportunities, evenly spaced within a tick: the i-th of n comes at (i + 1/2) / n of the tick."""
    before = np.cumsum(counts) - counts
    place = np.arange(int(counts.sum())) - np.repeat(before, counts)
    within = (2 * place + 1) * tick_ms // (2 * np.repeat(counts, counts))
    return (np.repeat(np.arange(len(counts)) * tick_ms, counts) + within).astype(np.uint32)
