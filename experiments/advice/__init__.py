# SPDX-License-Identifier: MIT
"""`python -m experiments advice`: how good the advice of `ccatune advise` is on links that nothing was tuned on.

A flow of the algorithm that runs today is observed on a link. The link is rebuilt from the flow, and advice is given.
Then every candidate runs on the true link and path, over the same time, and

    regret = 1 - score of the advised algorithm / best score of a candidate          on the true link

Without advice the algorithm stays, so its regret says whether "no advice" was right. A regret of at most MOST_REGRET
counts as right. Scores are those of training/observed/advice.py.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np

from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.runner import emulate_many, host_runner
from emulation.run.measures import measure
from emulation.run.qos import QoS
from emulation.run.simulator import compact_edges_us
from emulation.scenario.model import WIRE, FlowSpec
from experiments.advice.cases import Case, cases_of, links_seen
from kmod.tables import Column, print_table
from kmod.terminal import echo
from training.intervals import wilson_95
from training.observed.advice import advise, score_of
from training.observed.candidates import PERCENTILE, Candidate, candidates_of
from training.options import as_json_option, enforce_option, threads_option, traces_option
from training.progress import Terminal

MOST_REGRET = 0.03
SEEDS = 5


@dataclass(frozen=True)
class Row:
    """The outcome of a case. scores: of each candidate on the true link. predicted: on the links of the advice.

    reason: why there was no advice; "" with one. regret_validated: compared with the best candidate but BBRv3.
    """

    case: str
    kind: str
    today: str
    advised: str | None
    reason: str
    best: str
    regret: float
    regret_validated: float
    scores: dict[str, float]
    predicted: dict[str, float]


def true_scores(
    case: Case, candidates: Sequence[Candidate], *, target_ms: float, threads: int | None
) -> dict[str, float]:
    """The score of each candidate on the true link, simulated; the mean over seeds."""
    scenarios = [case.scenario.model_copy(update={"seed": seed}) for seed in range(SEEDS)]
    out = measure(scenarios, [one.trial for one in candidates], threads=threads)
    reached = np.cumsum(out.delay_counts, axis=2) < PERCENTILE / 100 * out.packets[:, :, None]
    edges_ms = compact_edges_us() / 1000
    delay_ms = edges_ms[np.minimum(reached.sum(axis=2), len(edges_ms) - 1)]
    used = np.minimum(out.goodput_bytes * WIRE / case.true.capacity_bytes(case.scenario), 1.0)
    retransmitted = out.retransmitted_pkts / np.maximum(out.sent_pkts, 1)
    scores = score_of(used, delay_ms, retransmitted, target_ms=target_ms).mean(axis=0)
    return {one.name: float(score) for one, score in zip(candidates, scores, strict=True)}


def real_scores(case: Case, candidates: Sequence[Candidate], *, target_ms: float) -> tuple[dict[str, float], QoS]:
    """The score of each candidate that this kernel has over Mahimahi, and the run of today's algorithm."""
    known = host_runner().algorithms
    its = [one for one in candidates if one.name in known]
    scenarios = [
        case.scenario.model_copy(update={"flows": (FlowSpec(cca=one.name, ensemble_text=one.trial.ensemble_text),)})
        for one in its
    ]
    with kept_awake():
        runs = emulate_many(scenarios, series_every_s=0.1)
    found = {}
    for one, run in zip(its, runs, strict=True):
        capacity_mbps = case.true.capacity_bytes(case.scenario) * 8e-6 / case.scenario.duration_s
        used = np.array(min(run.goodput_mbps * WIRE / capacity_mbps, 1.0))
        delay = np.array(run.queueing_delay.percentile_ms(PERCENTILE))
        found[one.name] = float(score_of(used, delay, np.array(run.retransmission_rate), target_ms=target_ms))
    return found, runs[[one.name for one in its].index(case.scenario.flows[0].cca)]


