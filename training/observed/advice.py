# SPDX-License-Identifier: MIT
"""Which algorithm, with which settings, suits the links that observed flows show; or why no advice is given.

Every candidate runs over the variants of every link (seen.py), from slow start on, with the same random numbers. A run
of a link has

    u   goodput as a share of what the link, or the rate limit in front of it, could carry
    q   95th percentile of the queueing delay of its packets
    r   retransmissions as a share of the packets sent

    score = u x min(1, T / q) x max(0, 1 - RETRANSMISSION_WEIGHT r)              T: the target of q

A run that misses the target loses score in proportion to its excess. DEVIATION: training ranks the violation of the
target before all else (training/objectives/delay.py). Here a candidate that misses it by 1 % would then lose against
one that leaves half of the link unused. A retransmission counts twice: it takes capacity in front of the bottleneck,
and its data comes at least a round trip late.

The score of a network state is the mean over its runs. Each link counts by the seconds for which it was seen, so that
the users of slow links count as much as others. The delay of a state is the percentile over the packets of all of its
runs, where the packets of each run weigh as much as its seconds.

Intervals are paired bootstraps over flows, or over runs where there are fewer than LEAST_SEEDS flows. A candidate may
be advised if its gain in score over today's algorithms exceeds WORTHWHILE and the error of the simulator
(simulator_error.py), with an interval above 0. Among those whose scores differ by less than TIE the one that needs the
least change is advised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from emulation.run.measures import Measures, Trial, measure
from emulation.run.simulator import compact_edges_us, simulate_many
from emulation.scenario.model import WIRE, FlowSpec, Scenario
from kmod.abi import ALGORITHMS
from training.errors import TrainingError
from training.intervals import LEAST_SEEDS, drawn_percentiles, drawn_weights, interval_95
from training.observed.candidates import PERCENTILE, Candidate, candidates_of
from training.observed.seen import Measured, NetworkState, SeenLink, chosen_links, scenarios_of
from training.observed.simulator_error import flattery, gain_error

RETRANSMISSION_WEIGHT = 2.0
TIE, WORTHWHILE = 0.01, 0.03
LEAST_SECONDS, LEAST_FLOWS = 5.0, 3  # a state of its own needs both, all links together the seconds alone
MOST_PACKETS = 250e6  # simulated, over all candidates and links
BESIDE_RUNS = 8
# Between measured and simulated figures of today's algorithms; and the difference of losses that counts, at least.
MOST_RATIO, MOST_DELAY_RATIO, MOST_LOST_RATIO, LEAST_LOST = 1.5, 3.0, 2.0, 0.03
Reason = Literal["", "few", "equal", "error", "chance", "measured"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """A figure with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, drawn: Floats) -> Figure:
        """drawn: the figure itself, and then that of each draw."""
        return cls(float(drawn[0]), *interval_95(drawn[1:]))


@dataclass(frozen=True)
class Figures:
    """Of an algorithm in a network state. within: share of the seconds whose runs met the target."""

    throughput_mbps: Figure
    delay_ms: Figure
    rtt_ms: Figure
    retransmitted: Figure
    used: Figure
    score: Figure
    within: float


@dataclass(frozen=True)
class Change:
    """From today's figures to those of the advised algorithm: ratio of throughputs - 1, and differences."""

    throughput: Figure
    delay_ms: Figure
    retransmitted: Figure
    score: Figure


