# SPDX-License-Identifier: MIT
"""`ccatune pantheon test`: runs schemes over one or several links, and resumes interrupted tests.

The metadata of a data folder contains the verdict on each finished run. A test can be resumed if its link, flows and
times are equal to those of the folder. A resumed test may have more schemes and more runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from emulation.errors import EmulationError
from emulation.mahimahi.machine import LATE_MOST, Watch
from emulation.mahimahi.processors import kept_awake
from emulation.options import FiniteRange, words_of
from emulation.pantheon.cli import ensembles_of, pantheon, parameters_of
from emulation.pantheon.data_folder import alone_in, begin, described, remove_unfinished
from emulation.pantheon.links import TestLink, link_of_file, link_of_folder, link_of_options, shells_of
from emulation.pantheon.metadata import RunNote, write_metadata
from emulation.pantheon.runner import PlannedTest, RunKey, TestSettings, Verdict
from emulation.pantheon.runner import run_tests as run_all
from emulation.pantheon.schemes import read_schemes, schemes_of
from emulation.printing import as_written
from kmod.ensemble import Ensemble
from kmod.terminal import counted, echo

# A run with its shells, two captures and the ends of its flows. With three runs on two processors 1.5 % of the timers
# were late, with two 0.4 to 0.7 %. A run is disturbed from 1 % on.
_CORES_PER_RUN = 1.0
_FILES = click.Path(path_type=Path, exists=True, dir_okay=False)
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@pantheon.command()
@click.argument("mode", type=click.Choice(["local", "remote"]), default="local")
@click.option(
    "--schemes", "names", metavar='"SCHEME1 SCHEME2..."', help="Schemes to run. gr-50ms: gr in its 50 ms delay class."
)
@click.option("--all", "every", is_flag=True, help="Run all schemes.")
@click.option("--pantheon", "checkout", type=_FOLDER, help="Use the schemes of this checkout of Pantheon.")
@click.option("--emulator", "emulators", type=_FILES, multiple=True, help="The file of a link; once for each link.")
@click.option("--link-of", type=_FOLDER, help="Use the link of this data folder.")
@click.option("--uplink-trace", "uplink", type=_FILES, help="The trace of the link from senders to receivers.")
@click.option("--downlink-trace", "downlink", type=_FILES, help="The trace of the link from receivers to senders.")
@click.option("--prepend-mm-cmds", "prepend", default="", metavar='"CMD..."', help="Shells outside of mm-link.")
@click.option("--append-mm-cmds", "append", default="", metavar='"CMD..."', help="Shells inside of mm-link.")
@click.option("--extra-mm-link-args", "extra", default="", metavar='"ARG..."', help="Options of mm-link's queues.")
@click.option(
    "--start-s",
    type=FiniteRange(0, 86400),
    default=0.0,
    show_default=True,
    help="Place in the traces at which the first flow starts. In Pantheon, about 3 s.",
)
@click.option(
    "-f", "--flows", type=click.IntRange(1, 200), default=1, show_default=True, help="Number of flows in a run."
)
@click.option(
    "-t", "--runtime", type=click.IntRange(1, 3600), default=30, show_default=True, help="Duration of a run in s."
)
@click.option("--interval", type=click.IntRange(0), default=0, show_default=True, help="Time between flow starts in s.")
@click.option(
    "--run-times", type=click.IntRange(1, 1000), default=1, show_default=True, help="Number of runs of each scheme."
)
@click.option("--random-order", is_flag=True, help="Run the schemes in random order.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of --random-order.")
@click.option(
    "--ensemble", "ensembles", multiple=True, metavar="CCA=FILE", help="The ensemble of an algorithm's flows."
)
@click.option("--param", "params", multiple=True, metavar="CCA.NAME=VALUE", help="A parameter of an algorithm's flows.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), required=True, help="The folder for the results."
)
@click.option("--jobs", type=click.IntRange(1), help="Number of runs in parallel.  [as many as the processors carry]")
@click.option("--resume/--fresh", default=None, help="Continue the test in the data folder, or begin it again.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON, without a progress bar.")
def test(
    *,
    mode: str,
    names: str | None,
    every: bool,
    checkout: Path | None,
    data_dir: Path,
    jobs: int | None,
    resume: bool | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Run schemes over links that Mahimahi emulates, and write the files that Pantheon writes.

    If a scheme crashes, hangs or sends nothing, only that run fails. The exit status is 1 if a run failed.

    \b
    Example:
      ccatune pantheon test --schemes "cubic bbr" --emulator configs/emulators/poisson-12mbps.yaml --data-dir out
      ccatune pantheon test --schemes "gr-50ms gr-100ms" --ensemble gr=gr.json --link-of out --data-dir gr-out
      ccatune pantheon test --all --pantheon ~/pantheon --uplink-trace a.up --downlink-trace a.down --data-dir theirs
    """
    if mode == "remote":
        raise click.UsageError(
            "mode: expected local, got remote, which requires a shell on another machine and clocks equal within 1 ms. "
            "Run the schemes between two machines with Pantheon itself, and read Pantheon's data folder with "
            "`ccatune pantheon analyze`"
        )
    if every == (names is not None):
        raise click.UsageError("expected either --schemes or --all")
    by_options = {name: given[name] for name in ("uplink", "downlink", "prepend", "append", "extra")}
    links = links_of(given["emulators"], given["link_of"], by_options)
    links = [replace(link, start_s=given["start_s"]) for link in links]
    known = read_schemes(checkout)
    chosen = tuple(known.values()) if every else tuple(schemes_of(words_of(names or ""), known))
    if not chosen:
        raise click.UsageError("--schemes: expected at least one, got none")
    if (given["flows"] - 1) * given["interval"] >= given["runtime"]:
        raise click.UsageError("--interval: expected the last flow to start before --runtime has passed")
    loaded = {cca: Ensemble.load(path) for cca, path in ensembles_of(given["ensembles"]).items()}
    for cca, ensemble in loaded.items():
        if ensemble.cca != cca:
            raise EmulationError(f"--ensemble: expected an ensemble of {cca}, got one of {ensemble.cca}")
    _check(links, data_dir)
    tests = []
    for link in links:
        folder = data_dir if len(links) == 1 else data_dir / link.name
        settings = TestSettings(
            schemes=chosen,
            link=link,
            flows=given["flows"],
            runtime_s=given["runtime"],
            interval_s=given["interval"],
            run_times=given["run_times"],
            order_seed=given["seed"] if given["random_order"] else None,
            ensembles=loaded,
            parameters=parameters_of(given["params"]),
        )
        tests.append((settings, folder, begin(settings, folder, resume=resume)))
    verdicts = run_tests(tests, jobs=jobs or default_jobs(), quiet=as_json)
    _say_late(verdicts)
    if as_json:
        echo(json.dumps(verdicts, indent=1))
    elif all(row["verdict"] == "ok" for row in verdicts):
        runs = counted(len(verdicts), "run")
        echo(f"{data_dir}: {runs}, all ok; `ccatune pantheon report --data-dir {data_dir}` reports them")
    if any(row["verdict"] != "ok" for row in verdicts):
        sys.exit(1)


