# SPDX-License-Identifier: MIT
"""`python -m experiments fidelity`: compares the simulator with real kernels in many scenarios (docs/fidelity.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from emulation.errors import EmulationError
from emulation.options import check_output
from emulation.printing import as_written
from emulation.run.plot import check_path, save
from emulation.traces import default_traces
from experiments import campaign
from experiments.fidelity.judge import compare, reductions_of, verdicts_of
from experiments.fidelity.kernels import Outcome, Request, make_runs
from experiments.fidelity.plan import DEFAULT_PLAN, Pieces, Plan, cases_of, load_plan
from experiments.fidelity.report import document_of, print_report
from experiments.fidelity.runs import Store, read_record, write_record
from kmod.terminal import counted, echo

WORK = Path("build") / "fidelity"
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
Show = Callable[[str, int, int], None]


@click.command("fidelity")
@click.option(
    "--plan",
    "plan_path",
    type=FILE,
    default=DEFAULT_PLAN,
    help="Scenarios, algorithms, targets.  [default: configs/fidelity.yaml]",
)
@click.option("--only", "patterns", multiple=True, metavar="PATTERN", help="Cases with this in their name, or * and ?.")
@click.option(
    "--runner", "runners", multiple=True, type=click.Choice(["mahimahi", "vm"]), help="Only what is compared on it."
)
@click.option("--short", is_flag=True, help="A few cases on this machine's kernel, in some minutes.")
@click.option("--runs", type=click.IntRange(1, 100), help="Real runs of each case.  [default: the plan's]")
@click.option("--seeds", type=click.IntRange(1, 1000), help="Simulated runs of each case.  [default: the plan's]")
@click.option("--traces", type=click.Path(path_type=Path), help="Recorded traces.  [default: as ccatune evaluate]")
@click.option("--work", type=FOLDER, default=WORK, show_default=True, help="Where runs are kept.")
@click.option("--alone", is_flag=True, help="No two runs at a time on this machine's kernel: slower, undisturbed.")
@click.option("--redo-disturbed", is_flag=True, help="Repeat the runs on this machine that are marked ~.")
@click.option("--kept", is_flag=True, help="Run nothing; judge the runs that are kept.")
@click.option("--recorded", type=FILE, help="Judge the real runs in this file, whatever made them; starts no real run.")
@click.option("--run-missing", is_flag=True, help="With --recorded: run the real runs that the file lacks.")
@click.option("--record", type=FILE, help="Write the undisturbed real runs that there are now into this file.")
@click.option("--list", "list_only", is_flag=True, help="Show the cases and which of their runs are kept.")
@click.option("--plot", type=FILE, help="Draw the errors of all cases into this file.")
@click.option("--enforce", is_flag=True, help="Exit 1 where a target is missed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *, plan_path: Path, patterns: tuple[str, ...], runners: tuple[str, ...], short: bool, runs: int | None,
    seeds: int | None, traces: Path | None, work: Path, alone: bool, redo_disturbed: bool, kept: bool,
    recorded: Path | None, run_missing: bool, record: Path | None, list_only: bool, plot: Path | None,
    enforce: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run the same scenarios in the simulator and on real kernels over Mahimahi, and print each error.

    Finished runs are kept. An interrupted command therefore continues where it stopped, and a run is repeated only if
    something that it depends on has changed. A record makes real runs available on other machines and to later
    versions. The report says which recorded runs were made by another kernel or by other sources, and which runs of the
    plan the record lacks.

    \b
    Example:
      python -m experiments fidelity --short
      python -m experiments fidelity --plot fidelity.png --enforce
      python -m experiments fidelity --recorded experiments/recorded/fidelity.jsonl
    """
    _check_recorded(recorded, short=short, run_missing=run_missing, redo_disturbed=redo_disturbed, kept=kept)
    if plot is not None:
        check_path(plot)
    if record is not None:
        check_output(record)
    if record is not None and (patterns or runners or short):
        raise click.UsageError("--record: expected all cases, since it replaces the file; leave out --only, --runner")
    plan = load_plan(plan_path)
    if not (list_only or kept):
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"--work: expected a folder, got {work}, which cannot be made ({error.strerror})"
            raise click.UsageError(message) from error
    with _progress() as show:
        pieces = Pieces(traces or default_traces(), progress=lambda name: show(f"reading {name}", 0, 0))
        cases = cases_of(plan, source=plan_path, pieces=pieces, patterns=patterns, runners=runners, short=short)
    if not cases:
        raise click.UsageError(
            "expected cases of the plan, got none by that name; see `python -m experiments fidelity --list`"
        )
    request = Request(
        cases=tuple(cases),
        runs=runs or (plan.short.runs if short else plan.runs),
        seeds=seeds or plan.seeds,
        store=Store(work / "runs", record=() if recorded is None else read_record(recorded)),
        simulated=campaign.Store(work / "simulated", campaign.sources_digest("experiments/fidelity/runs.py")),
        alone=alone,
        redo_disturbed=redo_disturbed,
        starts_real_runs=recorded is None or run_missing,
    )
    if list_only:
        _list(request, as_json=as_json)
        return
    with _progress() as show:
        outcomes = make_runs(request, progress=show, only_kept=kept)
    if record is not None:
        write_record(record, [run for outcome in outcomes for run in outcome.real])
    hint = "; --run-missing runs them" * (not request.starts_real_runs)
    _report(plan, outcomes, hint=hint, as_json=as_json, enforce=enforce, plot=plot)