@dataclass(frozen=True)
class StateAdvice:
    """Of one network state, or of all together (state: None).

    algorithms: today's, by the share of the seconds. limited: share of the seconds behind a policer. today: figures of
    what runs today. best: the one with the best score among those that may be advised, or else among all; None: too few
    were seen. reason: why no change is advised; "": `best` is advised. required: the gain in score that it needs.
    beside: share of the link that `best` has beside today's main algorithm. measured: figures of the flows themselves.
    """

    state: NetworkState | None
    flows: int
    seconds: float
    algorithms: dict[str, float]
    limited: float
    candidates: dict[str, Figures]
    today: Figures | None = None
    best: Candidate | None = None
    change: Change | None = None
    reason: Reason = ""
    required: float = WORTHWHILE
    beside: float | None = None
    measured: Measured | None = None

    @property
    def advised(self) -> Candidate | None:
        """The algorithm to change to; None: no advice."""
        return None if self.reason else self.best

    @property
    def name(self) -> str:
        """Of the state."""
        return "all flows" if self.state is None else self.state.name


@dataclass(frozen=True)
class Advice:
    """The advice for all links together, and for each state with enough flows.

    left_out: states with too few. links: those that ran. unknown: links whose flows ran an algorithm that is unknown
    or not simulated; they count as CUBIC's.
    """

    target_ms: float
    candidates: tuple[Candidate, ...]
    pooled: StateAdvice
    states: tuple[StateAdvice, ...]
    left_out: tuple[StateAdvice, ...]
    links: tuple[SeenLink, ...]
    unknown: int
    runs: int


def score_of(used: Floats, delay_ms: Floats, retransmitted: Floats, *, target_ms: float) -> Floats:
    """The score of runs; arrays of one shape."""
    in_time = np.minimum(1.0, target_ms / np.maximum(delay_ms, 1e-9))
    score: Floats = used * in_time * np.maximum(1.0 - RETRANSMISSION_WEIGHT * retransmitted, 0.0)
    return score


@dataclass(frozen=True, eq=False)
class Runs:
    """Columns of n runs with m algorithms; the last algorithm is today's, which differs from link to link.

    link, flow: of each run, int [n]. weights: seconds, [n]. delays, rtts: shares of the packets by bin,
    [n, m, bins]; other columns [n, m].
    """

    link: NDArray[np.int64]
    flow: NDArray[np.int64]
    weights: Floats
    throughput: Floats
    used: Floats
    retransmitted: Floats
    score: Floats
    delay_ms: Floats
    delays: Floats
    rtts: Floats

    def of_links(self, links: Sequence[int]) -> Runs:
        """The runs of some links."""
        mask = np.isin(self.link, links)
        return Runs(*(column[mask] for column in vars(self).values()))

    def drawn(self, *, seed: int) -> Floats:
        """Weights of the runs, [1 + draws, n]: as they are, and in each draw."""
        found, items = np.unique(self.flow, return_inverse=True)
        if len(found) < LEAST_SEEDS:
            items = np.arange(len(self.link))
        draws = drawn_weights(int(items.max()) + 1, seed=seed)[:, items]
        return np.concatenate([np.ones((1, len(items))), draws]) * self.weights


def run_links(
    links: Sequence[SeenLink], trials: Sequence[Trial], *, target_ms: float, seed: int, threads: int | None,
    advance: Callable[[float], None] = lambda _share: None,
) -> tuple[Runs, list[list[Scenario]]]:  # fmt: skip
    """Run all trials over all links. The trials' names are those of the links' algorithms, among others."""
    by_link = scenarios_of(links, seed=seed, most_packets=MOST_PACKETS / len(trials))
    scenarios = [scenario for its in by_link for scenario in its]
    link = np.repeat(np.arange(len(links)), [len(its) for its in by_link])
    total, before = len(scenarios) * len(trials), 0

    def progress(done: int) -> None:
        nonlocal before
        advance((done - before) / total)
        before = done

    out = measure(scenarios, trials, threads=threads, progress=progress)
    capacity = np.array(
        [links[at].capacity_bytes(s) for at, s in zip(link.tolist(), scenarios, strict=True)], dtype=np.float64
    )
    names = [trial.cca for trial in trials]
    today = np.array([names.index(links[at].algorithm) for at in link.tolist()])
    seconds = np.array([links[at].seconds / len(by_link[at]) for at in link.tolist()])
    names = [one.flow or one.name for one in links]
    flow = np.array([names.index(names[at]) for at in link.tolist()])
    of_runs = {"link": link, "flow": flow, "weights": seconds}
    return _runs(out, of_runs, capacity, today, target_ms=target_ms), by_link


