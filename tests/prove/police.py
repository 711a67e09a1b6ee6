# SPDX-License-Identifier: MIT
"""Files behind a police action of a real kernel, beside the simulator: how much less R-TCP's modules retransmit.

    python -m tests.prove.police [--only op1-4mb] [--json] [--work build/police]

The cases are those of configs/fidelity-rtcp.yaml, which runs them over Mahimahi with a policer of nftables. Here the
path is made of network namespaces: a token bucket filter is the access link, tc's police action the limiter, and netem
delays the way back. A boot of the guest, by its own clock, for each run of all cases; the simulator has the path as it
stands in the plan, less Mahimahi's clocks (path_of_guest). As there, a reduction agrees where the kernel's median lies
among the simulator's seeds. Exits 0 where all do. Boots that are over are kept in --work, as long as programs and
modules are the same, so that what was stopped goes on.

Both sides have to have the same limiter: a file takes (its packets - B) / R with it, which a run's time shows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import statistics
import sys
import threading
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import click

from emulation import Jitter, Policer, Scenario, Shaper, simulate_many
from emulation.vm import FULL_LINE, LINES, GuestError, build_modules, run_in_guest
from experiments.fidelity.judge import Middle, Reduction
from experiments.fidelity.plan import Case, Pieces, Plan, cases_of, load_plan
from tests.vm import boot

PLAN = boot.REPOSITORY / "configs" / "fidelity-rtcp.yaml"
PROGRAM = Path(__file__).with_name("police_guest.py")
EMULATION = boot.REPOSITORY / "emulation"
SOURCES = (
    PROGRAM,
    boot.GUEST / "limited.py",
    boot.GUEST / "tree.py",
    EMULATION / "vm" / "guest.py",
    boot.GUEST / "inside.py",
    EMULATION / "mahimahi" / "namespace" / "traffic.py",
)
# A packet's way through the guest's namespaces takes longer where its one processor has others to carry: smoothed
# round trips of single packets were 0 to 0.2 ms above the shortest, 0.05 in the median. Nothing else tells CUBIC's
# seeds apart.
JITTER_MS = 0.1
# The token bucket that is the access link (tests/vm/guest/inside.py): 3000 bytes of frames, here of IP packets. What
# leads to it passes at once.
LINK_BUCKET_BYTES = 3000 * 1500 // 1514
AT_ONCE_MBPS = 100_000
# Of a file's time, on both sides, to the least that the limiter allows and to each other.
TIME_TOLERANCE = 0.005
RESULTS, LOG = "results.jsonl", "log.json"
BOOT_S, CASE_S = 600, 300
LOOK_S = 5.0


@dataclass(frozen=True)
class Sent:
    """A file: which share of the segments were sent again, and how long it took."""

    resent: float
    seconds: float


@dataclass(frozen=True)
class Sides:
    """Of a case's runs."""

    kernel: list[Sent]
    simulator: list[Sent]


def run_of(case: Case) -> dict[str, Any]:
    """What the guest receives of a case: a link with one policer behind it, and one file."""
    assert case.scenario is not None
    link, (flow,) = case.scenario.link, case.scenario.flows
    (policer,), (file,) = link.behind, flow.transfers
    assert isinstance(policer, Policer)
    return {
        "case": case.key,
        "kernel_cca": case.cca,
        "rate_mbps": link.rate_mbps,
        "rtt_ms": link.rtt_ms,
        "buffer_pkts": link.buffer_pkts,
        "limit_mbps": policer.rate_mbps,
        "bucket_bytes": policer.bucket_bytes,
        "size_bytes": file.size_bytes,
    }


def booted(line: str, runs: list[dict[str, Any]], *, folder: Path) -> dict[str, Sent]:
    """Each case, once.

    Raises:
        click.ClickException: the guest failed, its kernel logged something, or a file did not arrive.
    """
    built = build_modules(line)
    modules = [str(built.paths[name]) for name in sorted(built.paths, key=lambda name: (name != "ccatune", name))]
    job = json.dumps({"modules": modules, "runs": runs, "digest": digest_of(*SOURCES, *map(Path, modules))})
    if not is_over(folder, job):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "runs.json").write_text(job, encoding="utf-8")
        boot_guest(line, folder, cases=len(runs))
    complaints = [said for said in json.loads((folder / LOG).read_text()) if not boot.EXPECTED.search(said)]
    found = [json.loads(said) for said in (folder / RESULTS).read_text().splitlines()]
    short = [
        f"{run['case']}: expected {run['size_bytes']} bytes acknowledged, got {result['acked_bytes']}"
        for run, result in zip(runs, found, strict=True)
        if result["acked_bytes"] < run["size_bytes"]
    ]
    if complaints or short:
        (folder / LOG).unlink()  # it is not over, and runs anew
        logged = [f"kernel {line}: expected nothing in its log, it said {complaints}"] if complaints else []
        raise click.ClickException("; ".join([*logged, *short]))
    return {each["case"]: Sent(each["resent_pkts"] / each["sent_pkts"], each["seconds"]) for each in found}


