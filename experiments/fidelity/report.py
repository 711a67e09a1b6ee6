# SPDX-License-Identifier: MIT
"""Reports the results of a campaign, as text and as JSON."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from emulation.mahimahi.machine import LATE_MOST
from experiments.fidelity.gains import TARGET_MS, gains_of
from experiments.fidelity.judge import Comparison, Error, Middle, Reduction, Verdict
from experiments.fidelity.kernels import Outcome
from kmod.tables import Column, print_table
from kmod.terminal import counted, echo

# The unit of a metric in the table, and the form of its values.
FORMS = {
    "throughput": ("Mbit/s", "{:.2f}"),
    "queueing_delay": ("p95 delay, ms", "{:.0f}"),
    "retransmissions": ("retransmitted, %", "{:.2f}"),
}


def document_of(
    outcomes: Sequence[Outcome],
    comparisons: Sequence[Comparison],
    reductions: Sequence[Reduction],
    verdicts: Sequence[Verdict],
) -> dict[str, Any]:
    """Return the report as JSON data.

    An error's share is None if the kernel's figure is 0 and the simulator's is not.
    """
    return {
        "cases": [_case_document(comparison) for comparison in comparisons],
        "reductions": [{**asdict(reduction), "agrees": reduction.agrees} for reduction in reductions],
        "gains": [asdict(gains) for gains in gains_of(outcomes)],
        "not_run": {outcome.case.key: outcome.refused for outcome in outcomes if outcome.refused},
        "missing": {outcome.case.key: outcome.missing for outcome in outcomes if outcome.missing},
        "of_other_versions": _earlier(outcomes),
        "failed": {outcome.case.key: outcome.failed for outcome in outcomes if outcome.failed},
        "targets": [asdict(verdict) for verdict in verdicts],
        "needless_explanations": {c.key: list(c.needless) for c in comparisons if c.needless},
        "holds": bool(verdicts) and all(verdict.holds for verdict in verdicts),
    }


def _case_document(comparison: Comparison) -> dict[str, Any]:
    explanation = comparison.explanation
    metrics = {
        error.metric.name: {
            "unit": error.metric.unit,
            "real": asdict(error.real),
            "simulated": asdict(error.simulated),
            "error": error.error,
            "error_share": error.share if error.real.median or not error.error else None,
            "within": error.is_within,
            "beyond": error.is_beyond,
            "within_the_kernels_spread": error.is_of_the_spread,
        }
        for error in comparison.errors
    }
    return {
        "case": comparison.key,
        **{name: getattr(comparison, name) for name in ("runner", "runs", "required", "seeds", "disturbed")},
        "metrics": metrics,
        "explanation": None if explanation is None else explanation.model_dump(),
        "unexplained": [error.metric.name for error in comparison.unexplained],
    }


def print_report(
    outcomes: Sequence[Outcome],
    comparisons: Sequence[Comparison],
    reductions: Sequence[Reduction],
    verdicts: Sequence[Verdict],
    *,
    hint: str = "",
) -> None:
    """Print the report.

    It has a row for each case, the cases outside a target with their explanations, the cases that could not be run, the
    reductions, the missing runs, and at last the verdicts. hint: text that says how to make the missing runs.
    """
    if comparisons:
        _print_table(comparisons)
    _print_outside(comparisons)
    for comparison in comparisons:
        for name in comparison.needless:
            echo(f"{comparison.key}: {name} is explained, but within its target; remove the explanation from the plan")
    for outcome in outcomes:
        if outcome.refused:
            echo(f"{outcome.case.key}: cannot run: {outcome.refused}")
        for message in outcome.failed:
            echo(f"{outcome.case.key}: a run failed: {message}")
    for reduction in reductions:
        kernel, simulator = (_middle(side.scaled(100), "{:.1f}") for side in (reduction.real, reduction.simulated))
        echo(
            f"{reduction.scenario}: {reduction.cca} retransmits less than {reduction.base} by {kernel} % on the "
            f"kernel, {simulator} % in the simulator{'' if reduction.agrees else ' !'}"
        )
    _print_gains(outcomes)
    _print_machine(outcomes, comparisons)
    for versions, runs in _earlier(outcomes).items():
        echo(f"{counted(runs, 'real run was', 'real runs were')} recorded with {versions}: not the present code")
    _print_missing(outcomes, hint=hint)
    for verdict in verdicts:
        echo(f"{'holds' if verdict.holds else 'FAILS'}  {verdict.line}: {verdict.found}")
    unjudged = len(outcomes) - len(comparisons)
    missing = f", {unjudged} without runs" if unjudged else ""
    short = sum(not verdict.holds for verdict in verdicts)
    word = "no verdict" if not verdicts else f"{short} of {len(verdicts)} verdicts fail" if short else "all hold"
    echo(f"fidelity: {counted(len(comparisons), 'case')} compared{missing}: {word}")


def _earlier(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return the numbers of real runs that other versions of the code made, by a description of these versions."""
    return dict(sum((outcome.earlier for outcome in outcomes), Counter[str]()))