def _runs(
    out: Measures, of_runs: dict[str, NDArray[Any]], capacity: Floats, today: NDArray[np.int64], *, target_ms: float
) -> Runs:
    """The columns of runs. of_runs: those of Runs that do not depend on the algorithm. today: of each run, [n]."""
    runs = np.arange(len(today))

    def with_todays(column: NDArray[np.generic]) -> Floats:
        own = column[runs, today]
        return np.concatenate([column, own[:, None]], axis=1).astype(np.float64)

    def shares(counts: NDArray[np.uint32]) -> Floats:
        return with_todays(counts / np.maximum(counts.sum(axis=2, keepdims=True), 1))

    delays = shares(out.delay_counts)
    reached = np.cumsum(delays, axis=2) < PERCENTILE / 100 - 1e-9
    edges_ms = compact_edges_us() / 1000
    delay_ms = edges_ms[np.minimum(reached.sum(axis=2), len(edges_ms) - 1)]
    used = np.minimum(with_todays(out.goodput_bytes * WIRE / np.maximum(capacity, 1500.0)[:, None]), 1.0)
    retransmitted = with_todays(out.retransmitted_pkts / np.maximum(out.sent_pkts, 1))
    score = score_of(used, delay_ms, retransmitted, target_ms=target_ms)
    throughput = with_todays(out.goodput_bytes * 8e-6 / out.duration_s)
    return Runs(
        **of_runs, throughput=throughput, used=used, retransmitted=retransmitted, score=score, delay_ms=delay_ms,
        delays=delays, rtts=shares(out.srtt_counts),
    )  # fmt: skip


def _figures(runs: Runs, weights: Floats, at: int, *, target_ms: float) -> tuple[Figures, dict[str, Floats]]:
    """The figures of an algorithm, and those of each draw by name."""
    total, edges = weights.sum(axis=1), compact_edges_us()
    drawn = {name: weights @ getattr(runs, name)[:, at] / total
             for name in ("throughput", "retransmitted", "used", "score")}  # fmt: skip
    for name, counts in (("delay", runs.delays), ("rtt", runs.rtts)):
        drawn[name] = drawn_percentiles(weights, counts[:, at], edges, share=PERCENTILE / 100) / 1000
    within = float(weights[0] @ (runs.delay_ms[:, at] <= target_ms) / total[0])
    throughput, delay, rtt, retransmitted, used, score = (
        Figure.of(drawn[name]) for name in ("throughput", "delay", "rtt", "retransmitted", "used", "score")
    )
    return Figures(throughput, delay, rtt, retransmitted, used, score, within), drawn


def _change(new: dict[str, Floats], old: dict[str, Floats]) -> Change:
    def ratio(name: str) -> Figure:
        return Figure.of(new[name] / np.maximum(old[name], 1e-9) - 1)

    delay, retransmitted = (Figure.of(new[name] - old[name]) for name in ("delay", "retransmitted"))
    return Change(ratio("throughput"), delay, retransmitted, ratio("score"))


def chosen_of(candidates: Mapping[Candidate, float], *, limited: float) -> Candidate:
    """The candidate with nearly the best score (TIE) that needs the least change.

    Scores count less by what the simulator may flatter an algorithm. limited: share of the seconds behind a policer.
    """
    scores = {one: score * (1 - flattery(one.name, limited=limited)) for one, score in candidates.items()}
    near = [one for one, score in scores.items() if score >= (1 - TIE) * max(scores.values())]
    return min(near, key=lambda one: (not one.is_validated, one.host, -scores[one]))