def digest_of(*paths: Path) -> str:
    """Of what is in these files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def is_over(folder: Path, job: str) -> bool:
    """Whether a boot of the same job is in this folder, with its results; the log is written last."""
    return (folder / LOG).exists() and (folder / "runs.json").read_text(encoding="utf-8") == job


def boot_guest(line: str, folder: Path, *, cases: int) -> None:
    """Run what the folder asks for."""
    command = [boot.python(), "-I", "-S", str(PROGRAM), str(boot.REPOSITORY)]
    try:
        done = run_in_guest(line, command, timeout_s=BOOT_S + CASE_S * cases, files=folder, own_clock=True)
    except GuestError as error:
        raise click.ClickException(f"kernel {line}: {error}") from error
    if done.status:
        raise click.ClickException(f"kernel {line}: expected the files sent, the guest ended with {done.stderr}")


def on_kernel(line: str, cases: list[Case], *, runs: int, work: Path) -> list[dict[str, Sent]]:
    """Each boot's files. A guest with a clock of its own takes one processor and minds no other."""
    asked = [run_of(case) for case in cases]
    # Some of the cases have folders of their own, and leave those of all alone.
    these = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:8]
    folders = [work / f"{line}-{these}-{number}" for number in range(runs)]
    over = threading.Event()

    def tell() -> None:
        while not over.wait(LOOK_S):
            files = [folder / RESULTS for folder in folders]
            count = sum(len(file.read_bytes().splitlines()) for file in files if file.exists())
            click.echo(f"\r{count} of {runs * len(asked)} files sent", nl=False, err=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        # Its threads are daemons, so that Ctrl-C ends the program, and thereby the guests.
        with ThreadPool(len(os.sched_getaffinity(0))) as pool:
            return list(pool.imap_unordered(lambda folder: booted(line, asked, folder=folder), folders))
    finally:
        over.set()
        teller.join()
        click.echo(err=True)


def path_of_guest(scenario: Scenario) -> Scenario:
    """The same over the path that the guest's namespaces make."""
    link = scenario.link
    assert link.rate_mbps is not None
    queue_bytes = 1500 * link.buffer_pkts
    access = Shaper(rate_mbps=link.rate_mbps, bucket_bytes=LINK_BUCKET_BYTES, queue_bytes=queue_bytes)
    behind = (access, *link.behind, Jitter(max_ms=JITTER_MS))
    changed = link.model_copy(update={"rate_mbps": AT_ONCE_MBPS, "behind": behind})
    return scenario.model_copy(update={"link": changed})


def simulated(scenario: Scenario, *, seeds: int) -> list[Sent]:
    """A file a seed.

    Raises:
        click.ClickException: one did not arrive.
    """
    scenario = path_of_guest(scenario)
    runs = simulate_many([scenario.model_copy(update={"seed": seed}) for seed in range(seeds)])
    found = []
    for run in runs:
        seconds = run.flows[0].complete_s
        if seconds is None:
            raise click.ClickException(
                f"{scenario.name}: expected the file sent in {scenario.duration_s:g} s simulated"
            )
        found.append(Sent(run.retransmission_rate, seconds))
    return found


def with_another_limiter(cases: list[Case], sides: dict[str, Sides]) -> list[str]:
    """Cases whose files took less time than R and B allow, or on one side not as long as on the other."""
    found = []
    for case in cases:
        run, side = run_of(case), sides[case.key]
        packets = -(-run["size_bytes"] // 1448)
        least_s = (packets * 1500 - run["bucket_bytes"]) / (run["limit_mbps"] * 125_000)
        kernel_s, simulator_s = (statistics.median(sent.seconds for sent in of) for of in (side.kernel, side.simulator))
        too_soon = min(kernel_s, simulator_s) < (1 - TIME_TOLERANCE) * least_s
        if too_soon or abs(kernel_s / simulator_s - 1) > TIME_TOLERANCE:
            figures = f"{kernel_s:.2f} s on the kernel, {simulator_s:.2f} simulated, {least_s:.2f} at least"
            found.append(f"{case.key}: {figures}")
    return found


def reductions(plan: Plan, cases: list[Case], sides: dict[str, Sides]) -> list[Reduction]:
    """Run by run and seed by seed."""
    found = []
    for case in cases:
        base = plan.reductions.get(case.cca)
        if base is None or f"{case.name}/{base}" not in sides:
            continue
        its, of = sides[case.key], sides[f"{case.name}/{base}"]
        kernel, simulator = less(its.kernel, of.kernel), less(its.simulator, of.simulator)
        found.append(Reduction(case.name, case.cca, base, Middle.of(kernel), Middle.of(simulator)))
    return found


def less(its: list[Sent], of: list[Sent]) -> list[float]:
    """Shares; behind these limiters every base resends."""
    return [1 - sent.resent / base.resent for sent, base in zip(its, of, strict=True)]


def resent(side: list[Sent]) -> Middle:
    """Of a side's runs."""
    return Middle.of([sent.resent for sent in side])


def percent(middle: Middle) -> str:
    """Median, least and greatest."""
    return f"{100 * middle.median:5.1f} [{100 * middle.least:.1f}, {100 * middle.most:.1f}]"


@click.command()
@click.option("--only", "patterns", multiple=True, help="Only these scenarios or cases (op1-4mb, op1-4mb/cubic).")
@click.option("--kernel", "line", default=FULL_LINE, show_default=True, type=click.Choice(LINES))
@click.option("--runs", type=click.IntRange(1), help="Boots, instead of the plan's.")
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/police"),
    show_default=True,
    help="Where boots are kept, with four samples a second of each file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every run's rate as JSON.")
def main(*, patterns: tuple[str, ...], line: str, runs: int | None, work: Path, as_json: bool) -> None:
    """Compare, and exit 0 where each reduction agrees. Example: python -m tests.prove.police --only op1-4mb"""
    plan = load_plan(PLAN)
    # None of its links is a piece of a recording.
    cases = cases_of(plan, source=PLAN, pieces=Pieces(None), patterns=patterns)
    if not cases:
        raise click.UsageError(f"--only: expected scenarios or cases of {PLAN.name}, got {', '.join(patterns)}")
    keys = {case.key for case in cases}
    if not any(f"{case.name}/{plan.reductions.get(case.cca)}" in keys for case in cases):
        raise click.UsageError(f"--only: expected a case of R-TCP's with the one it stands on, got {', '.join(keys)}")
    boots = on_kernel(line, cases, runs=runs or plan.runs, work=work)
    sides = {}
    for case in cases:
        assert case.scenario is not None
        sides[case.key] = Sides([files[case.key] for files in boots], simulated(case.scenario, seeds=plan.seeds))
    found, strange = reductions(plan, cases, sides), with_another_limiter(cases, sides)
    holds = all(each.agrees for each in found) and not strange
    if as_json:
        files = {key: dataclasses.asdict(side) for key, side in sides.items()}
        agree = {f"{each.scenario}/{each.cca}": each.agrees for each in found}
        click.echo(json.dumps({"kernel": line, "files": files, "reduction_agrees": agree, "another_limiter": strange}))
    else:
        print_report(sides, found, strange)
        click.echo(
            f"medians of {len(boots)} boots of Linux {line} and {plan.seeds} seeds; least and greatest in brackets"
        )
        count = sum(each.agrees for each in found)
        click.echo(f"reductions: {count} of {len(found)} on the kernel lie among the simulator's")
    sys.exit(0 if holds else 1)


def print_report(sides: dict[str, Sides], found: list[Reduction], strange: list[str]) -> None:
    """Tables for people."""
    click.echo(f"{'retransmitted, %':<22} {'kernel':<22} simulator")
    for key, side in sides.items():
        click.echo(f"{key:<22} {percent(resent(side.kernel)):<22} {percent(resent(side.simulator))}")
    click.echo(f"\n{'less than its base, %':<22} {'kernel':<22} simulator")
    for each in found:
        figures = f"{percent(each.real):<22} {percent(each.simulated):<22} {'agrees' if each.agrees else 'differs'}"
        click.echo(f"{each.scenario + '/' + each.cca:<22} {figures}")
    for said in strange:
        click.echo(f"not the same limiter: {said}")


if __name__ == "__main__":
    main()
