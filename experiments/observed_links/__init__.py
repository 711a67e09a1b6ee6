# SPDX-License-Identifier: MIT
"""`python -m experiments observed-links`: rebuilt links beside true ones (docs/links.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from emulation.errors import EmulationError
from emulation.mahimahi import lacking
from experiments.observed_links.judge import judge
from experiments.observed_links.runs import (
    ALGORITHMS,
    LINK,
    OBSERVED,
    OBSERVED_ACKS,
    PATHS,
    SAMPLE_S,
    Observed,
    folder_of,
    make_real,
    real,
    scenarios,
    simulated,
)
from kmod.terminal import echo
from training.options import as_json_option, enforce_option, traces_option

SOURCES = {"simulator, captures": None, "simulator, samples": SAMPLE_S, "Mahimahi, samples": SAMPLE_S,
           "Mahimahi, ACKs": None}  # fmt: skip
LEAST_RIGHT = 0.8
MOST_MEDIAN = {"throughput": 0.05, "p95_delay": 0.13}


@click.command("observed-links")
@click.option("--only", type=click.Choice(["simulator", "mahimahi"]), help="This source of flows  [both]")
@click.option("--work", type=click.Path(file_okay=False, path_type=Path), default=Path("build/observed-links"),
              show_default=True, help="Real runs are kept here, and not made again.")  # fmt: skip
@click.option("--most", type=click.IntRange(0), help="Make at most so many real runs, of 30 s each.  [all]")
@click.option("--acks", is_flag=True, help="Also sample the real runs with `ccatune observe --acks`.")
@click.option("--path", type=click.Choice(list(PATHS)), default="plain", show_default=True,
              help="Of the simulator: what disturbs the flows.")  # fmt: skip
@traces_option
@enforce_option
@as_json_option
def command(
    *, only: str | None, work: Path, most: int | None, acks: bool, path: str, paths: tuple[Path, ...], enforce: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Observe CUBIC and BBR flows over 20 recorded links, rebuild the links, and compare.

    Then simulate another algorithm on the rebuilt and on the true link. Real flows need root.

    \b
    Example:
      python -m experiments observed-links --only simulator
      python -m experiments observed-links --only mahimahi --most 9 --acks
    """
    found: dict[str, dict[str, Any]] = {}
    for source, sample_s in SOURCES.items():
        is_real = "Mahimahi" in source
        of_acks = source == "Mahimahi, ACKs"
        if (only is not None and only not in source.lower()) or (is_real and path != "plain") or of_acks > acks:
            continue
        runs = _real_runs(paths, work, most, acks=acks, of_acks=of_acks) if is_real else [
            simulated(scenario, sample_s=sample_s) for scenario in scenarios(paths, path=path)
        ]  # fmt: skip
        for cca in ALGORITHMS:
            its = [one for one in runs if one.flow.algorithm == cca]
            if len(its) >= 5:
                found[f"{source}, {cca}"] = judge(its)
    if as_json:
        echo(json.dumps(found, indent=1))
    else:
        for name, figures in found.items():
            echo("\n".join(_lines(name, figures)))
    if enforce and not all(map(_holds, found.values())):
        sys.exit(1)


def _real_runs(paths: tuple[Path, ...], work: Path, most: int | None, *, acks: bool, of_acks: bool) -> list[Observed]:
    names = [OBSERVED, OBSERVED_ACKS] if acks else [OBSERVED]
    if lacks := lacking():
        raise EmulationError(f"mahimahi: {lacks}")
    work.mkdir(parents=True, exist_ok=True)
    runs, made = [], 0
    for scenario in scenarios(paths):
        folder = folder_of(scenario, work)
        if not all((folder / name).exists() for name in (LINK, *names)):
            # The second source of the same runs makes none.
            if of_acks or (most is not None and made >= most):
                continue
            late_share = make_real(scenario, folder, names=names)
            made += 1
            echo(f"{scenario.name}: {late_share or 0:.2%} of the timers were late", err=True)
        runs.append(real(scenario, folder, name=names[-1] if of_acks else OBSERVED))
    return runs


def _holds(figures: dict[str, Any]) -> bool:
    first = next(iter(figures["resimulated"].values()), None)
    return (
        first is not None
        and (figures["busy_seconds"]["share"] or 0) >= LEAST_RIGHT
        and all(first[name]["median"] <= most for name, most in MOST_MEDIAN.items())
    )


def _lines(name: str, figures: dict[str, Any]) -> list[str]:
    def share(its: dict[str, Any]) -> str:
        return f"{its['share'] or 0:.1%} [{its['low']:.1%}, {its['high']:.1%}] of {its['of']}"

    lines = [
        f"{name}: {figures['runs']} runs, {'holds' if _holds(figures) else 'differs'}",
        f"  known {figures['known_share']:.1%} of the time, backlogged in truth {figures['busy_share']:.1%}, "
        f"in pieces {figures['kept_share']:.1%}",
        f"  {figures['resolution_ms']:.1f} ms between rows; median error of a known second "
        f"{figures['second_error'] or 0:.2%}",
        f"  rate within 10 %: known seconds {share(figures['known_seconds'])}; "
        f"backlogged seconds {share(figures['busy_seconds'])}",
        f"  mean known rate over mean true rate {figures['bias']['mean'] or 0:.3f} ± "
        f"{figures['bias']['interval'] or 0:.3f}",
    ]
    for other, its in figures["resimulated"].items():
        parts = [
            f"{what} {its[key]['median']:.1%} ± {its[key]['interval']:.1%}, mean {its[key]['mean']:+.1%}, "
            f"worst {its[key]['worst']:+.1%} (run {its[key]['worst_run']}), within {its[key]['within']['share']:.0%}"
            for key, what in (("throughput", "throughput"), ("p95_delay", "p95 delay"))
        ]
        lines += [f"  {other} on {its['pieces']} pieces, median error:", *(f"    {part}" for part in parts)]
    return lines
