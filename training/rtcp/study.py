# SPDX-License-Identifier: MIT
"""Runs a study of R-TCP: its searches, then the ensemble.

    single   one set of theta, eta, gamma over all states, which learning is judged by
    rtt      theta, eta, gamma for each level of the round trip, over all limits: theta is this one's, for it is fixed
             at the trigger, when no limit is known yet
    state    eta, gamma for each round trip and rate limit, under that theta

Each is DDS, with the paper's setting and what the searches before it found among its samples. What wins among so many
on the cases that it trained on owes a part of that to chance. So these few and the winner run on as many cases that
were drawn anew, and the best of them there is taken that is better than the paper's setting by more than a standard
error, else that one (`confirmed`). The single set trains on a share of its cases, those of a round trip on that share
of theirs behind a limit.
Parts are kept and resumed as those of any study (parts.py); the same key gives the same ensemble.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from emulation.traces import Recording
from kmod.ensemble import DelayClass, Ensemble, canonical_json
from training.build import PROVENANCE_SCHEMA, Part
from training.cases import Case
from training.dds import DdsSearch, DdsSettings
from training.evaluator import Evaluator
from training.flows import core_version
from training.journal import Journal
from training.objective import Pool
from training.optimise import optimise
from training.parts import Parts, Progress, Silent
from training.rtcp.cases import Purpose, cases_of, unlimited_cases
from training.rtcp.objective import LeastResent, LimitTally, Values, resent_shares
from training.rtcp.runner import CaseRunner, triggered
from training.rtcp.settings import DEFAULT, THETA, RtcpStudySettings
from training.search import Found
from training.space import Point, Space

__all__ = ["RtcpStudy"]

SINGLE = "single"
STATE_PLACE, RTT_PLACE, SINGLE_PLACE = 0, 1, 2  # of the seeds of searches
DIGITS = 6
# No goal of R-TCP is about delay: the class counts in the host's sums alone (kmod/core/rtcp_ensemble.h).
CLASS = DelayClass(95, 100_000)
ESTIMATE_MS, EPSILON_PCT = 250, 25


@dataclass(frozen=True)
class _Unlimited:
    """Cases without a limit: those in which detection begins, and how many others there are."""

    cases: Sequence[Case] = ()
    untriggered: int = 0

    def share(self, share: float) -> _Unlimited:
        """So many of them, evenly spread."""
        chosen = [case for n, case in enumerate(self.cases) if math.floor((n + 1) * share) > math.floor(n * share)]
        return _Unlimited(chosen, round(self.untriggered * share))

    @staticmethod
    def joined(parts: Sequence[_Unlimited]) -> _Unlimited:
        return _Unlimited([case for part in parts for case in part.cases], sum(part.untriggered for part in parts))


@dataclass(frozen=True)
class _Work:
    """What a search is over. known: points that are among its samples. share: of the states' cases behind a limit.

    without: those without a limit, by what they are for.
    """

    states: Sequence[tuple[int, int]]
    search: DdsSettings
    known: Sequence[Point]
    place: tuple[int, int, int]
    share: float = 1.0
    without: Mapping[Purpose, _Unlimited] = field(default_factory=dict)
    held: Mapping[str, int] | None = None


def confirmed(
    runner: CaseRunner, cases: Sequence[Case], points: Sequence[Point], asked: LeastResent, *, least_se: float
) -> Found:
    """The best of the points on these cases among the first and those that send fewer again beyond chance.

    points: distinct, the paper's setting first. Beyond chance: the mean over the cases of what is sent again (as in
    objective.py) is less by more than least_se standard errors of the difference, case by case. Where the first does
    not have what is asked, the best of all.
    """
    tallies: list[list[LimitTally]] = [list(column) for column in zip(*runner.run(cases, points), strict=True)]
    found = [Found(point, asked.score(Pool.of(its))) for point, its in zip(points, tallies, strict=True)]
    costs = [resent_shares([tally for tally in its if tally.kind == "limited"]) for its in tallies]
    eligible = [
        each
        for each, cost in zip(found, costs, strict=True)
        if each is found[0] or not found[0].score.feasible or _is_less(cost, costs[0], least_se=least_se)
    ]
    return min(eligible, key=lambda each: each.score.rank)


def _is_less(values: Values, than: Values, *, least_se: float) -> bool:
    apart = values - than
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart)) if len(apart) > 1 else 0.0
    return float(apart.mean()) < -least_se * error


@dataclass(frozen=True)
class ConfirmedTask:
    """A search over cases, whose winner is confirmed on fresh ones (`confirmed`).

    known: points that are among its samples, the paper's setting first. place: of the seeds. held: parameters that are
    not searched. asked, asked_again: the objective of the search, and of what confirms it.
    """

    name: str
    study: RtcpStudySettings
    cases: tuple[Case, ...]
    fresh: tuple[Case, ...]
    search: DdsSettings
    known: tuple[Point, ...]
    place: tuple[int, int, int]
    held: Mapping[str, int] | None
    asked: LeastResent
    asked_again: LeastResent

    @property
    def amount(self) -> float:
        """Evaluations at most, times what the cases carry."""
        evaluations = self.search.budget + len(self.known)
        return float(evaluations * _carried(self.cases) + (len(self.known) + 1) * _carried(self.fresh))

    def run(self, threads: int, advance: Callable[[float], None]) -> Part:
        """Search and confirm; see training/parts.py."""
        s, amount = self.study, _carried(self.cases)
        space: Space = s.state_space if self.held else s.space
        dds = DdsSearch(space, settings=self.search, samples_seed=(s.seed, *self.place, 0),
                        steps_seed=(s.seed, *self.place, 1), known=self.known)  # fmt: skip
        runner = CaseRunner(s, threads=threads, held=self.held)
        evaluator = Evaluator(runner, self.cases, rounds=(1.0,))
        [found] = optimise(evaluator, [(dds, self.asked)], told=lambda n: advance(float(n * amount)))
        finalists = list(dict.fromkeys([*self.known, found.point]))
        best = confirmed(runner, self.fresh, finalists, self.asked_again, least_se=s.objective.lenience_se)
        advance(float((len(self.known) + 1) * _carried(self.fresh)))
        return Part((best,), evaluator.runs + len(finalists) * len(self.fresh))


def _carried(cases: Sequence[Case]) -> int:
    return sum(case.capacity_bytes for case in cases)


@dataclass
class RtcpStudy:
    """One study; the recordings are of links without a limit."""

    settings: RtcpStudySettings
    recordings: Sequence[Recording]
    threads: int = 2
    progress: Progress = field(default_factory=Silent)
    executor: str = "threads"

    @cached_property
    def key(self) -> str:
        """What a journal is kept under (hex): settings, traces, version of core and simulator."""
        content = {
            "study": self.settings.digest,
            "traces": sorted(f"{r.name} {r.trace.digest}" for r in self.recordings),
            "core": core_version(),
        }
        return hashlib.sha256(canonical_json(content)).hexdigest()

    @cached_property
    def states(self) -> list[tuple[int, int]]:
        """Levels of round trip and rate limit, in the order of an ensemble's rows."""
        return list(product(range(self.settings.rtts.count), range(self.settings.limits.count)))

    @cached_property
    def unlimited(self) -> list[dict[Purpose, _Unlimited]]:
        """By level of the round trip: the cases without a limit that train, and those that confirm."""
        s = self.settings
        count = s.cases.unlimited
        purposes: tuple[Purpose, ...] = ("training", "confirming")
        self.progress.phase("screening links", total=float(s.rtts.count * len(purposes)))
        found = []
        for rtt in range(s.rtts.count):
            of_rtt: dict[Purpose, _Unlimited] = {}
            for purpose in purposes:
                cases = unlimited_cases(s, rtt, self.recordings, count=count, purpose=purpose)
                begins = triggered(s, cases, threads=self.threads)
                of_rtt[purpose] = _Unlimited(begins, count - len(begins))
                self.progress.advance(1.0)
            found.append(of_rtt)
        return found

    def run(self, journal: Journal | None = None) -> Ensemble:
        """Do all parts that the journal does not hold, and build the ensemble.

        Raises:
            TrainingError: a search that came to nothing.
        """
        parts = Parts(journal, threads=self.threads, progress=self.progress, executor=self.executor)
        if SINGLE not in parts.done:
            task = self._single_task()
            parts.begin("searching a single set", [task])
            parts.run_alone(task)
        rtts = [_rtt_name(rtt) for rtt in range(self.settings.rtts.count)]
        states = [_state_name(state) for state in self.states]
        for text, names, make in (("searching round trips", rtts, self._rtt_tasks),
                                  ("searching states", states, self._state_tasks)):  # fmt: skip
            if any(name not in parts.done for name in names):
                work = parts.missing(make(parts.done))
                parts.begin(text, work)
                parts.run(work)
        return self._ensemble(parts.done)

    def theta(self, parts: Mapping[str, Part], rtt: int) -> int:
        """What a level of the round trip was given."""
        [found] = parts[_rtt_name(rtt)].found
        return found.point[self.settings.names.index(THETA)]

    # --- searches -----------------------------------------------------------------------------------------------------

    def _single_task(self) -> ConfirmedTask:
        share = self.settings.search.single_share
        without = {purpose: _Unlimited.joined([its[purpose] for its in self.unlimited]).share(share)
                   for purpose in self.unlimited[0]}  # fmt: skip
        work = _Work(self.states, self.settings.search.single, [self._default], (SINGLE_PLACE, 0, 0),
                     share=share, without=without)  # fmt: skip
        return self._task(SINGLE, work)

    def _rtt_tasks(self, parts: Mapping[str, Part]) -> list[ConfirmedTask]:
        known = [self._default, parts[SINGLE].found[0].point]
        tasks = []
        for rtt in range(self.settings.rtts.count):
            its = [state for state in self.states if state[0] == rtt]
            work = _Work(its, self.settings.search.rtt, known, (RTT_PLACE, rtt, 0),
                         share=self.settings.search.single_share, without=self.unlimited[rtt])  # fmt: skip
            tasks.append(self._task(_rtt_name(rtt), work))
        return tasks

    def _state_tasks(self, parts: Mapping[str, Part]) -> list[ConfirmedTask]:
        tasks = []
        for state in self.states:
            near = [self._default, parts[SINGLE].found[0].point, parts[_rtt_name(state[0])].found[0].point]
            known = [self._without_theta(point) for point in near]
            work = _Work([state], self.settings.search.state, known, (STATE_PLACE, *state),
                         held={THETA: self.theta(parts, state[0])})  # fmt: skip
            tasks.append(self._task(_state_name(state), work))
        return tasks

    @property
    def _default(self) -> Point:
        return tuple(DEFAULT[name] for name in self.settings.names)

    def _without_theta(self, point: Point) -> Point:
        return tuple(value for name, value in zip(self.settings.names, point, strict=True) if name != THETA)

    def _cases(self, work: _Work, purpose: Purpose, *, share: float) -> list[Case]:
        """All that a search is over. share: of those behind a limit, the first of each kind; more where above 1."""
        counts = self.settings.cases
        limited, lifted = (max(round(share * count), 1) for count in (counts.limited, counts.lifted))
        behind = [
            case
            for state in work.states
            for case in cases_of(self.settings, state, limited=limited, lifted=lifted, purpose=purpose)
        ]
        return [*behind, *work.without.get(purpose, _Unlimited()).cases]

    def _task(self, name: str, work: _Work) -> ConfirmedTask:
        s = self.settings
        return ConfirmedTask(
            name=name,
            study=s,
            cases=tuple(self._cases(work, "training", share=work.share)),
            fresh=tuple(self._cases(work, "confirming", share=s.search.confirmed_on * work.share)),
            search=work.search,
            known=tuple(dict.fromkeys(work.known)),
            place=work.place,
            held=work.held,
            asked=self._asked(work, "training", s.objective.margin_se),
            asked_again=self._asked(work, "confirming", -s.objective.lenience_se),
        )

    def _asked(self, work: _Work, purpose: Purpose, margin_se: float) -> LeastResent:
        asked = self.settings.objective
        untriggered = work.without.get(purpose, _Unlimited()).untriggered
        return LeastResent(goodput_share=asked.goodput_share, paper_share=asked.paper_share, margin_se=margin_se,
                           most_false=asked.most_false, untriggered=untriggered)  # fmt: skip

    # --- the ensemble -------------------------------------------------------------------------------------------------

    def _ensemble(self, parts: Mapping[str, Part]) -> Ensemble:
        rows, states = [], []
        for state in self.states:
            [found] = parts[_state_name(state)].found
            values = {THETA: self.theta(parts, state[0]), **dict(zip(self.settings.state_space.names, found.point,
                                                                     strict=True))}  # fmt: skip
            rows.append(tuple(values[name] for name in self.settings.names))
            states.append({"rtt": state[0], "limit": state[1], "training": _score_json(found)})
        return Ensemble(
            cca=self.settings.cca,
            epoch_ms=self.settings.epoch_s * 1000,
            estimate_ms=ESTIMATE_MS,
            epsilon_pct=EPSILON_PCT,
            classes=(CLASS,),
            axes=self.settings.axes,
            columns=self.settings.names,
            rows=tuple(rows),
            provenance=self._provenance(parts, states),
        )

    def _provenance(self, parts: Mapping[str, Part], states: list[dict[str, Any]]) -> dict[str, Any]:
        [single] = parts[SINGLE].found
        return {
            "schema": PROVENANCE_SCHEMA,
            "study": self.settings.model_dump(mode="json", by_alias=True),
            "study_digest": self.settings.digest,
            "core": core_version(),
            "traces": [{"name": r.name, "dataset": r.dataset, "digest": r.trace.digest} for r in self.recordings],
            "runs": sum(part.runs for part in parts.values()),
            "single": [{
                "class": 0,
                "values": dict(zip(self.settings.names, single.point, strict=True)),
                "training": _score_json(single),
            }],
            "rtts": [
                {"rtt": rtt, "training": _score_json(parts[_rtt_name(rtt)].found[0])}
                for rtt in range(self.settings.rtts.count)
            ],
            "states": states,
        }  # fmt: skip


def _rtt_name(rtt: int) -> str:
    return f"rtt-{rtt}"


def _state_name(state: tuple[int, int]) -> str:
    return f"state-{state[0]}-{state[1]}"


def _score_json(found: Found) -> dict[str, Any]:
    """On the cases that confirmed it. resent: over what the unmodified algorithm sends again.

    goodput_share: of the kind that has least of it.
    """
    score = found.score
    return {
        "meets": score.feasible,
        "excess": round(score.excess, DIGITS),
        "resent": round(score.cost or 0.0, DIGITS),
        "goodput_share": round(score.rival_share or 0.0, DIGITS),
        "cases": score.epochs,
    }