def row_of(case: Case, *, target_ms: float, seed: int, threads: int | None) -> Row:
    """The outcome of a case."""
    candidates, run = candidates_of(target_ms), None
    if case.is_real:
        scores, run = real_scores(case, candidates, target_ms=target_ms)
    else:
        scores = true_scores(case, candidates, target_ms=target_ms, threads=threads)
    advice = advise(links_seen(case, run), target_ms=target_ms, seed=seed, threads=threads).pooled
    today = case.scenario.flows[0].cca
    advised = advice.advised.name if advice.advised else None
    best = max(scores, key=lambda name: scores[name])
    validated = max(scores[one.name] for one in candidates if one.is_validated and one.name in scores)
    regret, regret_validated = (1 - scores.get(advised or today, 0.0) / max(most, 1e-9)
                                for most in (scores[best], validated))  # fmt: skip
    return Row(case.name, case.kind, today, advised, advice.reason, best, regret, regret_validated, scores,
               {name: its.score.value for name, its in advice.candidates.items()})  # fmt: skip


@click.command("advice")
@click.option("--target-ms", type=click.FloatRange(10), default=100.0, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=3, show_default=True, help="Of the cases and the runs")
@click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="Only every n-th case")
@click.option("--real/--no-real", default=True, help="With the three cases over Mahimahi, as root")
@traces_option
@threads_option
@enforce_option
@as_json_option
def command(
    *, target_ms: float, seed: int, every: int, real: bool, paths: tuple[Path, ...], threads: int | None,
    enforce: bool, as_json: bool,
) -> None:  # fmt: skip
    """Give advice for 60 links, paths and policers, and compare it with the best candidate on the true link.

    \b
    Example:
      python -m experiments advice
      python -m experiments advice --no-real --every 4 --json
    """
    cases = [case for case in cases_of(paths, seed=seed)[::every] if real or not case.is_real]
    rows = []
    with Terminal(quiet=as_json) as terminal:
        terminal.phase("cases", total=len(cases))
        for case in cases:
            rows.append(row_of(case, target_ms=target_ms, seed=seed, threads=threads))
            terminal.advance(1)
    right = sum(row.regret <= MOST_REGRET for row in rows)
    if as_json:
        validated = sum(row.regret_validated <= MOST_REGRET for row in rows)
        echo(json.dumps({"right": right, "right_validated": validated, "interval": wilson_95(right, len(rows)),
                         "rows": [asdict(row) for row in rows]}, indent=1))  # fmt: skip
    else:
        _print(rows, right)
    if enforce and right < len(rows):
        sys.exit(1)


def _print(rows: Sequence[Row], right: int) -> None:
    cells = []
    for kind in [*dict.fromkeys(row.kind for row in rows), "all"]:
        its = [row for row in rows if kind in (row.kind, "all")]
        regrets = np.array([row.regret for row in its])
        advised = Counter(row.advised or "none" for row in its)
        cells.append([
            kind, str(len(its)), f"{(regrets <= MOST_REGRET).mean():.0%}", *(f"{np.percentile(regrets, at):.1%}"
            for at in (50, 90, 100)), ", ".join(f"{name} {count}" for name, count in advised.most_common()),
        ])  # fmt: skip
    columns = ("cases", "", "within\n3 %", "median\nregret", "90th", "worst")
    print_table([Column(columns[0]), *(Column(name, "right") for name in columns[1:]), Column("advised")], cells)
    validated = sum(row.regret_validated <= MOST_REGRET for row in rows)
    for count, of in ((right, "the best"), (validated, "the best, without the unvalidated BBRv3")):
        low, high = wilson_95(count, len(rows))
        echo(f"\n{count} of {len(rows)} within {MOST_REGRET:.0%} of {of}: {count / len(rows):.1%}, "
             f"95 % interval {low:.1%} to {high:.1%}")  # fmt: skip
    worst = sorted((row for row in rows if row.regret > MOST_REGRET), key=lambda row: -row.regret)
    if worst:
        echo("\nThe others:")
        names = ("case", "today", "advised", "best", "regret")
        print_table([Column(name, "right" if name == "regret" else "left") for name in names],
                    [[row.case, row.today, row.advised or f"none ({row.reason})", row.best, f"{row.regret:.1%}"]
                     for row in worst])  # fmt: skip
