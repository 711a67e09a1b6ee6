# SPDX-License-Identifier: MIT
"""An advice as text for a terminal, and as JSON data."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from kmod.tables import Column, table_lines
from kmod.terminal import COLUMNS
from training.observed.advice import Advice, Figures, StateAdvice
from training.observed.advice_text import (
    LIMITS,
    TABLE_NOTES,
    Step,
    answer,
    checks,
    digits,
    figure_json,
    label_of,
    milliseconds,
    other_states,
    percent,
    reasons,
    seen_sentences,
    signed,
    steps,
)
from training.observed.candidates import Candidate
from training.observed.seen import Measured

SCHEMA = "ccatune-advice/1"
CANDIDATES = ("algorithm", "Mbit/s", "link\nused", "p95 queueing\ndelay, ms", "p95 RTT,\nms", "retrans-\nmitted",
              "score", "")  # fmt: skip
STATES = ("network state", "flows", "seconds", "advice", "throughput", "p95 queueing delay", "retransmitted")


def by_score(state: StateAdvice, advice: Advice) -> list[Candidate]:
    """The candidates, the best score first."""
    return sorted(advice.candidates, key=lambda one: -state.candidates[one.name].score.value)


def marks_of(one: Candidate, state: StateAdvice) -> list[str]:
    """What is said of a candidate beside its name."""
    marks = ["advised"] * (state.advised is one) + ["today"] * (one.name in state.algorithms)
    return marks if one.is_validated else [*marks, "unvalidated"]


def candidate_rows(state: StateAdvice, advice: Advice) -> list[list[str]]:
    """The cells of a table with a row for each candidate, the best first; headings: CANDIDATES."""
    found = []
    for one in by_score(state, advice):
        its = state.candidates[one.name]
        found.append([
            one.label, digits(its.throughput_mbps.value), percent(its.used.value),
            f"{its.delay_ms.value:.0f} ({its.delay_ms.low:.0f}-{its.delay_ms.high:.0f})", f"{its.rtt_ms.value:.0f}",
            percent(its.retransmitted.value),
            f"{its.score.value:.3f} ({its.score.low:.2f}-{its.score.high:.2f})", ", ".join(marks_of(one, state)),
        ])  # fmt: skip
    return found


def state_rows(advice: Advice) -> list[list[str]]:
    """The cells of a table with a row for each network state, all flows first; headings: STATES."""
    found = []
    for state in (advice.pooled, *advice.states):
        cells = ["", "", ""]
        if state.today and not state.advised:
            cells[1:] = [milliseconds(state.today.delay_ms.value), percent(state.today.retransmitted.value)]
        if state.advised and state.change and state.today:
            new = state.candidates[state.advised.name]
            cells = [signed(state.change.throughput.value),
                     f"{state.today.delay_ms.value:.0f} to {milliseconds(new.delay_ms.value)}",
                     f"{percent(state.today.retransmitted.value)} to {percent(new.retransmitted.value)}"]  # fmt: skip
        keep = " and ".join(map(label_of, state.algorithms))
        word = state.advised.label if state.advised else "none (too few)" if state.reason == "few" else f"keep {keep}"
        found.append([state.name, str(state.flows), digits(state.seconds), word, *cells])
    return found


def report_lines(advice: Advice, *, serial: int) -> list[str]:
    """The report: the answer, why, the tables, what was seen, and the commands."""
    pooled = advice.pooled
    lines = [*_filled(" ".join(answer(pooled, target_ms=advice.target_ms)))]
    if found := [*reasons(pooled, target_ms=advice.target_ms), *other_states(advice)]:
        lines += ["", "Why", *_listed(found)]
    if pooled.candidates:
        columns = [Column(CANDIDATES[0]), *(Column(name, "right") for name in CANDIDATES[1:-1]),
                   Column("", least=5, cut="end")]  # fmt: skip
        title = ("All candidates in the simulator. The target for the 95th percentile of the queueing delay is "
                 f"{advice.target_ms:g} ms. {' '.join(TABLE_NOTES)}")  # fmt: skip
        lines += ["", *_filled(title), *table_lines(columns, candidate_rows(pooled, advice))]  # fmt: skip
    if advice.states:
        columns = [Column(STATES[0]), Column(STATES[1], "right"), Column(STATES[2], "right"), Column(STATES[3]),
                   *(Column(name, "right") for name in STATES[4:])]  # fmt: skip
        lines += ["", "By network state", *table_lines(columns, state_rows(advice))]
    lines += ["", "What was seen", *_listed(seen_sentences(advice, advice.links))]
    if its := steps(pooled, advice.candidates, advice.links, serial=serial):
        lines += ["", "What to do, as root", *_steps(its)]
    if its := checks(pooled):
        lines += ["", "How to check it afterwards", *_steps(its)]
    return [*lines, "", "What this cannot know", *_listed(LIMITS)]


def _filled(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, break_on_hyphens=False, break_long_words=False)


def _listed(sentences: Sequence[str]) -> list[str]:
    return [line for text in sentences
            for line in textwrap.wrap(text, COLUMNS, initial_indent="- ", subsequent_indent="  ",
                                      break_on_hyphens=False, break_long_words=False)]  # fmt: skip


def _steps(its: Sequence[Step]) -> list[str]:
    return [line for step in its for line in (*_listed([step.why]), *(f"    {command}" for command in step.commands))]


def report_json(advice: Advice, *, serial: int) -> dict[str, Any]:
    """The report as JSON data. docs/advise.md explains its keys."""
    best = advice.pooled.advised
    return {
        "schema": SCHEMA,
        "target_ms": advice.target_ms,
        "advice": None if best is None else {
            "algorithm": best.name, "label": best.label, "table": best.table_text(serial) or None,
            "validated": best.is_validated,
        },
        "reason": advice.pooled.reason or None,
        "answer": answer(advice.pooled, target_ms=advice.target_ms),
        "why": [*reasons(advice.pooled, target_ms=advice.target_ms), *other_states(advice)],
        "pooled": _state_json(advice.pooled),
        "states": [_state_json(state) for state in advice.states],
        "left_out": [{"state": one.name, "flows": one.flows, "seconds": round(one.seconds, 3)}
                     for one in advice.left_out],
        "seen": seen_sentences(advice, advice.links),
        "steps": [{"why": step.why, "commands": list(step.commands)}
                  for step in steps(advice.pooled, advice.candidates, advice.links, serial=serial)],
        "checks": [{"why": step.why, "commands": list(step.commands)} for step in checks(advice.pooled)],
        "runs": advice.runs,
    }  # fmt: skip


def _state_json(state: StateAdvice) -> dict[str, Any]:
    change = state.change
    return {
        "state": state.name,
        "flows": state.flows,
        "seconds": round(state.seconds, 3),
        "today": {name: round(share, 4) for name, share in state.algorithms.items()},
        "advised": state.advised.name if state.advised else None,
        "best": state.best.name if state.best else None,
        "reason": state.reason or None,
        "required_gain": round(state.required, 4),
        "share_beside_today": None if state.beside is None else round(state.beside, 4),
        "change": None if change is None else {name: figure_json(figure) for name, figure in vars(change).items()},
        "measured": None if state.measured is None else _measured_json(state.measured),
        "today_figures": None if state.today is None else _figures_json(state.today),
        "candidates": {name: _figures_json(figures) for name, figures in state.candidates.items()},
    }


def _measured_json(measured: Measured) -> dict[str, Any]:
    return {name: None if value is None else round(value, 4) for name, value in vars(measured).items()}


def _figures_json(figures: Figures) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else figure_json(value)
            for name, value in vars(figures).items()}  # fmt: skip