def _check(links: Sequence[TestLink], data_dir: Path) -> None:
    """Find errors in the options before anything is written. Raises EmulationError or click.UsageError."""
    for link in links:
        shells_of(link)
        link.opportunities_ms(1)
    if data_dir.resolve().is_relative_to("/run"):
        raise click.UsageError(
            "--data-dir: expected a folder outside of /run, which runs do not see; choose another one"
        )


def default_jobs() -> int:
    """Return how many runs the processors of this process can carry in parallel."""
    return max(1, int(len(os.sched_getaffinity(0)) / _CORES_PER_RUN))


def links_of(emulators: Sequence[Path], link_of: Path | None, options: dict[str, Any]) -> list[TestLink]:
    """Return the links of a test.

    Raises click.UsageError if the links are not specified in exactly one way, or a trace is missing.
    """
    ways = [bool(emulators), link_of is not None, any(options.values())]
    if sum(ways) != 1:
        raise click.UsageError(
            "expected the link in one of three ways: --emulator, --link-of, or --uplink-trace and --downlink-trace"
        )
    if emulators:
        links = [link_of_file(path) for path in emulators]
        if len({link.name for link in links}) < len(links):
            raise click.UsageError("--emulator: expected emulators with different names, got the same name twice")
        return links
    if link_of is not None:
        return [link_of_folder(link_of)]
    if options["uplink"] is None or options["downlink"] is None:
        raise click.UsageError("expected both --uplink-trace and --downlink-trace")
    return [link_of_options(**options, name=options["uplink"].stem)]