def _print_missing(outcomes: Sequence[Outcome], *, hint: str) -> None:
    """Print how many real runs are missing, and of which cases."""
    short = [outcome for outcome in outcomes if outcome.missing]
    if short:
        runs, required = sum(outcome.missing for outcome in short), sum(outcome.required for outcome in outcomes)
        cases = ", ".join(f"{outcome.case.key} ({outcome.missing})" for outcome in short)
        echo(f"missing: {runs} of {counted(required, 'real run')}, of {counted(len(short), 'case')}: {cases}{hint}")


def _print_table(comparisons: Sequence[Comparison]) -> None:
    rows = []
    for comparison in comparisons:
        marks = "~" * bool(comparison.disturbed) + "-" * (comparison.runs < comparison.required)
        rows.append((comparison.key + marks, "", "", ""))
        for error in comparison.errors:
            unit, form = FORMS[error.metric.name]
            rows.append((f"  {unit}", _middle(error.real, form), _middle(error.simulated, form), _error(error)))
    headings = ("kernel", "simulator", "error")
    print_table([Column("case", least=20), *(Column(heading, "right") for heading in headings)], rows)
    counts = " or ".join(f"{runs} and {seeds}" for runs, seeds in sorted({(c.runs, c.seeds) for c in comparisons}))
    echo(
        f"medians of {counts} runs (kernel, simulator), with the minimum and the maximum in brackets\n"
        "! outside its target, !! beyond the limit of every case, - fewer runs than required"
    )


def _middle(middle: Middle, form: str) -> str:
    median, least, most = (form.format(value) for value in (middle.median, middle.least, middle.most))
    return median if least == most else f"{median} [{least}, {most}]"


def _error(error: Error) -> str:
    mark = "!!" if error.is_beyond else "" if error.is_within else "!"
    return f"{mark}{_in_its_unit(error)}"


def _in_its_unit(error: Error) -> str:
    match error.metric.name:
        case "throughput":
            return f"{error.share:+.1%}"
        case "queueing_delay":
            return f"{error.error:+.0f} ms {error.share:+.0%}"
        case "retransmissions":
            return f"{error.error:+.2f}"


def _print_outside(comparisons: Sequence[Comparison]) -> None:
    """Print each case outside a target and its explanation. A repeated explanation refers to the first such case."""
    explained_at: dict[str, str] = {}
    for comparison in comparisons:
        if not comparison.outside:
            continue
        parts = []
        for error in comparison.outside:
            spread = f"the kernel's runs differ by {error.real.spread:.3g} {error.metric.unit}"
            more = ", more than that" if error.is_of_the_spread else ""
            open_question = ", unexplained" if error in comparison.unexplained else ""
            parts.append(f"{error.metric.title} {_in_its_unit(error)} ({spread}{more}{open_question})")
        echo(f"{comparison.key}: {'; '.join(parts)}")
        why = comparison.explanation
        if why is not None:
            first = explained_at.setdefault(why.mechanism, comparison.key)
            how = f": {why.mechanism}" if first == comparison.key else f", as {first}"
            echo(f"    {why.at_fault} at fault{how}")


def _print_gains(outcomes: Sequence[Outcome]) -> None:
    """Print how well the simulator predicts which of two algorithms is better, and by how much."""
    if gains := gains_of(outcomes):
        echo(f"gains in the score of `ccatune advise`, for a target of {TARGET_MS:g} ms:")
    for found in gains:
        echo(
            f"    {' over '.join(found.algorithms)}: error at most {found.error:.1%} in 80 % of "
            f"{counted(found.scenarios, 'scenario')}; {found.right_sign} of {counted(found.worthwhile, 'gain')} above "
            "3 % with the right sign"
        )


def _print_machine(outcomes: Sequence[Outcome], comparisons: Sequence[Comparison]) -> None:
    """Print how late timers were during the runs on this machine's kernel."""
    seen = [run.machine for o in outcomes if o.case.runner != "vm" for run in o.real if run.machine is not None]
    if not seen:
        return
    disturbed = sum(comparison.disturbed for comparison in comparisons)
    late_share = statistics.median(each.late_share or 0 for each in seen)
    echo(
        f"machine: {late_share:.2%} of its timers more than 1 ms late in the median real run; {disturbed} of "
        f"{len(seen)} runs disturbed (above {LATE_MOST:.1%}; their cases are marked ~)"
    )
