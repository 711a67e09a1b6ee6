# SPDX-License-Identifier: MIT
"""Runs the same scenarios in the simulator and on real kernels, and computes the simulator's error in each figure."""

from __future__ import annotations

from experiments.fidelity.campaign import Campaign, Outcome, run_missing
from experiments.fidelity.judge import Comparison, Reduction, Verdict, compare, reductions_of, verdicts_of
from experiments.fidelity.plan import Case, Plan, cases_of, load_plan
from experiments.fidelity.results import Figures, Record, RunResult, Store, write_record

__all__ = [
    "Campaign",
    "Case",
    "Comparison",
    "Figures",
    "Outcome",
    "Plan",
    "Record",
    "Reduction",
    "RunResult",
    "Store",
    "Verdict",
    "cases_of",
    "compare",
    "load_plan",
    "reductions_of",
    "run_missing",
    "verdicts_of",
    "write_record",
]