def measured_of(links: Sequence[SeenLink]) -> Measured | None:
    """The means over links by their seconds; None if one of them was not measured."""
    measured = [link.measured for link in links if link.measured is not None]
    if len(measured) < len(links) or not links:
        return None

    def mean(values: Sequence[float | None]) -> float | None:
        known = [(value, link.seconds) for value, link in zip(values, links, strict=True) if value is not None]
        return sum(value * seconds for value, seconds in known) / sum(s for _, s in known) if known else None

    throughput_mbps = mean([one.throughput_mbps for one in measured])
    return Measured(throughput_mbps or 0.0, mean([one.delay_ms for one in measured]),
                    mean([one.lost for one in measured]))  # fmt: skip


def contradicts(measured: Measured | None, today: Figures, *, target_ms: float) -> bool:
    """Whether the simulation of today's algorithms differs so much from the flows that no advice may rest on it.

    The path then has something that the flows do not show, or that the simulator does not have. Delays matter where
    one of them is within the target and the other one is not: beyond it on both sides, the advice is the same.
    """
    if measured is None:
        return False
    rates = sorted((max(measured.throughput_mbps, 1e-6), max(today.throughput_mbps.value, 1e-6)))
    delays = sorted((measured.delay_ms, today.delay_ms.value)) if measured.delay_ms is not None else [0.0, 0.0]
    lost = sorted((measured.lost, today.retransmitted.value)) if measured.lost is not None else [0.0, 0.0]
    return (
        rates[1] > MOST_RATIO * rates[0]
        or (delays[0] <= target_ms < delays[1] and delays[1] > MOST_DELAY_RATIO * delays[0])
        or (lost[1] > MOST_LOST_RATIO * lost[0] and lost[1] - lost[0] > LEAST_LOST)
    )


def _of_state(
    state: NetworkState | None, links: Sequence[SeenLink], runs: Runs, candidates: Sequence[Candidate], *,
    target_ms: float, seed: int,
) -> StateAdvice:  # fmt: skip
    weights, seen = runs.drawn(seed=seed), _seen(state, links)
    today, todays = _figures(runs, weights, -1, target_ms=target_ms)
    figures, changes, reasons = dict[str, Figures](), dict[str, Change](), dict[str, Reason]()
    for at, one in enumerate(candidates):
        figures[one.name], drawn = _figures(runs, weights, at, target_ms=target_ms)
        changes[one.name] = change = _change(drawn, todays)
        gain = change.score
        if gain.value <= WORTHWHILE:
            reasons[one.name] = "equal"
        elif gain.value <= _required(one, seen):
            reasons[one.name] = "error"
        else:
            reasons[one.name] = "chance" if gain.low <= 0 else ""
    worth = [one for one in candidates if not reasons[one.name]]
    best = chosen_of({one: figures[one.name].score.value for one in worth or candidates}, limited=seen.limited)
    measured = measured_of(links)
    reason = reasons[best.name] or ("measured" if contradicts(measured, today, target_ms=target_ms) else "")
    return replace(seen, candidates=figures, today=today, best=best, change=changes[best.name], measured=measured,
                   reason=reason, required=_required(best, seen))  # fmt: skip


def _required(one: Candidate, seen: StateAdvice) -> float:
    """The gain in score that an advice of this candidate needs: the mean over today's algorithms."""
    return max(WORTHWHILE, sum(share * gain_error(one.name, name, limited=seen.limited)
                               for name, share in seen.algorithms.items()))  # fmt: skip


def _seen(state: NetworkState | None, links: Sequence[SeenLink]) -> StateAdvice:
    """Without any figures yet."""
    seconds = sum(link.seconds for link in links)
    shares: dict[str, float] = {}
    for link in links:
        shares[link.algorithm] = shares.get(link.algorithm, 0.0) + link.seconds / max(seconds, 1e-9)
    main_first = dict(sorted(shares.items(), key=lambda item: -item[1]))
    limited = sum(link.seconds for link in links if link.limit is not None) / max(seconds, 1e-9)
    flows = len({link.flow or link.name for link in links})
    return StateAdvice(state, flows, seconds, main_first, limited, {}, reason="few")