Test = tuple[TestSettings, Path, dict[str, dict[int, RunNote]]]
"""A test, its data folder, and the notes on its finished runs (see data_folder.begin)."""


def run_tests(tests: Sequence[Test], *, jobs: int, quiet: bool) -> list[dict[str, Any]]:
    """Execute the runs of all tests, write each verdict into its data folder, and return a row for each run.

    Raises EmulationError if the machine lacks a program or permission, or an algorithm cannot be loaded.
    """
    with contextlib.ExitStack() as stack:
        for _, folder, _ in tests:
            stack.enter_context(alone_in(folder))
        return _run_alone(tests, jobs=jobs, quiet=quiet)


def _run_alone(tests: Sequence[Test], *, jobs: int, quiet: bool) -> list[dict[str, Any]]:
    console = as_written(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    planned = []
    for settings, folder, notes in tests:
        written = replace(settings, link=settings.link.written(folder))
        done = frozenset(RunKey(scheme, run) for scheme, runs in notes.items() for run in runs)
        write_metadata(described(written, notes), folder)
        planned.append(PlannedTest(written, folder, done))
        remove_unfinished(planned[-1])
    total = sum(len(settings.order()) for settings, _, _ in tests)
    left_out = sum(len(one.done & set(one.settings.order())) for one in planned)
    silent = quiet or not console.is_terminal
    bar = Progress(*columns, console=console, transient=True, disable=silent)
    with bar, kept_awake(), Watch(timers=True) as machine:
        task = bar.add_task("pantheon", total=total, completed=left_out)

        def each(number: int, key: RunKey, verdict: Verdict) -> None:
            settings, folder, notes = tests[number]
            late_share = machine.during_a_run(settings.runtime_s).late_share
            note = RunNote(verdict=verdict.kind, reason=verdict.reason, late_share=late_share)
            notes.setdefault(key.scheme, {})[key.run] = note
            write_metadata(described(settings, notes), folder)
            bar.advance(task)
            if verdict.kind != "ok" and not quiet:
                echo(f"{settings.link.name}: {key}: {verdict.kind}: {verdict.reason}", err=True)

        run_all(planned, each, jobs=jobs)
    figures = {"verdict", "reason", "late_share"}
    return [
        {
            "link": settings.link.name,
            "scheme": key.scheme,
            "run": key.run,
            **notes[key.scheme][key.run].model_dump(include=figures),
        }
        for settings, _, notes in tests
        for key in settings.order()
    ]


def _say_late(verdicts: Sequence[dict[str, Any]]) -> None:
    """Warn of runs during which many timers, and thus Mahimahi's shells, were late."""
    late = [row for row in verdicts if (row["late_share"] or 0) > LATE_MOST]
    if late:
        first = late[0]
        echo(
            f"{len(late)} of {len(verdicts)} runs were disturbed, such as {first['link']}, {first['scheme']} run "
            f"{first['run']}: {first['late_share']:.1%} of the machine's timers were late. The delays of disturbed "
            "runs may be too long; repeat these runs on a quiet machine, or with --jobs 1",
            err=True,
        )
