# SPDX-License-Identifier: MIT
"""Fills the unknown time between the pieces of rebuilt links with what a fitted generator makes.

The generator (emulation/traces/synthetic.py) is fitted to the pieces of the flow itself if they last MIN_FIT_S, else to
those of all flows together, joined one after the other. Where it makes less than the flow delivered in an unknown
time, opportunities are added evenly, because the link carried at least that. The filled times are named, so that
nobody takes them for measured ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from emulation.errors import TraceError
from emulation.traces import OPPORTUNITY_BYTES, Recording, Trace
from emulation.traces.synthetic import MIN_FIT_S, TraceModel, fit, make
from training.errors import TrainingError
from training.observed.links import Piece, RebuiltLink


@dataclass(frozen=True, eq=False)
class Filled:
    """A link from its first to its last piece. spans_s: filled times, of the flow. known_share: of its time."""

    start_s: float
    trace: Trace = field(repr=False)
    spans_s: tuple[tuple[float, float], ...]
    known_share: float


def filled_links(links: Sequence[RebuiltLink]) -> list[Filled | None]:
    """Fill each link that has several pieces; None for the others, whose only piece stays as it is.

    Raises TrainingError if the pieces of all links together are too short to fit the generator on.
    """
    pooled: TraceModel | None = None
    found: list[Filled | None] = []
    for link in links:
        if len(link.pieces) < 2:
            found.append(None)
            continue
        own = sum(piece.duration_s for piece in link.pieces) >= MIN_FIT_S
        if not own and pooled is None:
            pooled = _fitted([piece for each in links for piece in each.pieces])
        model = _fitted(link.pieces) if own or pooled is None else pooled
        found.append(_filled(link, model))
    return found


def _fitted(pieces: Sequence[Piece]) -> TraceModel:
    starts_ms = np.cumsum([0, *(piece.trace.period_ms for piece in pieces)])
    times_ms = [piece.trace.opportunities_ms + at_ms for piece, at_ms in zip(pieces, starts_ms[:-1], strict=True)]
    joined = Trace("observed", np.concatenate(times_ms or [np.zeros(1)]).astype(np.uint32), max(int(starts_ms[-1]), 1))
    try:
        return fit([Recording("observed", "observed", joined, (), ("observed.down",))])
    except TraceError as error:
        raise TrainingError(f"--fill: {error}") from error


def _filled(link: RebuiltLink, model: TraceModel) -> Filled:
    start_s = link.pieces[0].start_s
    times: list[NDArray[np.float64]] = []
    spans: list[tuple[float, float]] = []
    at_s = start_s
    for piece in link.pieces:
        if piece.start_s > at_s + 1e-3:
            spans.append((at_s, piece.start_s))
            times.append((at_s - start_s) * 1000 + _made(link, model, at_s, piece.start_s))
        times.append((piece.start_s - start_s) * 1000 + piece.trace.opportunities_ms.astype(np.float64))
        at_s = piece.start_s + piece.duration_s
    period_ms = round((at_s - start_s) * 1000)
    times_ms = np.sort(np.minimum(np.concatenate(times), period_ms)).astype(np.uint32)
    known_s = sum(piece.duration_s * piece.known_share for piece in link.pieces)
    return Filled(start_s, Trace(f"{link.name} filled", times_ms, period_ms), tuple(spans), known_s / (at_s - start_s))


def _made(link: RebuiltLink, model: TraceModel, from_s: float, to_s: float) -> NDArray[np.float64]:
    """Opportunities in ms since from_s, at least as many as the flow used."""
    name = hashlib.sha256(f"{link.name} {from_s:.3f}".encode()).digest()
    try:
        made = make(model, duration_s=to_s - from_s, seed=int.from_bytes(name[:4], "little"))
        times_ms = made.opportunities_ms.astype(np.float64)
    except TraceError:  # silent all the time
        times_ms = np.zeros(0)
    used = np.append(0.0, np.cumsum(link.capacity_bytes))
    carried = float(np.diff(np.interp([from_s, to_s], link.edges_s, used))[0]) / OPPORTUNITY_BYTES
    lacking = max(int(carried) - len(times_ms), 0)
    return np.append(times_ms, (np.arange(lacking) + 0.5) * (to_s - from_s) * 1000 / max(lacking, 1))