def _as_today(link: SeenLink, current: str | None) -> SeenLink:
    """The link with the algorithm that counts as today's. What another one had is no measure of it."""
    algorithm = current or (link.algorithm if link.algorithm in ALGORITHMS else "cubic")
    is_own = link.algorithm in ("", algorithm)
    return replace(link, algorithm=algorithm, measured=link.measured if is_own else None)


def share_beside(scenarios: Sequence[Scenario], flow: FlowSpec, other: str, *, threads: int | None) -> float:
    """The share of the link that a flow has beside one of another algorithm; the median over some scenarios."""
    step = max(len(scenarios) // BESIDE_RUNS, 1)
    both = (flow, FlowSpec(cca=other))
    runs = simulate_many([s.model_copy(update={"flows": both}) for s in scenarios[::step]], threads=threads)
    return float(np.median([run.bandwidth_shares[0] for run in runs]))


def advise(
    links: Sequence[SeenLink], *, target_ms: float, current: str | None = None, seed: int = 1,
    threads: int | None = None, advance: Callable[[float], None] = lambda _share: None,
) -> Advice:  # fmt: skip
    """The advice for links.

    target_ms: of the 95th percentile of the queueing delay. current: the algorithm that runs today, instead of the
    links' own. advance: called with the share of the work that is done since the call before; they add up to 1.

    Raises:
        TrainingError: `current` is no algorithm of the simulator.
    """
    if current is not None and current not in ALGORITHMS:
        raise TrainingError(f"--current: expected one of {', '.join(ALGORITHMS)}, got {current!r}")
    candidates = candidates_of(target_ms)
    unknown = 0 if current else sum(link.algorithm not in ALGORITHMS for link in links)
    links = [_as_today(link, current) for link in links]
    pooled = _seen(None, links)
    by_state = {state: [link for link in links if link.state == state] for state in sorted({x.state for x in links})}
    seen = [_seen(state, its) for state, its in by_state.items()]
    left_out = tuple(one for one in seen if one.seconds < LEAST_SECONDS or one.flows < LEAST_FLOWS)
    if pooled.seconds < LEAST_SECONDS:
        advance(1.0)
        return Advice(target_ms, tuple(candidates), pooled, (), left_out, tuple(links), unknown, 0)
    chosen = chosen_links(links)
    trials = [one.trial for one in candidates]
    trials += [Trial(name) for name in sorted({link.algorithm for link in chosen} - {one.name for one in candidates})]
    runs, scenarios = run_links(chosen, trials, target_ms=target_ms, seed=seed, threads=threads, advance=advance)

    def of(state: NetworkState | None) -> StateAdvice:
        its = [at for at, link in enumerate(chosen) if state in (None, link.state)]
        found = _of_state(state, [chosen[at] for at in its], runs.of_links(its), candidates, target_ms=target_ms,
                          seed=seed)  # fmt: skip
        its_seen = pooled if state is None else next(one for one in seen if one.state == state)
        found = replace(found, flows=its_seen.flows, seconds=its_seen.seconds, algorithms=its_seen.algorithms)
        if found.advised is None:
            return found
        flat = [scenario for at in its for scenario in scenarios[at]]
        flow = FlowSpec(cca=found.advised.name, ensemble_text=found.advised.trial.ensemble_text)
        return replace(found, beside=share_beside(flat, flow, next(iter(found.algorithms)), threads=threads))

    states = tuple(of(one.state) for one in seen if one not in left_out) if len(seen) > 1 else ()
    return Advice(target_ms, tuple(candidates), of(None), states, left_out if len(seen) > 1 else (), tuple(chosen),
                  unknown, len(runs.link) * len(trials))  # fmt: skip