def _check_recorded(recorded: Path | None, *, short: bool, run_missing: bool, redo_disturbed: bool, kept: bool) -> None:
    """Refuse options that contradict each other, or that have no effect together. Raises click.UsageError."""
    if recorded is not None and short:
        raise click.UsageError("--recorded: expected the plan's own durations, which --short cuts; leave one out")
    if recorded is not None and redo_disturbed and not run_missing:
        raise click.UsageError("--redo-disturbed: expected --run-missing beside --recorded, which starts no real run")
    if run_missing and (recorded is None or kept):
        raise click.UsageError("--run-missing: expected --recorded beside it, and not --kept")


@contextmanager
def _progress() -> Iterator[Show]:
    """Yield a function that shows progress bars on a terminal, one for each of its names. It shows none elsewhere."""
    console = as_written(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bars = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total or None)
            progress.update(bars[what], completed=done)

        yield show


def _list(request: Request, *, as_json: bool) -> None:
    outcomes = make_runs(request, progress=lambda *_: None, only_kept=True)
    rows = [_row(outcome, request) for outcome in outcomes]
    if as_json:
        echo(json.dumps(rows))
        return
    width = max(len(str(row["case"])) for row in rows)
    for row in rows:
        kept = f"{row['real']} of {row['runs']} real, {row['simulated']} of {row['seeds']} simulated"
        what = f"cannot run: {row['cannot_run']}" if row["cannot_run"] else f"{row['duration_s']:g} s, {kept}"
        echo(f"{row['case']:<{width}}  {row['runner']:<8}  {what}")
    echo(f"{counted(len(rows), 'case')} of {counted(len({o.case.name for o in outcomes}), 'scenario')}")


def _row(outcome: Outcome, request: Request) -> dict[str, object]:
    case = outcome.case
    return {
        "case": case.key,
        "runner": case.runner,
        "duration_s": None if case.scenario is None else case.scenario.duration_s,
        "runs": request.runs * case.times,
        "seeds": request.seeds * case.times,
        "real": len(outcome.real),
        "simulated": len(outcome.simulated),
        "cannot_run": outcome.refused,
    }


def _report(
    plan: Plan, outcomes: Sequence[Outcome], *, hint: str, as_json: bool, enforce: bool, plot: Path | None
) -> None:
    comparisons = compare(plan, outcomes)
    reductions = reductions_of(plan, outcomes)
    verdicts = verdicts_of(plan, outcomes, comparisons)
    if plot is not None and comparisons:
        from experiments.fidelity.plot import errors_figure

        save(errors_figure(comparisons), path=plot)
    if as_json:
        echo(json.dumps(document_of(outcomes, comparisons, reductions, verdicts)))
    else:
        print_report(outcomes, comparisons, reductions, verdicts, hint=hint)
        if plot is not None and comparisons:
            echo(f"picture: {plot}")
    if not comparisons:
        raise EmulationError(
            "expected runs to judge, got none; `python -m experiments fidelity --list` shows which are kept, "
            "and what cannot run"
        )
    if enforce and not all(verdict.holds for verdict in verdicts):
        click.get_current_context().exit(1)
