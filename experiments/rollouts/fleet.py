# SPDX-License-Identifier: MIT
"""A simulated fleet of servers in a roll-out, at compressed time.

The epochs come from the simulator (pool.py). The rest is a stochastic model with chosen constants:

    links     each server has six links with weights of its own. The weights are drawn anew for each report (bursts) and
              walk at random from day to day (drift that differs between servers)
    day       at the busy hour of its site a server has more epochs, and more of them on its worse links. There are four
              sites, six hours apart
    traffic   the epochs per report are drawn from a Pareto distribution over servers, so that a few have most of them
    harm      what a candidate adds is constant: points of the share within target, percent of the goodput, and points
              of the retransmission rate
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.rollouts.pool import Epochs
from serving.rollouts.assignment import arm_of_block, n_candidates, order_of
from serving.rollouts.decision import Clock, Decision, decide
from serving.rollouts.plan import Plan
from serving.rollouts.statistics import Arm, Sums, Unit

N_SERVERS, N_SITES, LINKS_PER_SERVER = 200, 4, 6
REPORT_S, DAY_S = 900.0, 86_400.0
REPORTS_PER_DAY = round(DAY_S / REPORT_S)
# Sums of the whole fleet in one report: treated [server] bool, time_s -> float [server, column].
Report = Callable[[NDArray[np.bool_], float], NDArray[np.float64]]


@dataclass(frozen=True)
class Harm:
    """What the candidate adds to the figures of its servers. goodput: a factor."""

    within_target: float = 0.0
    goodput: float = 1.0
    retransmission_rate: float = 0.0


class Fleet:
    """The servers of one seed."""

    def __init__(self, epochs: Epochs, harm: Harm, *, seed: int) -> None:
        self._rng = rng = np.random.default_rng(seed)
        self._harm = harm
        n_links, per_link, _ = epochs.shape
        links = np.argsort(rng.random((N_SERVERS, n_links)), axis=1)[:, :LINKS_PER_SERVER]
        # float [server, link * epoch, column]
        self._epochs = epochs[links].reshape(N_SERVERS, LINKS_PER_SERVER * per_link, -1)
        shares = epochs[..., 1].sum(1) / epochs[..., 0].sum(1)
        self._badness = (shares.mean() - shares[links]) / shares.std()
        self._log_weights = rng.normal(0, 0.7, (N_SERVERS, LINKS_PER_SERVER))
        self._per_link = per_link
        self._usual = 6 * (1 + rng.pareto(1.3, N_SERVERS))
        self.site = rng.integers(0, N_SITES, N_SERVERS)

    def report(self, treated: NDArray[np.bool_], time_s: float) -> NDArray[np.float64]:
        """Return the sums of each server since the last report."""
        rng = self._rng
        busy = np.sin(2 * np.pi * (time_s / DAY_S + self.site / N_SITES))[:, None]
        self._log_weights += rng.normal(0, 0.5 / np.sqrt(REPORTS_PER_DAY), self._log_weights.shape)
        weights = np.exp(self._log_weights + 0.3 * busy * self._badness)
        drawn = rng.gamma(0.7 * weights / weights.mean(1, keepdims=True)) + 1e-9
        shares = np.repeat(drawn / drawn.sum(1, keepdims=True) / self._per_link, self._per_link, axis=1)
        counts = rng.multinomial(rng.poisson(self._usual * (1 + 0.6 * busy[:, 0])), shares)
        sums: NDArray[np.float64] = np.einsum("se,sec->sc", counts, self._epochs)
        samples, within, _, _, sent, retransmitted = sums.T.copy()
        # Float shares of segments need no rounding: every figure is a quotient.
        sums[treated, 1] = np.clip(within + self._harm.within_target * samples, 0, samples)[treated]
        sums[treated, 2] *= self._harm.goodput
        sums[treated, 5] = np.clip(retransmitted + self._harm.retransmission_rate * sent, 0, sent)[treated]
        return sums


@dataclass(frozen=True)
class Outcome:
    """How a roll-out ended. share: the largest share of the servers that had the candidate before it was promoted."""

    action: str
    hours: float
    share: float
    n_looks: int
    decision: Decision


def sums_of(row: NDArray[np.float64]) -> Sums:
    """Return a row of columns as sums."""
    return Sums(*map(float, row))


def roll_out(report: Report, plan: Plan, *, name: str, sites: NDArray[np.int64], held: bool = False) -> Outcome:
    """Run a roll-out by servers to its end. held: every step takes its whole time, whatever is decided but an abort."""
    n = len(sites)
    order = [int(server) for server in order_of(name, {str(at): str(site) for at, site in enumerate(sites)})]
    nobody = np.zeros(n, dtype=bool)
    # One report of each hour has the figures of the day before, and takes a quarter of the time.
    before = np.sum([report(nobody, hour * 3600.0) for hour in range(24)], axis=0)
    befores = [sums_of(row) for row in before]
    now_s = began_s = DAY_S
    step = n_looks = 0
    last_look_s: float | None = None
    since = np.zeros_like(before)
    while True:
        size = n_candidates(plan.steps[step].share, n_servers=n, least_servers=plan.least_servers)
        treated = nobody.copy()
        treated[order[:size]] = True
        now_s += REPORT_S
        since += report(treated, now_s)
        clock = Clock(now_s, step, began_s, began_s, n_looks, last_look_s)
        last_s = None if last_look_s is None else last_look_s - began_s
        if now_s - began_s < plan.next_look_s(step, last_s):
            continue
        arms: list[Arm] = ["candidate" if each else "baseline" for each in treated]
        units = [Unit(str(at), arms[at], sums_of(since[at]), befores[at]) for at in range(n)]
        decision = decide(units, plan, clock)
        n_looks, last_look_s = n_looks + decision.is_look, now_s
        action = decision.action
        is_over = now_s - began_s >= plan.steps[step].most_s
        if held and action != "abort":
            action = ("advance" if step + 1 < len(plan.steps) else "pause") if is_over else "continue"
        if action == "advance":
            step, began_s, last_look_s = step + 1, now_s, None
            since = np.zeros_like(before)
        elif action != "continue":
            return Outcome(action, (now_s - DAY_S) / 3600, size / n, n_looks, decision)


def switch_back(report: Report, plan: Plan, *, name: str, n_servers: int) -> Outcome:
    """Run a roll-out by switchback to its end. A block has no wash-out: the reports have no memory."""
    assert plan.switchback is not None  # noqa: S101 - by the caller
    per_block = round(plan.switchback.block_s / REPORT_S)
    blocks: list[Unit] = []
    n_looks, last_look_s, now_s = 0, None, 0.0
    while True:
        arm = arm_of_block(name, len(blocks))
        treated = np.full(n_servers, arm == "candidate")
        total = np.sum([report(treated, now_s + at * REPORT_S) for at in range(per_block)], axis=(0, 1))
        now_s += plan.switchback.block_s
        blocks.append(Unit(f"block {len(blocks)}", arm, sums_of(total), pair=len(blocks) // 2))
        decision = decide(blocks, plan, Clock(now_s, 0, 0.0, 0.0, n_looks, last_look_s))
        if decision.is_look:
            n_looks, last_look_s = n_looks + 1, now_s
        if decision.action != "continue":
            return Outcome(decision.action, now_s / 3600, 0.5, n_looks, decision)
