# SPDX-License-Identifier: MIT
"""Statements of appendices K and L: limited clients that are missed, false classifications, and errors of estimates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from emulation.scenario.model import Cca
from experiments.figures import Figure, Statement, share, within
from experiments.rtcp.campaign import Part, Results
from experiments.rtcp.statements.common import NAMES, ByKind, errors, hits, rate_errors
from training.intervals import LEAST_SEEDS

__all__ = ["STATEMENTS"]

MOST_MISSED, MOST_FALSE, MOST_FALSE_MOVING = 0.012, 0.005, 0.037
LEAST_TRIGGERED = 200
MAP_RATE_MBPS, MAP_BUCKET_BYTES = 6.0, 260_000


def detection(results: Results, value: str) -> list[Part]:
    """The parts of detection with that value."""
    return [part for part in results.parts if part.kind == "detection" and part.value == value]


def missed(results: Results) -> list[Figure]:
    figures = []
    for part in detection(results, "limited"):
        found, of = hits(results, part, "limited")
        figures.append(share(f"{NAMES[part.cca]} {part.place}", of - found, of, most=MOST_MISSED))
    return figures


def falsely(*, moving: bool) -> Callable[[Results], list[Figure]]:
    """The share of runs without a limit that end as limited."""

    def figures(results: Results) -> list[Figure]:
        parts = [p for p in detection(results, "unlimited") if results.settings.unlimited[p.place].moving == moving]
        most = MOST_FALSE_MOVING if moving else MOST_FALSE
        return [share(f"{NAMES[p.cca]} {p.place}", *hits(results, p, "limited"), most=most) for p in parts]

    return figures


def triggered(results: Results) -> list[Figure]:
    counts = [hits(results, part, "triggered") for part in detection(results, "unlimited")]
    fired, of = sum(count for count, _ in counts), sum(of for _, of in counts)
    return [Figure(f"in {of} runs", float(fired), 0.0, fired >= LEAST_TRIGGERED, "runs")]


def without_guards(results: Results) -> list[Figure]:
    """The runs without guards that were ever classified as limited, less those with both guards that end as limited.

    The guards are the trigger, which is at its lowest setting without guards, and un-detection. Both shares are over
    the same links, so that the interval is that of the difference, run by run. The shares differ only if the difference
    exceeds its interval.
    """
    figures = []
    for part in detection(results, "eager"):
        ever = results.column(part, "ever_limited")
        guarded = results.column(Part(part.kind, part.place, part.cca, "unlimited"), "limited")
        more = within(f"above the {100 * guarded.mean():.1f} % with both by", ever - guarded)
        figures.append(share(f"{NAMES[part.cca]} {part.place}", int(ever.sum()), len(ever)))
        figures.append(replace(more, agrees=more.mean > more.interval))
    return figures


def estimates(bounds: dict[Cca, tuple[float, float]]) -> Callable[[Results], list[Figure]]:
    """Table 9. bounds: the largest errors of B and of R behind the first operator."""

    def figures(results: Results) -> list[Figure]:
        out = []
        for part in detection(results, "limited"):
            limited = results.settings.limited[part.place]
            of_b, of_r = errors(results, part, truth=(limited.bucket_bytes, limited.rate_mbps))
            if len(of_b) < LEAST_SEEDS:
                continue
            first = part.place == next(iter(results.settings.limited))
            most_b, most_r = bounds[part.cca] if first else (math.inf, math.inf)
            out += [within(f"{NAMES[part.cca]} {part.place} B", of_b, most=most_b), within("R", of_r, most=most_r)]
        return out

    return figures


def operating_map(results: Results) -> list[Figure]:
    inside = [0, 0]
    of_r = []
    for part in results.parts:
        if part.kind != "map":
            continue
        mbps, bucket = float(part.value), int(part.place)
        found, of = hits(results, part, "limited")
        if mbps <= MAP_RATE_MBPS and bucket >= MAP_BUCKET_BYTES:
            inside[0] += found
            inside[1] += of
            of_r.append(errors(results, part, truth=(bucket, mbps))[1])
    if not inside[1]:
        return []
    rates = np.concatenate(of_r)
    figures = [share("found", inside[0], inside[1], least=1.0)]
    return figures + (rate_errors(rates) if len(rates) >= LEAST_SEEDS else [])


STATEMENTS: ByKind = {
    "detection": (
        Statement("K-1", "Limited clients that are not found (Table 8: up to 1.18 %)", "<= 1.2 %", missed),
        Statement("K-2", "Clients without a limit that are taken for limited, still (0 to 0.46 %)",
                  "<= 0.5 %", falsely(moving=False)),
        Statement("K-3", "and moving (3.59, 3.67 %)", "<= 3.7 %", falsely(moving=True)),
        Statement("issue-1", "so judged where detection begins in enough runs", ">= 200 runs", triggered),
        Statement("K-4", "Without trigger and un-detection more are, moving (8.07, 5.96 %)",
                  "more than with both, beyond the interval", without_guards),
        Statement("K-5", "Errors of B and R behind op1 (Table 9: 5.71 and 0.41, 6.97 and 0.50 %)",
                  "at most these; of the others none is asked",
                  estimates({"rtcp_bbr": (0.0571, 0.0041), "rtcp_cubic": (0.0697, 0.0050)})),
    ),
    "map": (
        Statement("L-1", "Found wherever R is up to 6 Mbit/s and B from 260 kB on, R with a small error",
                  "in all runs, mean error <= 5 %", operating_map),
    ),
}  # fmt: skip
